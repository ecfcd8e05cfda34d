"""Commands, their differences and times as people read them: the same at the terminal, on pages and in messages."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Part:
    """Words of a command that stayed, went or came, as one would type them."""

    kind: Literal["same", "gone", "new"]
    text: str


def difference(before: Sequence[str], after: Sequence[str]) -> Iterator[Part]:
    """Two commands held against each other, a flag together with its values."""
    old, new = _flags(before), _flags(after)
    for tag, a, b, c, d in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield Part("same", _joined(old[a:b]))
            continue
        if a < b:
            yield Part("gone", _joined(old[a:b]))
        if c < d:
            yield Part("new", _joined(new[c:d]))


def changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """What differs between two commands: "- --a 1" and "+ --b 1"."""
    signs = {"gone": "-", "new": "+"}
    for part in difference(before, after):
        if part.kind in signs:
            yield f"{signs[part.kind]} {part.text}"


def shell(words: Sequence[str]) -> str:
    """A stored command, env assignments first, ready to paste."""
    names = [word.partition("=") for word in words]
    return " ".join(
        f"{name}={shlex.quote(value)}" if mark and name.isidentifier() else shlex.quote(word)
        for word, (name, mark, value) in zip(words, names, strict=True)
    )


def ago(at: datetime, now: datetime) -> str:
    """How long before `now`, as people say it."""
    seconds = max(0.0, (now - at).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _joined(groups: Sequence[Sequence[str]]) -> str:
    return shell([word for words in groups for word in words])


def _flags(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of a command, each flag together with the words up to the next one."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not groups or not groups[-1][0].startswith("-"):
            groups.append([word])
        else:
            groups[-1].append(word)
    return [tuple(group) for group in groups]
