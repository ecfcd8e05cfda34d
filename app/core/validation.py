"""Judges a whole command by a catalogue: what would the program's own parser refuse?

It has to be right when it complains: what can't be judged for sure (a shell variable, a catalogue made from a usage
block, a value type that is not known) is let through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING

from app.core.problems import ArgumentProblem
from app.core.vocabulary import Engine

if TYPE_CHECKING:
    from app.core.catalogue import Flag, FlagCatalogue
    from app.core.command import Command
    from app.core.occurrences import Occurrence

# Read before the parser proper: `--help` ends the program, and `sglang serve` itself takes out `--model-type`.
_BEFORE_PARSING = frozenset({"-h", "--help", "--version", "--model-type"})
# What stands for "no value" whatever the type of the flag is.
_NO_VALUE: Mapping[Engine, tuple[str, ...]] = {Engine.VLLM: ("", "None")}
_FROM_FILE = "--config"  # its file can give whatever the command lacks


def problems_of(command: Command, catalogue: FlagCatalogue) -> list[ArgumentProblem]:
    """What the program's parser would refuse, in the order typed; nothing for a command that it takes."""
    command = command.with_catalogue(catalogue)
    found = [problem for entry in command.arguments for problem in _problems_of_flag(command, entry, catalogue)]
    return [*found, *_stray_words(command), *_required(command, catalogue)]


def _problems_of_flag(command: Command, entry: Occurrence, catalogue: FlagCatalogue) -> Iterator[ArgumentProblem]:
    if entry.spelled in _BEFORE_PARSING or "$" in entry.spelled:
        return
    values = command.values_of(entry)
    resolution = catalogue.resolve(entry.spelled)
    if resolution.flag is not None:
        if entry.inline is not None and not catalogue.attached:
            text = f"{entry.spelled} takes its value as the next word, not behind `=`."
            yield ArgumentProblem("unknown", entry.spelled, entry.inline, (entry.spelled,), text=text)
        elif resolution.key is None:
            yield from _problems_of_values(entry, resolution.flag, values, _NO_VALUE.get(catalogue.engine, ()))
    elif catalogue.complete and resolution.kind == "ambiguous":
        names = tuple(flag.name for flag in resolution.candidates)
        text = f"{entry.spelled} is short for several flags: {', '.join(names)}."
        yield ArgumentProblem("ambiguous", entry.spelled, _joined(values), names, text=text)
    elif catalogue.complete:
        text = f"{_program(catalogue)} has no flag {entry.spelled}."
        yield ArgumentProblem("unknown", entry.spelled, _joined(values), text=text)


def _problems_of_values(
    entry: Occurrence, flag: Flag, values: tuple[str, ...], no_value: Container[str]
) -> Iterator[ArgumentProblem]:
    if flag.takes == "none":
        if entry.inline is not None:
            text = f"{entry.spelled} is a switch and takes no value."
            yield ArgumentProblem("unexpected-value", entry.spelled, entry.inline, text=text)
        return
    if not values and flag.takes == "one":
        text = f"{entry.spelled} needs a value."
        yield ArgumentProblem("missing-value", entry.spelled, choices=flag.choices, text=text, type=flag.type)
    elif flag.count and len(values) < flag.count:
        text = f"{entry.spelled} needs {flag.count} values."
        yield ArgumentProblem("missing-value", entry.spelled, _joined(values), text=text, type=flag.type)
    for value in values:
        if value not in no_value and (problem := _problem_of_value(entry.spelled, flag, value)):
            yield problem


def _problem_of_value(spelled: str, flag: Flag, value: str) -> ArgumentProblem | None:
    if "$" in value or "`" in value:
        return None
    if flag.type is not None and not accepts(flag.type, value):
        text = f"{spelled} takes {_KINDS[flag.type]}, not {value!r}."
        return ArgumentProblem("bad-type", spelled, value, choices=flag.choices, text=text, type=flag.type)
    # Some parsers fold case first, which a help text does not tell.
    if flag.choices and value.lower() not in {choice.lower() for choice in flag.choices}:
        text = f"{spelled} does not offer {value!r}."
        return ArgumentProblem("bad-choice", spelled, value, choices=flag.choices, text=text)
    return None


def _stray_words(command: Command) -> Iterator[ArgumentProblem]:
    """Words that belong to no flag in a program that takes none, or not so many."""
    allowed = command.layout.positionals
    if allowed is None or any("$" in word or "`" in word for word in command.positionals):
        return
    switches = {entry.at + 1: entry.spelled for entry in command.arguments if entry.flag and entry.flag.takes == "none"}
    words = command.words()
    for at in command.positional_indexes[allowed:]:
        if at in switches:
            text = f"{switches[at]} is a switch and takes no value."
            yield ArgumentProblem("unexpected-value", switches[at], words[at], text=text)
        else:
            yield ArgumentProblem("unknown", "", words[at], text=f"{words[at]!r} belongs to no flag.")


def _required(command: Command, catalogue: FlagCatalogue) -> Iterator[ArgumentProblem]:
    spelled = {entry.spelled for entry in command.arguments}
    if command.engine is None or spelled & {"-h", "--help", "--version", _FROM_FILE}:
        return
    if any("$" in word for word in command.words()[command.layout.arguments :]):
        return
    for flag in catalogue.flags:
        if flag.required and not command.find(flag.name) and not (command.layout.positionals and command.positionals):
            text = f"{flag.name} has to be given."
            yield ArgumentProblem("required", flag.name, candidates=flag.spellings, text=text, type=flag.type)


def accepts(kind: str, value: str) -> bool:
    """Whether a parser that wants this type of value takes this text."""
    try:
        _READERS[kind](value)
    except ValueError:
        return False
    return True


def _human_int(value: str) -> None:
    if re.fullmatch(r"\s*-?\d[\d_]*(?:\.\d+)?(?:[kKmMgGtT]i?)?\s*", value) is None:
        raise ValueError(value)


def _human_int_or_auto(value: str) -> None:
    if value.strip().lower() != "auto":
        _human_int(value)


_READERS: Mapping[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "json": json.loads,
    "human-int": _human_int,
    "human-int-or-auto": _human_int_or_auto,
}
_KINDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "json": "JSON",
    "human-int": "a whole number such as 4096 or 4k",
    "human-int-or-auto": "a whole number such as 4096 or 4k, or auto",
}


def _program(catalogue: FlagCatalogue) -> str:
    return f"{catalogue.engine.value} {catalogue.version or ''}".strip()


def _joined(values: tuple[str, ...]) -> str | None:
    return " ".join(values) if values else None
