"""What is done about a death: every case, as pure values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.core.command import Command
from app.core.model import Cause, Fix
from app.core.vocabulary import Action, Category, Confidence, Mode, Phase, Safety
from app.service.policy import Before, Do, Limits, Situation, multi_node, plan
from app.store.views import AttemptView, FixRecord
from app.store.words import AttemptKind, AttemptOutcome

AT = datetime(2026, 1, 12, tzinfo=UTC)
COMMAND = Command.parse(
    ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--num-speculative-tokens", "16"]
)


def change(
    rule: str = "any/unknown-argument", fix: Fix | None = None, command: Command = COMMAND, **more: object
) -> Cause:
    fix = fix or Fix(rename={"--num-speculative-tokens": "--speculative-num-draft-tokens"})
    cause = Cause(
        rule=rule,
        category=Category.UNKNOWN_ARGUMENT,
        title=f"Title of {rule}",
        explanation="because",
        confidence=Confidence.HIGH,
        action=Action.CHANGE,
        fix=fix,
        safety=Safety.SAFE,
        command=command.apply(fix).words(),
        trusted=True,
    )
    return replace(cause, **more)  # type: ignore[arg-type]


KILLED = Cause(
    rule="any/killed-by-signal",
    category=Category.KILLED_BY_SIGNAL,
    title="Killed by SIGKILL",
    explanation="because",
    confidence=Confidence.MEDIUM,
    action=Action.RESTART,
    safety=Safety.SAFE,
    trusted=True,
)
UNKNOWN = Cause("any/unknown-failure", Category.UNKNOWN, "Failed", "nothing is known", Confidence.LOW)


def attempt(
    command: Command,
    fix: Fix | None = None,
    *,
    rule: str = "any/unknown-argument",
    fingerprint: str = "first",
    outcome: AttemptOutcome = AttemptOutcome.FAILED,
    kind: AttemptKind = AttemptKind.RELAUNCH,
    safety: Safety = Safety.SAFE,
) -> AttemptView:
    return AttemptView(
        id=1,
        incident_id=1,
        server="s",
        proposal_id=None,
        kind=kind,
        rule=rule,
        fingerprint=fingerprint,
        fix=fix,
        safety=safety,
        loses=(),
        command=command.words(),
        command_hash="",
        approved_by=None,
        outcome=outcome,
        started_at=AT,
        ended_at=AT,
    )


def died(*causes: Cause, command: Command = COMMAND, **more: object) -> Situation:
    now = Situation(Mode.AUTO, causes, command, fingerprint="now", commands=(command.words(),))
    return replace(now, **more)  # type: ignore[arg-type]


# -- what the mode says


def test_mode_off_does_nothing() -> None:
    assert plan(died(change(), mode=Mode.OFF)).do is Do.NOTHING


def test_auto_relaunches_with_a_safe_fix_at_once() -> None:
    decided = plan(died(change()))

    assert (decided.do, decided.delay) == (Do.RELAUNCH, 0.0)
    assert decided.command is not None
    assert decided.command.get("--speculative-num-draft-tokens") == "16"


@pytest.mark.parametrize("cause", [change(), KILLED])
def test_propose_asks_for_changes_and_restarts_alike(cause: Cause) -> None:
    assert plan(died(cause, mode=Mode.PROPOSE)).do is Do.PROPOSE


def test_an_unknown_cause_needs_a_human() -> None:
    decided = plan(died(UNKNOWN))

    assert (decided.do, decided.reason) == (Do.NEEDS_HUMAN, "the cause is not known")


def test_no_cause_at_all_needs_a_human() -> None:
    assert plan(died()).do is Do.NEEDS_HUMAN


def test_a_cause_without_a_fix_needs_a_human() -> None:
    cause = replace(change(), action=Action.NONE, fix=None, command=None)

    assert plan(died(cause)).reason == "Title of any/unknown-argument: no change of the command can mend that"


# -- what the machine may do alone


@pytest.mark.parametrize(
    ("cause", "allow", "do"),
    [
        (change(safety=Safety.DEGRADING), Safety.SAFE, Do.PROPOSE),
        (change(safety=Safety.DEGRADING), Safety.DEGRADING, Do.RELAUNCH),
        (change(safety=Safety.MANUAL), Safety.DEGRADING, Do.PROPOSE),
        (change(loses=("overlap",)), Safety.SAFE, Do.PROPOSE),
        (change(trusted=False), Safety.DEGRADING, Do.PROPOSE),
    ],
    ids=["degrading", "degrading allowed", "manual", "safe that loses something", "rule not stable"],
)
def test_auto_asks_for_what_it_may_not_do_alone(cause: Cause, allow: Safety, do: Do) -> None:
    assert plan(died(cause, allow=allow)).do is do


def test_the_fix_of_a_less_likely_cause_is_only_proposed() -> None:
    assert plan(died(UNKNOWN, change())).do is Do.PROPOSE


def test_a_launch_on_several_nodes_is_never_started_on_one_side() -> None:
    command = COMMAND.set("--nnodes", "2")

    assert multi_node(command) == 2
    assert plan(died(change(command=command), command=command)).do is Do.NEEDS_HUMAN
    assert plan(died(change(command=command), command=command, mode=Mode.PROPOSE)).do is Do.NEEDS_HUMAN


def test_one_node_is_not_several() -> None:
    assert multi_node(COMMAND.set("--nnodes", "1")) == 0


# -- after a change


FIRST = Fix(set={"--speculative-num-steps": "3"})
SECOND = Fix(set={"--speculative-eagle-topk": "4"})


def test_another_failure_after_a_fix_is_mended_in_turn() -> None:
    command = COMMAND.apply(FIRST)
    cause = change("sglang/other", SECOND, command)
    decided = plan(died(cause, command=command, attempts=(attempt(command, FIRST, fingerprint="earlier"),)))

    assert decided.do is Do.RELAUNCH
    assert decided.command is not None
    assert decided.command.get("--speculative-num-steps") == "3"


def test_the_same_failure_after_a_fix_means_that_the_fix_failed() -> None:
    command = COMMAND.apply(FIRST)
    tried = attempt(command, FIRST, rule="sglang/steps", fingerprint="now")
    decided = plan(died(change("sglang/steps", FIRST, command), command=command, attempts=(tried,)))

    assert decided.do is Do.NEEDS_HUMAN
    assert decided.reason == "the fix of sglang/steps failed: same failure again, and there is no other to try"


def test_the_next_candidate_is_tried_when_the_first_fix_failed() -> None:
    command = COMMAND.apply(FIRST)
    tried = attempt(command, FIRST, rule="sglang/steps", fingerprint="now")
    causes = (change("sglang/steps", FIRST, command), change("sglang/topk", SECOND, command))
    decided = plan(died(*causes, command=command, attempts=(tried,)))

    assert (decided.do, decided.cause) == (Do.RELAUNCH, causes[1])
    assert decided.reason.startswith("the fix of sglang/steps failed: same failure again; ")


def test_a_degrading_fix_that_failed_is_taken_back_before_the_next() -> None:
    command = COMMAND.apply(FIRST)
    tried = attempt(command, FIRST, rule="sglang/steps", fingerprint="now", safety=Safety.DEGRADING)
    causes = (change("sglang/topk", SECOND, command),)
    before = Before(COMMAND, Phase.STARTING, ())
    decided = plan(died(*causes, command=command, attempts=(tried,), before=before))

    assert decided.command is not None
    assert not decided.command.has("--speculative-num-steps")
    assert decided.command.get("--speculative-eagle-topk") == "4"


def test_the_same_changed_command_is_never_tried_twice() -> None:
    cause = change("sglang/steps", FIRST)
    before = attempt(COMMAND.apply(FIRST), FIRST, fingerprint="earlier")

    assert plan(died(cause, attempts=(before,))).do is Do.NEEDS_HUMAN


def test_a_command_that_already_crashed_in_this_incident_is_not_gone_back_to() -> None:
    command = COMMAND.apply(FIRST)
    cause = change("sglang/undo", Fix(remove=("--speculative-num-steps",)), command)
    decided = plan(died(cause, command=command, commands=(COMMAND.words(), command.words())))

    assert decided.do is Do.NEEDS_HUMAN


def test_a_fix_that_crashcart_did_not_survive_is_proposed_not_repeated() -> None:
    interrupted = attempt(COMMAND.apply(FIRST), FIRST, outcome=AttemptOutcome.INTERRUPTED)
    launched = (COMMAND.words(), COMMAND.apply(FIRST).words())
    decided = plan(died(change("sglang/steps", FIRST), attempts=(interrupted,), commands=launched))

    assert decided.do is Do.PROPOSE
    assert "interrupted" in decided.reason


def test_a_change_that_dies_earlier_is_rolled_back_to_the_next_candidate() -> None:
    command = COMMAND.apply(FIRST)
    causes_before = (change("sglang/steps", FIRST), change("sglang/topk", SECOND))
    decided = plan(
        died(
            change("any/bad", Fix(remove=("--model-path",)), command),
            command=command,
            phase=Phase.STARTING,
            attempts=(attempt(command, FIRST, fingerprint="earlier"),),
            before=Before(COMMAND, Phase.LOADING, causes_before),
        )
    )

    assert decided.rolled_back
    assert decided.command is not None
    assert decided.command.words() == COMMAND.apply(SECOND).words()
    assert decided.reason.startswith("the change made it die earlier (starting instead of loading) and is rolled back")


def test_a_rolled_back_change_without_another_candidate_needs_a_human() -> None:
    command = COMMAND.apply(FIRST)
    decided = plan(
        died(
            change("any/bad", SECOND, command),
            command=command,
            attempts=(attempt(command, FIRST, fingerprint="earlier"),),
            before=Before(COMMAND, Phase.LOADING, (change("sglang/steps", FIRST),)),
        )
    )

    assert (decided.do, decided.rolled_back) == (Do.NEEDS_HUMAN, True)


def test_a_death_from_outside_does_not_speak_against_the_change() -> None:
    command = COMMAND.apply(FIRST)
    decided = plan(
        died(
            KILLED,
            command=command,
            attempts=(attempt(command, FIRST, fingerprint="earlier"),),
            before=Before(COMMAND, Phase.LOADING, ()),
        )
    )

    assert decided.do is Do.RESTART


# -- opposite moves


def moved(value: str) -> Command:
    return COMMAND.set("--mem-fraction-static", value)


def test_two_failures_that_ask_for_opposite_moves_need_a_human() -> None:
    down, up = Fix(set={"--mem-fraction-static": "0.80"}), Fix(set={"--mem-fraction-static": "0.88"})
    decided = plan(
        died(
            change("any/kv-cache", up, moved("0.80")),
            command=moved("0.80"),
            commands=(moved("0.85").words(), moved("0.80").words()),
            attempts=(attempt(moved("0.80"), down, rule="any/oom", fingerprint="earlier"),),
        )
    )

    assert decided.do is Do.NEEDS_HUMAN
    assert decided.reason == (
        "two failures ask for opposite moves of --mem-fraction-static: from 0.85 to 0.80 (any/oom), "
        "now from 0.80 to 0.88"
    )


def test_a_further_step_in_the_same_direction_is_allowed() -> None:
    first, second = Fix(set={"--mem-fraction-static": "0.80"}), Fix(set={"--mem-fraction-static": "0.75"})
    decided = plan(
        died(
            change("any/oom", second, moved("0.80")),
            command=moved("0.80"),
            commands=(moved("0.85").words(), moved("0.80").words()),
            attempts=(attempt(moved("0.80"), first, rule="any/oom", fingerprint="now"),),
        )
    )

    assert decided.do is Do.RELAUNCH


def test_taking_away_what_a_fix_gave_is_an_opposite_move() -> None:
    command = COMMAND.apply(FIRST).apply(SECOND)
    decided = plan(
        died(
            change("sglang/undo", Fix(remove=("--speculative-num-steps",)), command),
            command=command,
            commands=(COMMAND.words(), COMMAND.apply(FIRST).words(), command.words()),
            attempts=(attempt(COMMAND.apply(FIRST), FIRST, fingerprint="earlier"),),
        )
    )

    assert decided.reason == (
        "two failures ask for opposite moves of --speculative-num-steps: set to 3 (any/unknown-argument), now removed"
    )


# -- budgets


def test_the_incidents_budget_of_relaunches_ends_in_a_human() -> None:
    tried = tuple(attempt(COMMAND.set("--seed", str(n)), fingerprint=str(n)) for n in range(5))

    assert plan(died(change(), attempts=tried[:4])).do is Do.RELAUNCH
    assert plan(died(change(), attempts=tried)).reason == "5 relaunches in this incident: that is the limit"


def test_no_relaunch_is_allowed_with_a_budget_of_none() -> None:
    assert plan(died(change(), limits=Limits(relaunches=0))).do is Do.NEEDS_HUMAN


@pytest.mark.parametrize("cause", [change(), KILLED])
def test_the_hours_budget_counts_both_kinds(cause: Cause) -> None:
    assert plan(died(cause, in_last_hour=9)).do in (Do.RELAUNCH, Do.RESTART)
    assert plan(died(cause, in_last_hour=10)).do is Do.NEEDS_HUMAN


@pytest.mark.parametrize(
    ("record", "do"),
    [
        (FixRecord(held=0, failed=1), Do.RELAUNCH),
        (FixRecord(held=0, failed=2), Do.PROPOSE),
        (FixRecord(held=1, failed=2), Do.RELAUNCH),
    ],
)
def test_a_fix_with_a_bad_record_for_this_failure_is_only_proposed(record: FixRecord, do: Do) -> None:
    assert plan(died(change(), record=record)).do is do


def test_every_further_relaunch_waits_longer() -> None:
    tried = tuple(attempt(COMMAND.set("--seed", str(n)), fingerprint=str(n)) for n in range(4))

    assert [plan(died(change(), attempts=tried[:n])).delay for n in range(4)] == [0.0, 0.5, 1.0, 2.0]


def test_how_often_a_fix_has_held_is_told() -> None:
    decided = plan(died(change(), record=FixRecord(held=3, failed=1)))

    assert decided.reason == "fix of any/unknown-argument (safe, held 3 of 4 times before)"


# -- what speaks against it from outside


BAD_DISK = replace(KILLED, category=Category.CORRUPT_CHECKPOINT)


@pytest.mark.parametrize(("others", "do"), [(("b",), Do.RESTART), (("b", "c"), Do.PROPOSE)])
def test_when_other_servers_fail_alike_a_person_looks_for_what_they_share(others: tuple[str, ...], do: Do) -> None:
    assert plan(died(BAD_DISK, others_alike=others)).do is do


def test_the_other_servers_are_named() -> None:
    reason = plan(died(BAD_DISK, others_alike=("b", "c"))).reason

    assert reason.endswith("2 other servers (b, c) just failed the same way: look for what they share")


def test_a_wrong_flag_on_many_servers_is_mended_on_each() -> None:
    """It was rolled out with the commands: nothing outside of them is broken."""
    assert plan(died(change(), others_alike=("b", "c", "d"))).do is Do.RELAUNCH


@pytest.mark.parametrize("cause", [change(), KILLED])
def test_what_a_person_muted_is_only_proposed(cause: Cause) -> None:
    decided = plan(died(cause, muted=True))

    assert decided.do is Do.PROPOSE
    assert decided.reason.endswith("not done alone, a person muted this incident")


@pytest.mark.parametrize("cause", [change(), KILLED])
def test_in_hours_without_automatic_actions_it_is_only_proposed(cause: Cause) -> None:
    decided = plan(died(cause, hands_off="Sat 02:00-06:00"))

    assert decided.do is Do.PROPOSE
    assert decided.reason.endswith("not done alone, it is Sat 02:00-06:00")


# -- when nothing is left


GOOD = Command.parse(["python3", "-m", "sglang.launch_server", "--model-path", "m", "--seed", "1"])


def test_when_nothing_is_left_the_command_that_worked_last_is_offered() -> None:
    decided = plan(died(UNKNOWN, last_good=GOOD))

    assert (decided.do, decided.command) == (Do.NEEDS_HUMAN, GOOD)
    assert decided.reason == "the cause is not known; an earlier command of this server worked"


@pytest.mark.parametrize("good", [COMMAND, GOOD])
def test_a_command_that_failed_in_this_incident_is_not_offered_as_one_that_worked(good: Command) -> None:
    decided = plan(died(UNKNOWN, last_good=good, commands=(GOOD.words(),)))

    assert decided.command is None


# -- restarts


def restarted(times: int) -> tuple[AttemptView, ...]:
    return tuple(attempt(COMMAND, kind=AttemptKind.RESTART, fingerprint="now") for _ in range(times))


def test_a_death_from_outside_is_answered_by_the_same_command() -> None:
    decided = plan(died(KILLED))

    assert (decided.do, decided.command) == (Do.RESTART, COMMAND)


def test_restarts_have_their_own_budget_and_back_off_with_jitter() -> None:
    assert [plan(died(KILLED, attempts=restarted(n))).delay for n in range(3)] == [2.0, 4.0, 8.0]
    assert [plan(died(KILLED, jitter=jitter)).delay for jitter in (0.0, 1.0)] == [1.0, 3.0]
    assert plan(died(KILLED, attempts=restarted(3))).reason == "3 restarts in this incident: that is the limit"


def test_relaunches_do_not_use_up_the_restarts() -> None:
    tried = tuple(attempt(COMMAND.set("--seed", str(n)), fingerprint=str(n)) for n in range(5))

    assert plan(died(KILLED, attempts=tried)).do is Do.RESTART


def test_a_crash_that_a_request_triggers_is_restarted_once_only() -> None:
    cause = replace(KILLED, category=Category.REQUEST_TRIGGERED_CRASH)

    assert plan(died(cause)).do is Do.RESTART
    assert plan(died(cause, attempts=restarted(1))).do is Do.NEEDS_HUMAN


@pytest.mark.parametrize("category", [Category.UNKNOWN_ARGUMENT, Category.CONFIG_FILE_ERROR])
def test_a_wrong_command_is_never_restarted(category: Category) -> None:
    assert plan(died(replace(KILLED, category=category))).do is Do.NEEDS_HUMAN


def test_a_restart_that_crashcart_did_not_survive_is_proposed() -> None:
    interrupted = attempt(COMMAND, kind=AttemptKind.RESTART, outcome=AttemptOutcome.INTERRUPTED)

    assert plan(died(KILLED, attempts=(interrupted,))).do is Do.PROPOSE


def test_a_restart_by_an_unproven_rule_is_proposed() -> None:
    assert plan(died(replace(KILLED, trusted=False))).do is Do.PROPOSE
