"""The launch command behind `--`: another program's words, untouched."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.command import Command
from app.core.vocabulary import Engine


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and those behind it."""
    if "--" not in words:
        return list(words), []
    at = list(words).index("--")
    return list(words[:at]), list(words[at + 1 :])


def unquoted(words: Sequence[str]) -> tuple[str, ...]:
    """One quoted text is split as a shell splits it: people paste whole commands."""
    if len(words) == 1 and any(char.isspace() for char in words[0].strip()):
        return Command.from_string(words[0]).words()
    return tuple(words)


def command_of(words: Sequence[str], engine: Engine | None = None) -> Command | None:
    """The launch command, if there are words."""
    words = unquoted(words)
    return Command.parse(words, engine=engine) if words else None
