"""What an error message names of the launch command: a value, a flag, the choices; and what would mend that.

Most checks of an engine are raised by hand, each in words of its own. But they say what they refuse: a value that was
typed, an argument by its name, what would do instead. Whatever is read from that is for a person to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.core.command import Command
from app.core.model import Cause, Event, Fix
from app.core.occurrences import Occurrence
from app.core.repair import json_meant
from app.core.vocabulary import Category, Safety
from app.diagnosis.remedy import Bench, Step, clear_choice

# Without these there is no server, or another one: they are never taken out.
_CORE = ("--model-path", "--model", "--port", "--host", "--served-model-name", "-m", "--tokenizer-path", "--tokenizer")
_LONGEST = 4_000
_CHOICES = re.compile(
    r"(?:choo?se from|chose from|[Aa]vailable (?:\w+ )?(?:are|is|include)|[Aa]vailable \w+:"
    r"|[Vv]alid (?:\w+ )?(?:are|is)|must be one of|[Ee]xpected one of|[Oo]ne of|[Ss]upported (?:\w+ )?(?:are|is)"
    r"|[Oo]ptions(?: are)?|Input should be)"
    r"[:\s]*(?P<list>.+)",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z0-9][\w.+-]*")
_REFUSED = re.compile(
    r"not found|unknown|invalid|unsupported|not supported|does ?n[o']t exist|no such|not (?:a )?(?:valid|built-in)"
    r"|not registered|no \w+ registered|should be|must be|cannot|can't|has no attribute",
    re.IGNORECASE,
)
_TOGETHER = re.compile(
    r"mutually exclusive|cannot be (?:used|set|specified) (?:together|at the same time|with)"
    r"|not compatible|incompatible|conflict|can(?:no|')t (?:both )?be (?:used|combined)",
    re.IGNORECASE,
)
_AT_MOST_ONE = re.compile(
    r"(?:less than(?: or equal to)?|<=?|at most|not exceed|smaller than) 1(?:\.0+)?(?!\.?\d)"
    r"|between 0(?:\.0+)? and 1(?:\.0+)?(?!\.?\d)|[(\[]0(?:\.0+)?, ?1(?:\.0+)?[)\]]"
)
_AT_LEAST = re.compile(
    r"\b(?P<low>[a-z][a-z0-9_]+) \((?P<is>\d+)\) must be (?:greater than or equal to|at least|>=|larger than) "
    r"\b(?P<high>[a-z][a-z0-9_]+) \((?P<wanted>\d+)\)"
)


MENDED_BY_WORDS = frozenset(
    {
        Category.INVALID_ARGUMENT_VALUE,
        Category.INCOMPATIBLE_ARGUMENTS,
        Category.MISSING_ARGUMENT,
        Category.CONFIG_FILE_ERROR,
        Category.TOKENIZER_OR_CHAT_TEMPLATE,
        Category.SPECULATIVE_DECODING_CRASH,
        Category.UNKNOWN,
    }
)
_WITHOUT_RULE = ("any/unknown-failure", "any/by-its-words", "any/by-its-place")
_ABOUT_ARGUMENTS = MENDED_BY_WORDS - {Category.UNKNOWN, Category.SPECULATIVE_DECODING_CRASH}


def by_its_words(cause: Cause, event: Event | None, bench: Bench) -> Cause:
    """A cause without a fix, with the one that its error's own words ask for, where they do."""
    text = _text_of(cause, event)
    step = broken_json(bench) if "JSONDecodeError" in text else mended_by_its_words(text, bench)
    offered = bench.offer(step.fix, step.safety, step.loses) if step is not None else None
    if step is None or offered is None or offered.command is None:
        return cause
    category = cause.category
    if cause.rule in _WITHOUT_RULE and category not in _ABOUT_ARGUMENTS:
        category = Category.INVALID_ARGUMENT_VALUE
    return replace(
        cause,
        category=category,
        explanation=f"{cause.explanation} The error names an argument that was given: {step.why}.",
        action=offered.action,
        fix=offered.fix,
        safety=Safety.MANUAL,
        loses=offered.loses,
        command=offered.command.words(),
    )


def _text_of(cause: Cause, event: Event | None) -> str:
    """The exception whose line proves the cause, its message whole; else the line alone."""
    line = cause.line
    for raised in event.chain if event is not None else ():
        if line is not None and raised.line.number == line.number:
            return f"{raised.name}: {raised.message}"
    return line.body if line is not None else ""


def mended_by_its_words(text: str, bench: Bench) -> Step | None:
    """What an error's text asks for; None where it names nothing of the command."""
    command, text = bench.command, text[:_LONGEST]
    if command is None:
        return None
    return (
        _raised(text, command)
        or _share(text, command)
        or _other_choice(text, command)
        or _one_of_two(text, command)
        or _left_out(text, command)
    )


def broken_json(bench: Bench) -> Step | None:
    """The one value of the command that was to be JSON, as JSON; None where none or several look like it."""
    if bench.command is None:
        return None
    found = [(entry, meant) for entry, value in _valued(bench.command) if (meant := json_meant(value)) is not None]
    if len(found) != 1:
        return None
    entry, meant = found[0]
    return Step(Fix(set={entry.spelled: meant}), Safety.MANUAL, "this is what its value was to say, as JSON")


def _raised(text: str, command: Command) -> Step | None:
    """`a (64) must be at least b (128)`: the smaller one is raised, where it was typed."""
    found = _AT_LEAST.search(text)
    entry = _named(found["low"], command) if found is not None else None
    if found is None or entry is None:
        return None
    return Step(
        Fix(set={entry.spelled: found["wanted"]}),
        Safety.MANUAL,
        f"it must be at least {found['high']}, {found['wanted']}",
    )


def _share(text: str, command: Command) -> Step | None:
    """`85` where a share of 1 is wanted was meant as per cent."""
    if _AT_MOST_ONE.search(text) is None:
        return None
    for entry, value in _said(text, command):
        number = float(value) if re.fullmatch(r"\d+(?:\.\d+)?", value) else 0.0
        if 2 <= number <= 100:
            why = f"{value} was probably meant as per cent"
            return Step(Fix(set={entry.spelled: f"{number / 100:g}"}), Safety.MANUAL, why)
    return None


def _other_choice(text: str, command: Command) -> Step | None:
    """A value that was typed is refused, and what would do is listed."""
    listed = _CHOICES.search(text)
    if listed is None:
        return None
    choices = tuple(dict.fromkeys(_WORD.findall(listed["list"])))
    for entry, value in _said(text[: listed.start()] or text, command):
        if value in choices or len(choices) < 2:
            continue
        choice = _alike(value, choices)
        if choice is not None:
            return Step(Fix(set={entry.spelled: choice}), Safety.MANUAL, f"{choice} is the choice most like {value}")
    return None


def _alike(value: str, choices: Sequence[str]) -> str | None:
    plain = {re.sub(r"[^a-z0-9]", "", choice.lower()): choice for choice in choices}
    same = plain.get(re.sub(r"[^a-z0-9]", "", value.lower()))
    return same or clear_choice(value, choices)


def _one_of_two(text: str, command: Command) -> Step | None:
    """Two arguments that exclude each other: the one typed last goes."""
    if _TOGETHER.search(text) is None:
        return None
    named = [entry for entry in command.arguments if _names(text, entry) and entry.key not in _CORE]
    if len({entry.key for entry in named}) < 2:
        return None
    last = max(named, key=lambda entry: entry.at)
    return Step(Fix(remove=(last.spelled,)), Safety.MANUAL, f"{last.spelled} is the one given last", (last.spelled,))


def _left_out(text: str, command: Command) -> Step | None:
    """The argument that is refused by its value or name, where it is the only one: without it the engine chooses."""
    if _REFUSED.search(text) is None:
        return None
    found = [entry for entry, _ in _said(text, command)]
    found = found or [entry for entry in command.arguments if _names(text, entry)]
    entries = {entry.key: entry for entry in found if entry.key not in _CORE}
    if len(entries) != 1:
        return None
    (entry,) = entries.values()
    return Step(
        Fix(remove=(entry.spelled,)),
        Safety.MANUAL,
        f"without {entry.spelled} the program chooses itself",
        (entry.spelled,),
    )


# -- what is named


def _valued(command: Command) -> Iterator[tuple[Occurrence, str]]:
    for entry in command.arguments:
        values = command.values_of(entry)
        if len(values) == 1:
            yield entry, values[0]


def _said(text: str, command: Command) -> Iterator[tuple[Occurrence, str]]:
    """Arguments whose value stands in a text as one: in quotes, behind a colon or an equals sign, or a path.

    A bare number says nothing but beside its argument's name.
    """
    lowered = text.lower()
    for entry, value in _valued(command):
        if len(value) < 2 or entry.key in _CORE:
            continue
        if re.fullmatch(r"[\d.,]+", value):
            if _says_number(text, value) and (_names(text, entry) or "input_value" in text):
                yield entry, value
        elif re.search(rf"(?:['\"`=]|: ?|^){re.escape(value.lower())}(?![\w-])", lowered) or (
            "/" in value and value.lower() in lowered
        ):
            yield entry, value


def _says_number(text: str, value: str) -> bool:
    try:
        number = float(value.replace(",", "."))
    except ValueError:
        return False
    return any(float(found) == number for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w])", text))


def _names(text: str, entry: Occurrence) -> bool:
    """Whether a text names an argument: as a flag, or as the attribute that it becomes."""
    name = entry.key.lstrip("-")
    if len(name) < 3:
        return False
    spelled = re.escape(name).replace(r"\-", "[-_]")
    return re.search(rf"(?<![\w-])(?:--)?{spelled}(?![\w-])", text) is not None


def _named(attribute: str, command: Command) -> Occurrence | None:
    found = [entry for entry in command.arguments if entry.key.lstrip("-").replace("-", "_") == attribute]
    return found[-1] if found else None
