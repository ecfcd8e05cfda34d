"""What the words of a failing line tell about its kind, where no rule knows it.

The words are those of operating systems, drivers, hubs and libraries, which programs of all kinds pass on as they are.
The first kind whose words fit is taken. It is no more than a kind: no fix follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from app.core.model import Line
from app.core.vocabulary import Category
from app.diagnosis.mechanism_words import WORDS

_LONGEST = 600
_COMPLAINT = re.compile(
    r"""\b(?:fail(?:ed|ure|s)?|cannot|can't|could\snot|couldn't|unable\sto|denied|not\sfound|no\s(?:such|space)|invalid|refused
    |unsupported|not\s(?:supported|enough|available|compatible)|mismatch|corrupt(?:ed)?|missing|exceed(?:s|ed)?|error
    |fatal|fault|hang|must\sbe|is\srequired|requires|insufficient|out\sof\smemory|abort(?:ed|ing)?|terminated)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_QUIET = ("INFO", "DEBUG", "TRACE", "NOTICE", "SUCCESS")


def kind_of(text: str) -> Category | None:
    """The kind of failure that the words tell; None where they tell none."""
    shown = text[:_LONGEST]
    return next((category for category, words in _kinds() if words.search(shown)), None)


@cache
def _kinds() -> tuple[tuple[Category, re.Pattern[str]], ...]:
    """Compiled when first asked for: most logs never need them."""
    return tuple((category, re.compile("|".join(words), re.IGNORECASE)) for category, words in WORDS)


def complaint(lines: Iterable[Line], harmless: Iterable[int] = ()) -> Line | None:
    """The last of the lines that complains; for a program that ends without any error in a form that is known."""
    known = set(harmless)
    found = [
        line
        for line in lines
        if line.number not in known
        and (line.level or "") not in _QUIET
        and "'" not in line.body[:40].split(":")[0]
        and _COMPLAINT.search(line.body[:_LONGEST])
    ]
    return found[-1] if found else None
