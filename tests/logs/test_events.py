"""Usage blocks, crash reports of native code and error lines become events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.model import LogDigest

Digest = Callable[..., LogDigest]

USAGE = "usage: launch_server.py [-h] --model-path MODEL_PATH\n" + "".join(
    f"                        [--flag-{n} FLAG_{n}]\n" for n in range(470)
)
ERROR = "launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16\n"


def test_a_usage_block_ends_with_its_error(digest: Digest) -> None:
    (event,) = digest("starting\n" + USAGE + ERROR).events
    assert (event.kind, event.truncated, len(event.lines)) == ("usage", False, 472)
    assert event.last.text + "\n" == ERROR


def test_a_usage_block_beyond_all_bounds_keeps_its_error(digest: Digest) -> None:
    (event,) = digest(USAGE + "  [--more]\n" * 3000 + ERROR).events
    assert (len(event.lines), event.truncated, event.last.text + "\n") == (1500, True, ERROR)


@pytest.mark.parametrize(
    "log",
    [
        USAGE + "\noptions:\n  -h, --help  show this\n" + "[2026-01-12 10:00:00] server starts\n" * 9,
        "[2026-01-12 10:00:00 TP0] Decode batch. token usage: 0.12, mem usage: 3 GB\n",
    ],
)
def test_usage_that_was_asked_for_is_no_event(digest: Digest, log: str) -> None:
    assert digest(log).events == ()


def test_a_usage_block_whose_error_is_cut_off_is_truncated(digest: Digest) -> None:
    (event,) = digest(USAGE).events
    assert (event.kind, event.truncated) == ("usage", True)


@pytest.mark.parametrize(
    "log",
    [
        ERROR,
        "sglang serve: error: argument --port: expected one argument\n",
        "vllm serve: error: the following arguments are required: model\n",
        "Usage: tool [OPTIONS] COMMAND\nTry 'tool --help' for help.\n\nError: No such option: --foo\n",
    ],
)
def test_an_argument_error_is_a_usage_event_however_it_is_printed(digest: Digest, log: str) -> None:
    (event,) = digest(log).events
    assert (event.kind, event.truncated, event.last.text) == ("usage", False, log.rstrip().split("\n")[-1])


def test_a_segfault_report_is_one_native_event(digest: Digest) -> None:
    log = (
        "!!!!!!! Segfault encountered !!!!!!!\n"
        '  File "<unknown>", line 0, in __poll\n  File "ev_poll.c", line 155, in uv__io_poll\n'
        "[2026-01-12 10:00:01] next\n"
    )
    (event,) = digest(log).events
    assert (event.kind, len(event.lines)) == ("native", 3)


def test_an_abort_with_its_stack_is_one_native_event(digest: Digest) -> None:
    log = (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [PG ID 2] Process group watchdog thread terminated\n"
        "frame #0: c10::Error::Error() (0x7f in libc10.so)\nframe #1: <unknown function>\n\n"
        "Fatal Python error: Aborted\n\nThread 0x00007f (most recent call first):\n"
        '  File "/usr/lib/python3.10/threading.py", line 324 in wait\n'
        "[2026-01-12 10:00:01] next\n"
    )
    (event,) = digest(log).events
    assert (event.kind, event.last.body) == ("native", '  File "/usr/lib/python3.10/threading.py", line 324 in wait')


@pytest.mark.parametrize(
    "line",
    [
        "0.00.005.337 E srv    load_model: failed to load model",
        "(Worker pid=7) ERROR 11-30 20:54:23 [x.py:1] WorkerProc failed to start.",
        "[2026-01-12 10:00:00] ERROR:    [Errno 98] address already in use",
        "error: invalid argument: --foo",
        "host:12:34 [0] misc/shmutils.cc:129 NCCL WARN Error while creating shared memory segment",
        "RuntimeError: out of the blue",
        "CUDA error: unspecified launch failure",
        "server-1 exited with code 137",
        "E0112 10:00:00.123456 12 backend.cc:634] failed to load",
        "Killed",
        "[TensorRT-LLM][ERROR] engine plan",
    ],
)
def test_a_line_of_level_error_is_an_event(digest: Digest, line: str) -> None:
    (event,) = digest(f"before\n{line}\n[2026-01-12 10:00:01] after\n").events
    assert (event.kind, [kept.text for kept in event.lines]) == ("error", [line])


@pytest.mark.parametrize(
    "line",
    [
        "[2026-01-12 10:00:00] Ignore import error when loading x: No module named 'y'",
        "(APIServer pid=1) WARNING 11-30 20:54:23 [x.py:1] an error: not ours",
        "INFO 11-30 20:54:23 [x.py:1] max_error: 3",
        "[2026-01-12 10:00:00] Receive: text='error: out of memory'",
        "Gloo Rank 0 is connected to 1 peer ranks.",
    ],
)
def test_a_line_that_only_speaks_of_errors_is_none(digest: Digest, line: str) -> None:
    assert digest(line + "\n").events == ()


def test_an_error_line_keeps_its_continuation(digest: Digest) -> None:
    prefix = "ERROR 11-30 20:54:23 [x.py:1] "
    (event,) = digest(f"{prefix}Error parsing config\n{prefix}\n{prefix}Update it.\n  or not\nfree text\n").events
    assert [line.body for line in event.lines] == ["Error parsing config", "", "Update it.", "  or not", "free text"]


def test_the_same_error_again_is_counted(digest: Digest) -> None:
    (event,) = digest("0.00.005.337 E srv load: failed 1\n0.00.007.001 E srv load: failed 2\n").events
    assert (event.repeats, event.first.number) == (2, 1)


def test_events_beyond_their_bounds_leave_the_first_and_the_last(digest: Digest) -> None:
    words = [f"{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}{chr(97 + n // 676)}" for n in range(1000)]
    events = digest("".join(f"error: {word}\n[2026-01-12 10:00:00] fine\n" for word in words)).events
    assert (len(events), events[0].first.body, events[-1].first.body) == (300, "error: aaa", f"error: {words[-1]}")
