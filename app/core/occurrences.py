"""Reads a server's arguments as its parser would: which words are flags, and which are the values of which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.catalogue import Flag, FlagCatalogue
from app.core.layout import Layout

_LONG_DASH = re.compile(r"^[\u2010-\u2015\u2212]-?(?=[A-Za-z])")
_NEGATIVE_NUMBER = re.compile(r"-\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|-\.\d+")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A flag where it stands. `spelled` is without value; `inline` is a value in the same word, behind `joiner`."""

    spelled: str
    at: int
    key: str  # the same for every spelling of one flag
    negated: bool = False  # the `--no-x` of a switch
    flag: Flag | None = None  # what the catalogue knows of it
    inline: str | None = None
    joiner: str = "="
    values: tuple[int, ...] = ()  # the words that are its values


@dataclass(frozen=True, slots=True)
class Reading:
    occurrences: tuple[Occurrence, ...]
    positionals: tuple[int, ...]
    terminator: int | None  # where a lone `--` stands


def key_of(spelled: str, catalogue: FlagCatalogue | None) -> tuple[str, bool]:
    """What a spelling stands for, and whether it negates that: equal keys are one flag."""
    if catalogue is not None:
        found = catalogue.resolve(spelled)
        if found.flag is not None:
            return (f"{found.flag.name}.{found.key}" if found.key else found.flag.name), found.negated
    name, dot, rest = spelled.partition(".")
    return (name.replace("_", "-") if name.startswith("--") else name) + dot + rest, False


def with_plain_dashes(word: str) -> str:
    """A flag whose dashes an editor made one long one, as it was typed: `—port` is `--port`. Other words stay."""
    return _LONG_DASH.sub("--", word, count=1)


def is_flag_word(word: str, catalogue: FlagCatalogue | None) -> bool:
    """Whether a parser takes this word for a flag: negative numbers and texts with blanks are values."""
    if with_plain_dashes(word) != word:
        return True
    if len(word) < 2 or not word.startswith("-") or word == "--":
        return False
    name = word.partition("=")[0]
    if catalogue is not None and catalogue.resolve(name).kind != "unknown":
        return True
    return _NEGATIVE_NUMBER.fullmatch(word) is None and not re.search(r"\s", name)


def read_arguments(words: Sequence[str], layout: Layout, catalogue: FlagCatalogue | None) -> Reading:
    """Splits the words from `layout.arguments` to `layout.end` into flags with their values and other words."""
    occurrences: list[Occurrence] = []
    positionals: list[int] = []
    at = layout.arguments
    while at < layout.end:
        if words[at] == "--":
            positionals.extend(range(at + 1, layout.end))
            return Reading(tuple(occurrences), tuple(positionals), at)
        if not is_flag_word(words[at], catalogue):
            positionals.append(at)
            at += 1
            continue
        entry = _read_flag(words[at], at, catalogue)
        most = _most_values(entry, layout, len(positionals))
        stop = at + 1
        while stop < layout.end and stop - at <= most and not _ends_values(words[stop], catalogue):
            stop += 1
        occurrences.append(_with_values(entry, tuple(range(at + 1, stop))))
        at = stop
    return Reading(tuple(occurrences), tuple(positionals), None)


def _ends_values(word: str, catalogue: FlagCatalogue | None) -> bool:
    return word == "--" or is_flag_word(word, catalogue)


def _read_flag(word: str, at: int, catalogue: FlagCatalogue | None) -> Occurrence:
    spelled, equals, inline = word.partition("=")
    joiner = "="
    found = catalogue.resolve(word if not equals else spelled) if catalogue else None
    if catalogue and found and found.flag is None and not word.startswith("--") and catalogue.attached:
        # `-O3`: a one-letter flag with its value attached
        short = catalogue.resolve(word[:2])
        if short.kind == "exact" and short.flag is not None and short.flag.takes != "none" and len(word) > 2:
            found, spelled, inline, joiner, equals = short, word[:2], word[2:], "", "attached"
    key, negated = key_of(spelled, catalogue)
    flag = found.flag if found else None
    return Occurrence(spelled, at, key, negated, flag, inline if equals else None, joiner)


def _most_values(entry: Occurrence, layout: Layout, positionals_seen: int) -> int:
    """So many of the following words can be its values."""
    if entry.inline is not None:
        return 0
    if entry.flag is not None and "." not in entry.spelled:
        flag = entry.flag
        return {"none": 0, "one": 1, "optional": 1, "many": flag.count or 10**6}[flag.takes]
    if "." in entry.spelled:
        return 1
    # Of a flag that nobody knows, the words behind it are its own, unless the program still waits for one.
    waits = layout.positionals is not None and positionals_seen < layout.positionals
    return 1 if waits else 10**6


def _with_values(entry: Occurrence, values: tuple[int, ...]) -> Occurrence:
    return Occurrence(entry.spelled, entry.at, entry.key, entry.negated, entry.flag, entry.inline, entry.joiner, values)
