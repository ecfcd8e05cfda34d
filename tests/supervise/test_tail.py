"""Following a file that grows, is truncated and is read by a slow reader."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from app.supervise.tail import PassThrough, Tail, rotate


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_reading_begins_at_the_offset_and_goes_on_with_what_is_appended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"before\nfirst\n")
    with Tail(log, offset=7) as tail:
        seen = [tail.read(), tail.read()]
        append(log, b"second\n")
        seen.append(tail.read())

    assert seen == [b"first\n", b"", b"second\n"]


def test_a_file_that_was_truncated_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"a long first part\n")
    with Tail(log) as tail:
        tail.read()
        os.truncate(log, 0)
        append(log, b"anew\n")

        assert tail.read() == b"anew\n"


def test_rotation_keeps_the_old_lines_and_writers_append_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n")
        rotated = rotate(log, limit=4)
        writer.write(b"new\n")

    assert rotated
    assert (log.with_name("log.1").read_bytes(), log.read_bytes()) == (b"old\n", b"new\n")


def test_a_log_below_the_limit_is_not_rotated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"old\n")

    assert not rotate(log, limit=5)
    assert log.read_bytes() == b"old\n"


def test_bytes_pass_through_as_they_are_to_the_last_one(tmp_path: Path) -> None:
    log, out = tmp_path / "log", bytearray()
    append(log, b"seen before")
    passing = PassThrough(log, 11, out.extend)
    append(log, b"\x1b[31mred\x1b[0m \xff 50%\r100%\n" * 10_000)
    passing.close()

    assert bytes(out) == b"\x1b[31mred\x1b[0m \xff 50%\r100%\n" * 10_000


def test_a_reader_that_stands_still_holds_up_nobody_and_loses_nothing(tmp_path: Path) -> None:
    log, out, go_on = tmp_path / "log", bytearray(), threading.Event()

    def slow(data: bytes) -> None:
        go_on.wait(5)
        out.extend(data)

    passing = PassThrough(log, 0, slow)
    append(log, b"one\n")
    behind = passing.caught_up(0.1)
    append(log, b"two\n")
    go_on.set()
    passing.close()

    assert (behind, bytes(out)) == (False, b"one\ntwo\n")


def test_a_reader_that_went_away_ends_only_the_copy(tmp_path: Path) -> None:
    log, calls = tmp_path / "log", []

    def gone(data: bytes) -> None:
        calls.append(data)
        raise BrokenPipeError

    passing = PassThrough(log, 0, gone)
    for _ in range(3):
        append(log, b"line\n")
        time.sleep(0.05)
    passing.close()

    assert len(calls) == 1


@pytest.mark.parametrize("size", [1, 200_000])
def test_what_is_written_is_passed_on_within_a_tenth_of_a_second(tmp_path: Path, size: int) -> None:
    log, arrived = tmp_path / "log", threading.Event()
    passing = PassThrough(log, 0, lambda data: arrived.set())
    time.sleep(0.05)

    append(log, b"x" * size)

    assert arrived.wait(0.1)
    passing.close()
