"""A log that never ends: each failure once, the moment its line is there, however the bytes were cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.vocabulary import Phase
from app.diagnosis.findings import FailureSeen, Finding, LaunchSeen, ProgressSeen
from app.diagnosis.live import LiveLog
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules

BANNER = "[2026-01-12 10:00:00] server_args=ServerArgs(model_path='/m', tp_size=1)\n"
FIRED = "[2026-01-12 10:00:09] The server is fired up and ready to roll!\n"
BUSY = "[2026-01-12 10:00:10 TP0] Decode batch, #running-req: 3, #token: 17, gen throughput: 99.1\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 MiB.\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/a/x.py", line 1, in load\n    f()\n'
STORY = "".join((BANNER, FIRED, BUSY * 3, TRACEBACK, OOM, BUSY, BANNER, FIRED, BUSY, OOM))


@cache
def pipeline() -> Pipeline:
    return Pipeline(builtin_rules(), read_source=False)


def found(text: str, cuts: Sequence[int] = ()) -> list[Finding]:
    """What a log tells that arrives in pieces."""
    log, data, at = LiveLog(pipeline()), text.encode(), 0
    told: list[Finding] = []
    for cut in (*sorted(cuts), len(data)):
        told += log.feed(data[at:cut])
        at = max(at, cut)
    return told


def failures(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    return [(one.diagnosis.causes[0].rule, one.line.number) for one in findings if isinstance(one, FailureSeen)]


def told_of(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    """All but the steps on the way to being ready: those are told as the pieces come."""
    told = []
    for one in findings:
        if isinstance(one, FailureSeen):
            told.append((one.diagnosis.causes[0].rule, one.line.number))
        elif isinstance(one, LaunchSeen):
            told.append(("launch", one.line.number))
        elif one.progress.phase is Phase.READY:
            told.append(("ready", 0))  # by which of its lines depends on when it was looked at
    return told


def test_a_failure_is_told_with_its_line_in_the_file() -> None:
    assert failures(found(BANNER + BUSY + OOM)) == [("any/gpu-out-of-memory", 3)]


def test_a_traceback_is_told_once_and_with_its_exception() -> None:
    assert failures(found(TRACEBACK + OOM + BUSY)) == [("any/gpu-out-of-memory", 4)]


def test_a_launch_that_begins_after_a_failure_is_told() -> None:
    assert [one.line.number for one in found(STORY) if isinstance(one, LaunchSeen)] == [11]


def test_a_launch_comes_to_each_phase_once() -> None:
    told = [one.progress.phase for one in found(BANNER + FIRED + BUSY * 50) if isinstance(one, ProgressSeen)]
    assert told[-1] is Phase.READY
    assert told.count(Phase.READY) == 1


def test_a_new_launch_comes_to_be_ready_again() -> None:
    told = [one.progress.phase for one in found(STORY) if isinstance(one, ProgressSeen)]
    assert told.count(Phase.READY) == 2


USAGE = "usage: launch_server.py [-h] --model-path MODEL_PATH\n"
REFUSED = "launch_server.py: error: unrecognized arguments: --foo 1\n"


@pytest.mark.parametrize("pieces", [[BANNER + FIRED + USAGE + REFUSED], [BANNER + FIRED, USAGE, REFUSED]])
def test_a_server_that_was_ready_and_refuses_its_arguments_was_launched_anew(pieces: list[str]) -> None:
    log = LiveLog(pipeline())
    told = [one for piece in pieces for one in log.feed(piece.encode())]
    assert [type(one) for one in told[-2:]] == [LaunchSeen, FailureSeen]
    [failure] = [one for one in told if isinstance(one, FailureSeen)]
    assert (failure.line.number, failure.diagnosis.phase) == (4, Phase.STARTING)


def test_each_start_that_refuses_its_arguments_is_a_launch() -> None:
    told = [type(one) for one in found((USAGE + REFUSED) * 2)]
    assert told == [FailureSeen, LaunchSeen, FailureSeen]


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, len(STORY)), max_size=12))
def test_the_story_is_the_same_however_the_log_is_cut(cuts: list[int]) -> None:
    assert told_of(found(STORY, cuts)) == [
        ("ready", 0),
        ("any/gpu-out-of-memory", 9),
        ("launch", 11),
        ("ready", 0),
        ("any/gpu-out-of-memory", 14),
    ]


def test_a_half_line_waits_for_its_rest() -> None:
    log = LiveLog(pipeline())
    assert log.feed(OOM[:40].encode()) == []
    assert failures(log.feed(OOM[40:].encode())) == [("any/gpu-out-of-memory", 1)]


def test_a_half_line_whose_rest_never_comes_is_looked_at_in_the_end() -> None:
    log = LiveLog(pipeline())
    log.feed(OOM.rstrip().encode())
    assert failures(log.flush()) == [("any/gpu-out-of-memory", 1)]


def test_a_traceback_goes_on_in_the_next_file_after_a_rotation() -> None:
    log = LiveLog(pipeline())
    log.feed((BUSY + TRACEBACK).encode())
    assert log.turn_over() == []
    assert failures(log.feed(OOM.encode())) == [("any/gpu-out-of-memory", 1)]


@pytest.mark.parametrize("lines", [1, 7, 9])
def test_a_log_that_is_read_again_from_its_anchor_tells_only_what_is_new(lines: int) -> None:
    whole = STORY.splitlines(keepends=True)
    before, after = "".join(whole[:lines]).encode(), "".join(whole[lines:]).encode()
    first = LiveLog(pipeline())
    told = first.feed(before)
    again = LiveLog(pipeline(), first.context, first.anchor)
    again.feed(before[first.anchor :])
    assert failures(told + again.feed(after)) == failures(found(STORY))
