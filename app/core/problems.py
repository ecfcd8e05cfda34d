"""What can be wrong with an argument, the same for a program's own complaint and for a check before the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProblemKind = Literal[
    "unknown",  # no such flag
    "ambiguous",  # an abbreviation of several flags
    "missing-value",  # a flag stands without the value that it takes
    "unexpected-value",  # a bare flag was given a value
    "bad-choice",
    "bad-type",
    "required",  # a flag without which the program does not start
    "removed",  # it was there in other versions
    "conflict",  # not allowed together with another flag
]


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One thing that is wrong with one argument.

    `flag` is spelt as in the command where that is known, with its dashes; it is empty where a stray word belongs to
    no flag. `candidates` are flags that were meant or are needed, `choices` the values allowed.
    """

    kind: ProblemKind
    flag: str
    value: str | None = None
    candidates: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    text: str = ""  # one sentence for people, or the program's own words
    type: str | None = None  # what the value should have been: "int", "float", "json", ...
