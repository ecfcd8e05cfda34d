"""The state of a living server, judged from what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.model import Progress
from app.core.vocabulary import Phase, ServerState
from app.supervise.condition import Pace, Seen, judge
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
