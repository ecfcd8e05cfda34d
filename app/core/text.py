"""Texts that strangers wrote, made fit for a terminal."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC: titles, hyperlinks
    r"|\x1b[PX^_][^\x1b\n]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|\x1b"
)
# Controls (C0 without tab and newline, DEL, C1), line separators, zero-width and direction marks, BOM, surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def strip_ansi(text: str) -> str:
    """Removes terminal escape sequences: colours, cursor moves, titles, hyperlinks."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def neutralise(text: str) -> str:
    """Shows what could steer a terminal or deceive its reader as visible escapes; tabs and newlines stay."""
    return _UNSAFE.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def shorten(text: str, width: int, mark: str = "…") -> str:
    """Cuts the middle out of a text longer than `width`, so that its beginning and its end stay readable."""
    if len(text) <= width:
        return text
    room = max(width - len(mark), 0)
    tail = room // 3
    return text[: room - tail] + mark + (text[len(text) - tail :] if tail else "")
