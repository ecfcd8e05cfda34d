"""Reads flags out of a program's own words: argparse help, argparse usage blocks in logs, and llama-server's help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypedDict

from app.core.catalogue import CatalogueOrigin, Flag, FlagCatalogue, Takes
from app.core.vocabulary import Engine

_SPELLING = r"--?[A-Za-z0-9][\w.-]*"
# An entry begins at the margin (llama-server) or two columns in (argparse); explanations stand far to the right.
_ENTRY = re.compile(rf"^(?P<indent> {{0,3}})(?P<head>{_SPELLING}(?:[ ,=\[{{<].*)?)$")
_USAGE = re.compile(r"^\s*usage:\s", re.IGNORECASE)
_REMOVED = re.compile(r"\s{2,}the argument has been removed\b")  # llama-server still lists it, and refuses it
_CHOICES = re.compile(r"\{([^{}]*)\}")


class Traits(TypedDict):
    """How an engine's parser treats spellings, whatever its flags are."""

    abbreviations: bool
    underscores: bool
    dotted: bool
    attached: bool


def traits_of(engine: Engine) -> Traits:
    """vLLM's parser takes underscores and `--config.key`; llama-server's takes whole names only, with underscores."""
    exact_only = engine in (Engine.LLAMACPP, Engine.TGI, Engine.OLLAMA)
    return Traits(
        abbreviations=not exact_only,
        underscores=engine in (Engine.VLLM, Engine.LLAMACPP),
        dotted=engine is Engine.VLLM,
        attached=engine is not Engine.LLAMACPP,
    )


def catalogue_from_help(
    text: str, engine: Engine, version: str | None, origin: CatalogueOrigin = "installed"
) -> FlagCatalogue:
    """The catalogue that a help text describes.

    A text that is only a usage block names one spelling of each flag: it is not complete.
    """
    flags = with_early_aliases(engine, parse_help(text))
    return FlagCatalogue(engine, version, origin, flags, complete=_has_entries(text.splitlines()), **traits_of(engine))


def with_early_aliases(engine: Engine, flags: tuple[Flag, ...]) -> tuple[Flag, ...]:
    """The flags with the spellings that a program translates before its parser sees them: vLLM's `-O3`."""
    if engine is not Engine.VLLM or any("-O" in flag.spellings for flag in flags):
        return flags
    return tuple(
        replace(flag, aliases=(*flag.aliases, "-O")) if flag.name == "--optimization-level" else flag for flag in flags
    )


def parse_help(text: str) -> tuple[Flag, ...]:
    """Every flag in a help text or usage block, in the order printed; what can't be read is left out."""
    lines = text.splitlines()
    in_usage = tuple(_flags_of_usage(lines))
    entries = tuple(flag for heading in _headings(lines) if (flag := _flag_of_heading(heading)))
    if not entries:
        return in_usage
    required = {flag.name for flag in in_usage if flag.required}
    found: dict[str, Flag] = {}
    for flag in entries:
        needed = not required.isdisjoint(flag.spellings)
        found.setdefault(flag.name, replace(flag, required=needed))
    return tuple(found.values())


# -- the list of options ---------------------------------------------------------------------------------------------


def _has_entries(lines: list[str]) -> bool:
    return next(iter(_headings(lines)), None) is not None


def _headings(lines: list[str]) -> Iterator[str]:
    """Each entry's heading; usage lines and flags that a description or an epilogue mentions are passed over."""
    found = list(_candidates(lines))
    indents = [indent for indent, _ in found]
    entries_at = max(indents, key=indents.count, default=0)
    for indent, heading in found:
        if indent == entries_at and not _REMOVED.search(heading):
            yield _without_explanation(heading)


def _candidates(lines: list[str]) -> Iterator[tuple[int, str]]:
    in_usage = False
    for line in lines:
        if _USAGE.match(line):
            in_usage = True
            continue
        if in_usage:
            in_usage = bool(line.strip()) and line.startswith(" " * 4)
            if in_usage:
                continue
        if match := _ENTRY.match(line.rstrip()):
            yield len(match["indent"]), match["head"]


def _without_explanation(text: str) -> str:
    """`-t,    --threads N      number of ...`: blanks after a comma are padding, elsewhere they end the heading."""
    match = re.search(r"(?<![,\s])\s{2,}(?=\S)", text)
    return text[: match.start()] if match else text


def _flag_of_heading(heading: str) -> Flag | None:
    """`--speculative-config X, -sc X` or `-c, --ctx-size N` → one flag with its aliases and what it takes."""
    spellings: list[str] = []
    metavar = ""
    for part in _parts(heading):
        match = re.match(rf"({_SPELLING})(.*)$", part, re.DOTALL)
        if match is None:
            return None
        spellings.append(match[1])
        metavar = match[2].strip(" =") or metavar
    return _flag(spellings, metavar) if spellings else None


def _parts(heading: str) -> list[str]:
    """Split at the commas before a further spelling, not at those inside `{a,b}`."""
    return re.split(rf",\s+(?={_SPELLING}(?:\s|,|$))", heading.strip())


def _flag(spellings: list[str], metavar: str, required: bool = False) -> Flag:
    negations = tuple(text for text in spellings if _negates(text, spellings))
    names = [text for text in spellings if text not in negations] or spellings
    name = next((text for text in names if text.startswith("--")), names[0])
    takes, count = _takes(metavar)
    return Flag(
        name=name,
        aliases=tuple(dict.fromkeys(text for text in names if text != name)),
        takes=takes,
        choices=_choices(metavar),
        negations=negations if len(names) < len(spellings) else (),
        required=required,
        count=count,
    )


def _negates(spelling: str, among: list[str]) -> bool:
    """`--no-x` beside `--x`; llama-server also has `-nkvo` beside `-kvo`."""
    if spelling.startswith("--no-"):
        return f"--{spelling[5:]}" in among
    return spelling.startswith("-n") and not spelling.startswith("--") and f"-{spelling[2:]}" in among


@dataclass(frozen=True, slots=True)
class _Shape:
    takes: Takes
    pattern: re.Pattern[str]


_WORD = r"(?:\{[^{}]*\}|<[^<>]*>|[^\s\[\]{}]+)"
_SHAPES = (
    _Shape("none", re.compile(r"")),
    _Shape("many", re.compile(rf"\[?{_WORD} \[{_WORD} \.\.\.\]\]?|\[{_WORD} ?\.\.\.\]")),
    _Shape("one", re.compile(r"\[[^\[\]\s]*\|[^\[\]\s]*\]")),  # llama-server's [on|off|auto] is a must
    _Shape("optional", re.compile(rf"\[{_WORD}\]")),
    _Shape("one", re.compile(_WORD)),
)


def _takes(metavar: str) -> tuple[Takes, int | None]:
    for shape in _SHAPES:
        if shape.pattern.fullmatch(metavar):
            return shape.takes, None
    words = metavar.split()
    names = all(re.fullmatch(r"[A-Z][\w.-]*|\{[^{}]*\}|<[^<>]*>", word) for word in words)
    return ("many", len(words)) if names else ("one", None)


def _choices(metavar: str) -> tuple[str, ...]:
    match = _CHOICES.match(metavar.lstrip("["))
    if match is None or "..." in match[1] or re.search(r"[a-z]", metavar.replace(match[0], "")):
        return ()  # `{a,b} or any other name`: the list is only advice
    return tuple(choice.strip() for choice in match[1].split(","))


# -- the usage block -------------------------------------------------------------------------------------------------


def _flags_of_usage(lines: list[str]) -> Iterator[Flag]:
    """`usage: prog [-h] --model M [--x | --no-x] [--many A [A ...]] word`: one spelling of each flag."""
    for item, optional in _usage_items(_usage_text(lines)):
        alternatives = [part.strip() for part in _outside(item, "|")]
        flags = [alternative for alternative in alternatives if re.match(_SPELLING, alternative)]
        if flags and all(re.fullmatch(_SPELLING, flag) for flag in flags) and _one_switch(flags):
            yield _flag(flags, "", required=False)
            continue
        for flag in flags:
            spelling, _, metavar = flag.partition(" ")
            yield _flag([spelling], metavar.strip(), required=not optional and len(alternatives) == 1)


def _one_switch(flags: list[str]) -> bool:
    return len(flags) == 2 and _negates(flags[1], flags)


def _usage_text(lines: Iterable[str]) -> str:
    """The usage block as one line, without the words before its first flag."""
    kept: list[str] = []
    for line in lines:
        if _USAGE.match(line):
            kept = [_USAGE.sub("", line)]
        elif kept and (not line.strip() or re.match(r"\s*[\w ./-]*: error: |\S+:$", line)):
            break
        elif kept:
            kept.append(line)
    return re.sub(r"\s+", " ", " ".join(kept))


def _usage_items(text: str) -> Iterator[tuple[str, bool]]:
    """Top-level pieces: what stands in brackets is optional; a bare flag takes the words up to the next piece."""
    at = 0
    while at < len(text):
        if text[at] in "[(":
            stop = _closing(text, at)
            yield text[at + 1 : stop], text[at] == "["
            at = stop + 1
        elif match := re.compile(rf"{_SPELLING}(?: (?:\{{[^}}]*\}}|[A-Z][\w:.,=]*)(?=\s|$))?").match(text, at):
            many = re.compile(r" \[[^\[\]]*\.\.\.\]").match(text, match.end())
            at = many.end() if many else match.end()
            yield text[match.start() : at], False
        else:
            word = re.compile(r"\S*\s*").match(text, at)
            at = word.end() if word and word.end() > at else at + 1


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "[(") - (text[at] in "])")
        if depth == 0:
            return at
    return len(text)


def _outside(text: str, mark: str) -> list[str]:
    """Split at a mark that stands in no brackets or braces."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[({") - (letter in "])}")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
