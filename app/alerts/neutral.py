"""Text of logs made harmless for Slack: nothing in it mentions people, links, formats or ends a code block."""

from __future__ import annotations

import re
import unicodedata

from app.core.redact import redact_text

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_MENTION = re.compile(r"@(?=\w)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_JOINER = "\u2060"  # invisible, and keeps "@here" from being one word
_NO_FENCE = "\u02cb"  # looks like a backtick and is none
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def neutral(text: str, limit: int) -> str:
    """`text` redacted and escaped, at most `limit` characters with its escapes; what does not fit ends in "…"."""
    clean = "".join(map(_visible, _ANSI.sub("", redact_text(text))))
    clean = _MENTION.sub(f"@{_JOINER}", clean.replace("`", _NO_FENCE)).strip()
    return fitted(clean, limit)


def fitted(text: str, limit: int) -> str:
    """Escapes as Slack demands and cuts between characters, never inside an escape."""
    kept: list[str] = []
    length = 0
    cut_at = 0  # how many characters stay when the mark must fit too
    for char in text:
        piece = _ENTITIES.get(char, char)
        if length + len(piece) > limit:
            return "".join(kept[:cut_at]) + "…"
        kept.append(piece)
        length += len(piece)
        if length <= limit - 1:
            cut_at = len(kept)
    return "".join(kept)


def _visible(char: str) -> str:
    """Control characters, direction marks and halves of characters are no text."""
    if char in "\n\t":
        return char
    return "" if unicodedata.category(char) in _UNSEEN else char
