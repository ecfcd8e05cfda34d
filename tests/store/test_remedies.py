from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from app.core.errors import AlreadyTriedError, NotFoundError, StaleError
from app.core.model import Exit, Fix
from app.core.vocabulary import Action, IncidentStatus, Phase, Safety, ServerState
from app.store.store import Store
from app.store.views import FixRecord
from app.store.words import AttemptKind, AttemptOutcome, Decision, ProposalStatus, TransitionKind, Wish

Dying = Callable[..., tuple[int, int]]
FIX = Fix(set={"--speculative-num-steps": "3"})


def propose(store: Store, incident: int, command: tuple[str, ...] = ("serve", "--fixed"), launch: int = 1) -> int:
    return store.propose(
        incident, FIX, command, Safety.SAFE, ["the port is free"], rule="r", title="Set it", launch_id=launch
    )


def test_a_proposal_is_shown_with_the_incident(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)

    view = store.incident(incident)

    assert view.status is IncidentStatus.PROPOSED
    assert view.proposal is not None
    assert (view.proposal.id, view.proposal.fix, view.proposal.command) == (fix_id, FIX, ("serve", "--fixed"))
    assert view.proposal.guards == ("the port is free",)


def test_a_proposal_tells_wait_that_a_person_is_asked(store: Store, dies: Dying) -> None:
    _, incident = dies()
    propose(store, incident)

    server = store.get_server("kimi")

    assert server is not None
    assert server.decision is Decision.PROPOSAL


def test_proposing_the_same_again_changes_nothing(store: Store, dies: Dying) -> None:
    _, incident = dies()
    first = propose(store, incident)

    assert propose(store, incident) == first
    assert len(store.timeline(incident)) == 2


def test_a_new_proposal_takes_the_place_of_the_old_one(store: Store, dies: Dying) -> None:
    _, incident = dies()
    old = propose(store, incident)
    new = propose(store, incident, ("serve", "--other"))

    assert store.proposal(old).status is ProposalStatus.WITHDRAWN
    assert store.proposal(new).status is ProposalStatus.PROPOSED


def test_a_restart_is_proposed_without_a_fix(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = store.propose(incident, None, ["serve"], Safety.SAFE)

    assert (store.proposal(fix_id).action, store.proposal(fix_id).fix) == (Action.RESTART, None)


def test_the_next_death_withdraws_what_was_proposed(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)
    dies(fingerprint="fp-2")

    assert store.proposal(fix_id).status is ProposalStatus.WITHDRAWN
    assert store.incident(incident).proposal is None


def test_an_approval_is_claimed_once(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)
    store.decide(incident, fix_id, Wish.APPROVE, "ann")

    claimed = store.claim_decision("kimi")

    assert claimed is not None
    assert (claimed.wish, claimed.by, claimed.proposal.id) == (Wish.APPROVE, "ann", fix_id)
    assert store.claim_decision("kimi") is None


def test_a_decision_is_not_claimed_for_another_server(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.decide(incident, propose(store, incident), Wish.APPROVE, "ann")

    assert store.claim_decision("qwen") is None


def test_an_approval_that_events_overtook_is_not_claimed(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.decide(incident, propose(store, incident), Wish.APPROVE, "ann")
    dies(fingerprint="fp-2")

    assert store.claim_decision("kimi") is None


def test_wait_goes_on_after_an_approval_only_if_somebody_acts(store: Store, dies: Dying) -> None:
    decisions = []
    for number in (1, 2):
        _, incident = dies()
        fix_id = propose(store, incident, ("serve", f"--{number}"), launch=number)
        if number == 1:
            store.decide(incident, fix_id, Wish.APPROVE, "ann")
        else:
            with store.lock_server("kimi"):
                store.decide(incident, fix_id, Wish.APPROVE, "ann")
        server = store.get_server("kimi")
        assert server is not None
        decisions.append(server.decision)

    assert decisions == [Decision.PROPOSAL, Decision.PENDING]


def test_a_rejection_leaves_the_incident_open_and_nothing_planned(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)

    store.decide(incident, fix_id, Wish.REJECT, "ann")

    server = store.get_server("kimi")
    assert server is not None
    assert (store.incident(incident).status, server.decision) == (IncidentStatus.OPEN, Decision.NONE)
    assert store.proposal(fix_id).status is ProposalStatus.REJECTED


def test_what_was_rejected_is_not_asked_again_for_the_same_launch(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)
    store.decide(incident, fix_id, Wish.REJECT, "ann")

    assert propose(store, incident) == fix_id
    assert store.incident(incident).proposal is None


def test_a_second_decision_is_stale(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)
    store.decide(incident, fix_id, Wish.APPROVE, "ann")

    with pytest.raises(StaleError, match=f"last proposal, fix {fix_id}, is approved"):
        store.decide(incident, fix_id, Wish.REJECT, "bob")


def test_a_decision_on_a_replaced_proposal_is_stale_and_names_the_new_one(store: Store, dies: Dying) -> None:
    _, incident = dies()
    old = propose(store, incident)
    new = propose(store, incident, ("serve", "--other"))

    with pytest.raises(StaleError, match=f"that is fix {new}"):
        store.decide(incident, old, Wish.APPROVE, "ann")


def test_a_decision_without_a_proposal_is_stale(store: Store, dies: Dying) -> None:
    _, incident = dies()

    with pytest.raises(StaleError, match="proposes nothing to decide on"):
        store.decide(incident, None, Wish.APPROVE, "ann")


def test_an_attempt_is_there_before_anything_is_touched(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], fix=FIX, rule="r")

    (attempt,) = store.incident(incident).attempts
    server = store.get_server("kimi")

    assert (attempt.outcome, attempt.fix, attempt.fingerprint) == (AttemptOutcome.STARTED, FIX, "fp-1")
    assert store.incident(incident).status is IncidentStatus.RELAUNCHING
    assert server is not None
    assert server.decision is Decision.ACTING


def test_the_same_changed_command_is_never_tried_twice_in_an_incident(store: Store, dies: Dying) -> None:
    _, incident = dies()
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])
    store.end_attempt(attempt, AttemptOutcome.FAILED)

    with pytest.raises(AlreadyTriedError, match="tried before in incident 1 \\(failed\\)"):
        store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], approved_by="ann")


def test_a_change_back_to_what_has_died_is_refused(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve", "--original"))

    with pytest.raises(AlreadyTriedError):
        store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--original"])


def test_a_refused_attempt_changes_nothing(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve", "--original"))
    before = store.incident(incident)
    with pytest.raises(AlreadyTriedError):
        store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--original"])

    assert store.incident(incident) == before


def test_the_same_changed_command_may_be_tried_in_another_incident(store: Store, dies: Dying) -> None:
    for server in ("kimi", "qwen"):
        _, incident = dies(server=server)
        store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])

    assert len(store.attempts()) == 2


def test_a_restart_is_the_same_command_and_may_be_repeated(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve",))
    for _ in range(2):
        attempt = store.begin_attempt(incident, AttemptKind.RESTART, ["serve"])
        store.end_attempt(attempt, AttemptOutcome.FAILED)

    assert [view.kind for view in store.attempts(incident_id=incident)] == ["restart", "restart"]


def test_tried_knows_launches_and_attempts(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve",))
    store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])

    assert store.tried(incident, ["serve"])
    assert store.tried(incident, ["serve", "--fixed"])
    assert not store.tried(incident, ["serve", "--other"])


def test_the_first_word_about_an_attempts_end_counts(store: Store, dies: Dying) -> None:
    _, incident = dies()
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])
    store.end_attempt(attempt, AttemptOutcome.FAILED, "the port did not get free")
    store.end_attempt(attempt, AttemptOutcome.HELD, "it runs")

    assert store.attempts()[0].outcome is AttemptOutcome.FAILED
    assert [line.text for line in store.timeline(incident)][-1] == "the port did not get free"


def test_a_fixs_record_counts_over_incidents_but_not_over_failures(store: Store, dies: Dying) -> None:
    for server, outcome in (("a", AttemptOutcome.HELD), ("b", AttemptOutcome.FAILED), ("c", AttemptOutcome.FAILED)):
        _, incident = dies(server=server, fingerprint="fp-1")
        attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], rule="r")
        store.end_attempt(attempt, outcome)
    _, incident = dies(server="d", fingerprint="fp-2")
    store.end_attempt(store.begin_attempt(incident, AttemptKind.RELAUNCH, ["x"], rule="r"), AttemptOutcome.HELD)

    assert store.fix_record("r", "fp-1") == FixRecord(held=1, failed=2)
    assert store.fix_record("other", "fp-1") == FixRecord()


def test_budgets_can_count_the_attempts_of_an_hour(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.begin_attempt(incident, AttemptKind.RESTART, ["serve"])

    assert len(store.attempts(server="kimi", since=datetime.now(UTC) - timedelta(hours=1))) == 1
    assert store.attempts(server="kimi", since=datetime.now(UTC) + timedelta(hours=1)) == ()


def test_giving_up_is_told_everywhere(store: Store, dies: Dying) -> None:
    _, incident = dies()
    fix_id = propose(store, incident)
    store.needs_human(incident, "two errors ask for opposite moves")

    server = store.get_server("kimi")

    assert server is not None
    assert (server.state, server.decision) == (ServerState.GAVE_UP, Decision.NEEDS_HUMAN)
    assert store.incident(incident).status is IncidentStatus.NEEDS_HUMAN
    assert store.proposal(fix_id).status is ProposalStatus.WITHDRAWN


def test_a_running_server_is_not_called_given_up(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.begin_launch("kimi", ["serve"], None)
    store.needs_human(incident, "it degrades")

    server = store.get_server("kimi")

    assert server is not None
    assert server.state is ServerState.STARTING


def test_an_incident_that_is_verified_says_so(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.verifying(incident, "ready, watched for 30 s")

    assert store.incident(incident).status is IncidentStatus.VERIFYING


def test_an_unknown_incident_and_an_unknown_fix_are_errors(store: Store) -> None:
    with pytest.raises(NotFoundError, match="There is no incident 7"):
        store.decide(7, None, Wish.APPROVE, "ann")
    with pytest.raises(NotFoundError, match="There is no fix 7"):
        store.proposal(7)


_CLAIM = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from app.store.store import Store
    with Store.open(Path(sys.argv[1])) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        claimed = 0
        while store.claim_death("kimi") is not None:
            claimed += 1
        print(claimed)
    """
)


def test_several_processes_claim_each_death_once(store: Store, dies: Dying) -> None:
    for _ in range(20):
        dies()
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIM, str(store.state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for claimer in claimers:
        assert claimer.stdout is not None
        claimer.stdout.readline()
    outputs = []
    for claimer in claimers:
        assert claimer.stdin is not None
        claimer.stdin.write("\n")
        claimer.stdin.flush()
    outputs = [claimer.communicate(timeout=30)[0] for claimer in claimers]

    assert sum(int(output) for output in outputs) == 20


def test_deaths_are_claimed_oldest_first(store: Store, dies: Dying) -> None:
    first, _ = dies()
    second, _ = dies()

    claimed = [store.claim_death("kimi") for _ in range(3)]

    assert [None if line is None else line.launch_id for line in claimed] == [first, second, None]


def test_an_end_that_was_asked_for_is_nothing_to_act_on(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    store.launch_ended(launch, Exit(code=0), Phase.READY)

    assert store.claim_death("kimi") is None


def test_a_line_can_be_added_to_a_timeline(store: Store, dies: Dying) -> None:
    _, incident = dies()
    store.add_transition("kimi", TransitionKind.NOTE, "the port is held by pid 7", incident_id=incident)

    assert store.timeline(incident)[-1].text == "the port is held by pid 7"
