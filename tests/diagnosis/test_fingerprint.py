from __future__ import annotations

import pytest

from app.core.model import Frame, Line
from app.core.vocabulary import Category, Engine
from app.diagnosis.fingerprint import fingerprint, normalise


def mark(root: str, frames: tuple[Frame, ...] = (), category: Category = Category.UNKNOWN) -> str:
    return fingerprint(engine=Engine.SGLANG, category=category, rule="any/x", root=root, frames=frames)


def frame(file: str, lineno: int, function: str) -> Frame:
    return Frame(file, lineno, function, "", Line(1, "", ""))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("failed at 2026-01-12 10:00:00", "failed at 2027-11-30 23:59:59.123"),
        ("worker (pid=12) died", "worker (pid=98765) died"),
        ("can't read /models/a/b.bin", "can't read /data/other.bin"),
        ("connect 127.0.0.1:30000 refused", "connect 10.0.0.7:31999 refused"),
        ("pointer 0x7f00aa is bad", "pointer 0x1 is bad"),
        ("rank 3 timed out after 600.5 s", "rank 0 timed out after 1800 s"),
        ("Tried to allocate 2.50 GiB", "Tried to allocate 512.00 MiB"),
        ("TP0 failed", "TP7 failed"),
        ("request 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed failed", "request 00000000-bbfd-4b2d-9b5d-ab8dfbbd4bed failed"),
    ],
)
def test_what_differs_from_run_to_run_does_not_count(one: str, other: str) -> None:
    assert mark(one) == mark(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[Errno 28] No space left", "[Errno 98] No space left"),
        ("exit code -9", "exit code -11"),
        ("unrecognized arguments: --foo 1", "unrecognized arguments: --bar 1"),
        ("KeyError: 'a'", "KeyError: 'b'"),
    ],
)
def test_different_failures_have_different_fingerprints(one: str, other: str) -> None:
    assert mark(one) != mark(other)


def test_folders_and_line_numbers_of_frames_do_not_count() -> None:
    one = frame("/opt/venv/sglang/srt/server_args.py", 12, "check")
    other = frame("/usr/lib/sglang/srt/server_args.py", 3456, "check")
    assert mark("AssertionError", (one,)) == mark("AssertionError", (other,))


def test_the_function_that_failed_counts() -> None:
    one, other = frame("/a/x.py", 1, "load"), frame("/a/x.py", 1, "run")
    assert mark("AssertionError", (one,)) != mark("AssertionError", (other,))


def test_the_category_counts() -> None:
    assert mark("x") != mark("x", category=Category.HANG)


def test_a_very_long_line_is_cut_before_it_is_read() -> None:
    assert len(normalise("x" * 10_000_000)) == 600
