"""The state of a living server, judged from what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.model import Progress
from app.core.vocabulary import Phase, ServerState
from app.supervise.condition import Pace, Patience, Seen, judge
from app.supervise.group import Member
from app.supervise.health import Answer

LOADING = Progress(Phase.LOADING, 33.0, "Loading safetensors checkpoint shards:  33% Completed | 1/3")
OK = Answer("ok", at=0.0, latency=1.0, status=200)
BAD = Answer("bad", at=0.0, latency=20.0, status=503)
REFUSED = Answer("refused", at=0.0, latency=0.0)

COMING_UP = Seen(LOADING, quiet=1.0, has_health=True, health=REFUSED, health_text="health refused the connection")
SERVING = Seen(
    Progress(Phase.READY), quiet=1.0, has_health=True, health=OK, health_text="health answered 200", was_ready=True
)


def test_a_refused_connection_while_loading_is_normal() -> None:
    condition = judge(COMING_UP)

    assert condition.state is ServerState.LOADING
    assert condition.evidence == (
        "log: Loading safetensors checkpoint shards:  33% Completed | 1/3; health refused the connection"
    )


def test_ready_is_what_health_says() -> None:
    assert judge(replace(COMING_UP, health=OK)).state is ServerState.READY


def test_ready_in_the_log_alone_is_still_warming_where_health_can_be_asked() -> None:
    assert judge(replace(COMING_UP, progress=Progress(Phase.READY))).state is ServerState.WARMING


def test_without_a_health_endpoint_the_log_is_believed() -> None:
    assert judge(Seen(Progress(Phase.READY), quiet=900.0)).state is ServerState.READY


def test_an_answer_of_another_process_on_the_port_does_not_count() -> None:
    condition = judge(replace(COMING_UP, health=OK, foreign="port 30000 is held by process 7 (python)"))

    assert condition.state is ServerState.LOADING
    assert "held by process 7" in condition.evidence


def test_long_silence_while_loading_is_stalled() -> None:
    condition = judge(replace(COMING_UP, quiet=200.0))

    assert (condition.state, condition.doomed) == (ServerState.STALLED, False)
    assert condition.evidence.startswith("no log line for 200 s")


@pytest.mark.parametrize(("bad", "state"), [(1, ServerState.DEGRADED), (2, ServerState.HUNG)])
def test_bad_answers_after_ready_are_degraded_then_hung_but_not_doomed(bad: int, state: ServerState) -> None:
    condition = judge(replace(SERVING, health=BAD, bad_in_a_row=bad, bad_for=300.0, quiet=300.0))

    assert (condition.state, condition.doomed) == (state, False)


SILENT = replace(SERVING, health=BAD, bad_in_a_row=2, bad_for=25.0, quiet=25.0, idle=25.0, health_text="health 503")


def test_no_good_answer_no_line_and_no_processor_time_is_a_hang_but_not_given_up_yet() -> None:
    condition = judge(SILENT)

    assert (condition.state, condition.stuck, condition.given_up) == (ServerState.HUNG, "idle", False)
    assert condition.evidence == ("health 503; no log line for 25 s; its processes used no processor time for 25 s")


@pytest.mark.parametrize(
    "seen",
    [
        replace(SILENT, bad_in_a_row=1),
        replace(SILENT, bad_for=10.0),
        replace(SILENT, quiet=10.0),
        replace(SILENT, idle=10.0),
        replace(SILENT, was_ready=False),
        replace(SILENT, has_health=False),
    ],
    ids=["one bad answer", "bad for a short time", "the log goes on", "busy", "never was ready", "no endpoint"],
)
def test_any_sign_of_life_is_no_hang(seen: Seen) -> None:
    assert judge(seen).stuck is None


def test_long_without_any_sign_of_life_is_given_up() -> None:
    assert judge(replace(SILENT, bad_for=301.0, quiet=301.0, idle=301.0)).given_up


@pytest.mark.parametrize(
    "seen",
    [
        replace(SILENT, bad_for=301.0, quiet=301.0, idle=299.0),
        replace(SILENT, bad_for=301.0, quiet=299.0, idle=301.0),
        replace(SILENT, bad_for=299.0, quiet=301.0, idle=301.0),
    ],
    ids=["processor", "log", "health"],
)
def test_each_sign_of_life_within_the_patience_keeps_it_from_being_given_up(seen: Seen) -> None:
    assert not judge(seen).given_up


def test_with_the_patience_switched_off_it_is_never_given_up() -> None:
    long = replace(SILENT, bad_for=9e9, quiet=9e9, idle=9e9)

    assert not judge(long, Patience(restart=None)).given_up


def test_who_uses_the_processor_but_neither_answers_nor_logs_is_told_and_never_given_up() -> None:
    condition = judge(replace(SILENT, bad_for=9000.0, quiet=9000.0, idle=0.0))

    assert (condition.stuck, condition.given_up) == ("busy", False)


def test_a_good_answer_of_a_parent_whose_child_ended_is_degraded() -> None:
    condition = judge(replace(SERVING, fewer=(Member(41, "scheduler"),)))

    assert (condition.state, condition.doomed) == (ServerState.DEGRADED, False)
    assert condition.evidence == "process 41 (scheduler) has ended since it was ready; health answered 200"


def test_a_good_answer_while_a_process_is_stopped_is_degraded() -> None:
    condition = judge(replace(SERVING, stopped=(Member(41, "scheduler"),)))

    assert condition.state is ServerState.DEGRADED
    assert condition.evidence == "process 41 (scheduler) is stopped (SIGSTOP); health answered 200"


def test_a_slow_answer_that_is_good_is_ready() -> None:
    assert judge(replace(SERVING, health=replace(OK, latency=19.0))).state is ServerState.READY


def test_a_fatal_cause_in_the_log_followed_by_silence_dooms_a_launch() -> None:
    condition = judge(replace(COMING_UP, fatal="The port is in use", quiet=21.0))

    assert (condition.state, condition.doomed) == (ServerState.HUNG, True)
    assert condition.evidence == (
        "the log says: The port is in use; no log line for 21 s; health refused the connection"
    )


@pytest.mark.parametrize(
    "seen",
    [
        replace(COMING_UP, fatal="An error", quiet=5.0),
        replace(COMING_UP, fatal="An error", quiet=60.0, health=OK),
        replace(SERVING, fatal="An error", quiet=60.0, health=BAD, bad_for=5.0),
    ],
    ids=["lines still come", "healthy", "bad for a short time only"],
)
def test_a_fatal_cause_alone_does_not_doom(seen: Seen) -> None:
    assert not judge(seen).doomed


def test_a_server_that_lost_a_worker_and_answers_badly_is_doomed() -> None:
    lost = (Member(41, "sglang::schedul"),)
    condition = judge(replace(SERVING, health=BAD, bad_in_a_row=2, bad_for=25.0, quiet=60.0, lost=lost))

    assert condition.doomed
    assert "process 41 (sglang::schedul) has ended and the server waits on" in condition.evidence


def test_pace_tells_rate_and_what_is_left() -> None:
    pace = Pace()
    for percent, at in ((None, 0.0), (20.0, 1.0), (20.0, 5.0), (60.0, 11.0)):
        pace.see(percent, at)

    assert pace.describe() == "4.0 %/s, about 10 s left"


def test_a_second_bar_begins_a_new_pace() -> None:
    pace = Pace()
    for percent, at in ((90.0, 1.0), (100.0, 2.0), (10.0, 3.0), (20.0, 4.0)):
        pace.see(percent, at)

    assert pace.describe() == "10.0 %/s, about 8 s left"
