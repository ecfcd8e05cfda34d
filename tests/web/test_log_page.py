"""The window over a server's output: bounded whatever the file, and hostile text made harmless."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.web.log_page import LINES, log_page


def texts(path: Path, before: int | None = None, search: str = "") -> list[str]:
    return [row.text for row in log_page(path, before, search).rows]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_short_log_is_shown_whole(log: Path) -> None:
    log.write_text("one\ntwo\nthree")
    page = log_page(log)

    assert [row.text for row in page.rows] == ["one", "two", "three"]
    assert (page.older, page.newest) == (None, True)


def test_of_a_long_log_the_end_is_shown_and_older_lines_follow_without_a_gap(log: Path) -> None:
    lines = [f"line {number}" for number in range(3 * LINES)]
    log.write_text("\n".join(lines) + "\n")
    newest = log_page(log)
    older = log_page(log, newest.older)
    oldest = log_page(log, older.older)

    shown = [row.text for page in (oldest, older, newest) for row in page.rows]
    assert shown == lines
    assert (len(newest.rows), older.newest, oldest.older) == (LINES, False, None)


def test_long_lines_are_read_in_bounded_pieces(log: Path) -> None:
    log.write_bytes(b"x" * 3_000_000 + b"\nlast\n")
    page = log_page(log)

    assert page.rows[-1].text == "last"
    assert sum(len(row.text) for row in page.rows) < 10_000


def test_what_steers_terminals_or_browsers_is_shown_as_text(log: Path) -> None:
    log.write_bytes(b"\x1b[31mred\x1b[0m \xe2\x80\xae<b>\n\xff\n")

    [first, second] = texts(log)
    assert "\x1b" not in first
    assert "\u202e" not in first
    assert first.startswith("red ")
    assert second == "\ufffd"


def test_secrets_are_taken_out(log: Path) -> None:
    log.write_text("token=hf_abcdefghijklmnopqrstuvwxyz0123456789\n")

    assert texts(log) == ["token=[redacted]"]


def test_levels_have_their_tone(log: Path) -> None:
    log.write_text("ERROR 01-12 10:00:00 [a.py:1] bad\nWARNING 01-12 10:00:00 [a.py:1] odd\nplain\n")

    assert [row.tone for row in log_page(log).rows] == ["error", "warn", ""]


def test_what_is_searched_for_is_marked(log: Path) -> None:
    log.write_text("Loading shard 1\nready\nloading shard 2\n")

    assert [row.found for row in log_page(log, search="LOADING").rows] == [True, False, True]


def test_a_log_that_is_not_there_is_told(log: Path) -> None:
    assert log_page(log).missing == f"{log} can't be read: No such file or directory."
    assert log_page(None).missing == "No log of it is known yet."
