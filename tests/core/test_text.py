"""What strangers wrote can't steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.text import neutralise, shorten, strip_ansi


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb", "a\\x0db"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("bell\x07 del\x7f c1\x9b", "bell\\x07 del\\x7f c1\\x9b"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tab\tstays\nline stays", "tab\tstays\nline stays"),
        ("Grüße 漢字 🚀", "Grüße 漢字 🚀"),
    ],
)
def test_neutralise_shows_what_could_deceive(hostile: str, shown: str) -> None:
    assert neutralise(hostile) == shown


@given(st.text())
def test_neutralised_text_has_no_control_but_tab_and_newline(text: str) -> None:
    safe = neutralise(text)
    assert all(ord(character) >= 0x20 or character in "\t\n" for character in safe)
    assert "\x7f" not in safe


@pytest.mark.parametrize(
    ("coloured", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2K\x1b[1Aprogress", "progress"),
        ("\x1b(Bplain", "plain"),
        ("\x1b]unfinished", "unfinished"),
        ("no escapes", "no escapes"),
    ],
)
def test_strip_ansi_leaves_the_text(coloured: str, plain: str) -> None:
    assert strip_ansi(coloured) == plain


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("short", 10, "short"), ("abcdefghijklmnop", 10, "abcdef…nop"), ("abcdef", 1, "…"), ("", 0, "")],
)
def test_shorten_keeps_both_ends(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short
