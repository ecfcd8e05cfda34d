"""What the words of a failing line tell about its kind, where no rule knows it.

The words are those of operating systems, drivers, hubs and libraries, which programs of all kinds pass on as they are.
The first kind whose words fit is taken. It is no more than a kind: no fix follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from app.core.model import Line
from app.core.vocabulary import Category
from app.diagnosis.mechanism_words import WORDS

_LONGEST = 600
_COMPLAINT = re.compile(
    r"""\b(?:fail(?:ed|ure|s)?|cannot|can't|could\snot|couldn't|unable\sto|denied|not\sfound|no\s(?:such|space)|invalid|refused
    |unsupported|not\s(?:supported|enough|available|compatible)|mismatch|corrupt(?:ed)?|missing|exceed(?:s|ed)?|error
    |fatal|fault|hang|must\sbe|is\srequired|requires|insufficient|out\sof\smemory|abort(?:ed|ing)?|terminated|panicked)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_SEVERE = ("ERROR", "CRITICAL", "FATAL")
_QUIET = ("INFO", "DEBUG", "TRACE", "NOTICE", "SUCCESS")


def kind_of(text: str) -> Category | None:
    """The kind of failure that the words tell; None where they tell none."""
    shown = text[:_LONGEST]
    return next((category for category, words in _kinds() if words.search(shown)), None)


@cache
def _kinds() -> tuple[tuple[Category, re.Pattern[str]], ...]:
    """Compiled when first asked for: most logs never need them."""
    return tuple((category, re.compile("|".join(words), re.IGNORECASE)) for category, words in WORDS)


def complaint(lines: Iterable[Line], harmless: Collection[int] = ()) -> Line | None:
    """The first of the complaints that stand together at the end; for a program without any known form of error.

    Programs say what failed and then, line by line, what failed because of it. Where the last complaint has the level
    of an error, so has the first.
    """
    shown = [line for line in lines if line.body.strip() and line.number not in harmless]
    while shown and not _complains(shown[-1]):
        shown.pop()
    if not shown:
        return None
    first = shown[-1]
    for line in reversed(shown):
        if _severe(line) if _severe(first) else _complains(line):
            first = line
        elif not _severe(first):
            break
    return first


def _severe(line: Line) -> bool:
    return (line.level or "") in _SEVERE


def _complains(line: Line) -> bool:
    level = line.level or ""
    if level in _QUIET or level.startswith("WARN"):
        return False
    return _severe(line) or _COMPLAINT.search(line.body[:_LONGEST]) is not None
