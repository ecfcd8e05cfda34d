"""The flags that one version of a program takes, and the questions asked of them.

A catalogue comes from the installed program's own `--help`, from a usage block in a log, or is shipped with Crashcart
for known versions. `resolve` answers as the program's own parser would; `closest` and `near` look for what was meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from app.core import nearness
from app.core.problems import ArgumentProblem
from app.core.validation import problems_of
from app.core.vocabulary import Engine

if TYPE_CHECKING:
    from app.core.command import Command

Takes = Literal["none", "one", "optional", "many"]
CatalogueOrigin = Literal["installed", "log", "shipped"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `name` and `aliases` carry their dashes; `negations` are its `--no-...` spellings."""

    name: str
    aliases: tuple[str, ...] = ()
    takes: Takes = "one"
    choices: tuple[str, ...] = ()
    type: str | None = None  # "int", "float", "json", "human-int"; None: any text
    negations: tuple[str, ...] = ()
    required: bool = False
    count: int | None = None  # exactly that many values, where the program says so
    hidden: bool = False  # taken, but not told by the program's help
    group: str = ""
    help: str = ""

    @property
    def negation(self) -> str | None:
        return self.negations[0] if self.negations else None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every accepted spelling that means the flag itself, not its negation."""
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a program's parser understands a spelling.

    `kind` exact: this spelling (underscores counted as dashes where the program does so); prefix: a unique
    abbreviation that the program accepts; ambiguous: it abbreviates `candidates`; unknown: refused. `flag` is None
    for the last two. `key` (exact flags only) is the part behind the dot of a `--config.key` spelling.
    """

    kind: Literal["exact", "prefix", "ambiguous", "unknown"]
    flag: Flag | None = None
    candidates: tuple[Flag, ...] = ()
    negated: bool = False
    key: str | None = None


@dataclass(frozen=True)
class FlagCatalogue:
    """All flags of one program version, by which its command lines are read and judged."""

    engine: Engine
    version: str | None
    origin: CatalogueOrigin
    flags: tuple[Flag, ...]
    abbreviations: bool = True  # unique prefixes of long flags are accepted
    underscores: bool = False  # `--a_b` is accepted for `--a-b`
    dotted: bool = False  # `--config.key value` fills a JSON flag
    complete: bool = True  # every flag is listed: a flag that is not is unknown for sure
    attached: bool = True  # `--f=v` and `-f5` are accepted
    _resolved: dict[str, Resolution] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _spellings(self) -> Mapping[str, tuple[Flag, bool]]:
        table: dict[str, tuple[Flag, bool]] = {}
        for flag in self.flags:
            for spelling in flag.negations:
                table.setdefault(spelling, (flag, True))
            for spelling in flag.spellings:
                table[spelling] = (flag, False)
        return table

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every accepted spelling, negations included."""
        return tuple(self._spellings)

    def __contains__(self, spelled: str) -> bool:
        return self.resolve(spelled).flag is not None

    def find(self, spelled: str) -> Flag | None:
        """The flag that the program takes this spelling for, if it does."""
        return self.resolve(spelled).flag

    def resolve(self, spelled: str) -> Resolution:
        """Reads a flag (without `=value`) as the program's own parser does."""
        known = self._resolved.get(spelled)
        if known is None:
            known = self._resolve(spelled)
            if len(self._resolved) < 4096:
                self._resolved[spelled] = known
        return known

    def _resolve(self, spelled: str) -> Resolution:
        name, dot, key = spelled.partition(".") if self.dotted else (spelled, "", "")
        if self.underscores and name.startswith("--"):
            name = name.replace("_", "-")
        found = self._spellings.get(name)
        if found is None and self.abbreviations and name.startswith("-") and name not in ("-", "--"):
            return self._by_prefix(name, key if dot else None)
        if found is None:
            return Resolution("unknown")
        return Resolution("exact", found[0], negated=found[1], key=key if dot else None)

    def _by_prefix(self, name: str, key: str | None) -> Resolution:
        matches = {spelling: entry for spelling, entry in self._spellings.items() if spelling.startswith(name)}
        meanings = {(flag.name, negated) for flag, negated in matches.values()}
        if not matches:
            return Resolution("unknown")
        flag, negated = next(iter(matches.values()))
        if len(meanings) == 1:
            return Resolution("prefix", flag, negated=negated, key=key)
        return Resolution("ambiguous", candidates=_distinct(entry[0] for entry in matches.values()))

    def closest(self, spelled: str, limit: int = 3) -> list[tuple[Flag, float]]:
        """The flags most like this spelling, best first, with a likeness of 0 to 1."""
        best: dict[str, tuple[Flag, float]] = {}
        for spelling, (flag, _) in self._spellings.items():
            score = 0.0 if flag.hidden else nearness.likeness(spelled, spelling)
            if score > best.get(flag.name, (flag, 0.0))[1]:
                best[flag.name] = (flag, score)
        ranked = sorted(best.values(), key=lambda entry: (-entry[1], entry[0].name))
        return [entry for entry in ranked[:limit] if entry[1] >= nearness.RELATED]

    def near(self, spelled: str) -> str | None:
        """The one spelling that was clearly meant: a slip of one or two keys away, and nothing else comes close."""
        shown = {text: flag.name for text, (flag, _) in self._spellings.items() if not flag.hidden}
        return nearness.clearly_meant(spelled, shown)

    def validate(self, command: Command) -> list[ArgumentProblem]:
        """What the program's parser would refuse in this command; nothing when the parser would take it."""
        return problems_of(command, self)

    def with_types_of(self, other: FlagCatalogue) -> FlagCatalogue:
        """The same flags, with the value types that only `other` (of the same version) knows."""
        types = {flag.name: flag for flag in other.flags}
        merged = tuple(
            replace(flag, type=types[flag.name].type) if flag.name in types and flag.type is None else flag
            for flag in self.flags
        )
        return replace(self, flags=merged)

    def to_json(self) -> str:
        """One flag a line, sorted: small, quick to read and quiet in a diff."""
        head = {
            "engine": self.engine.value,
            "version": self.version,
            "origin": self.origin,
            "abbreviations": self.abbreviations,
            "underscores": self.underscores,
            "dotted": self.dotted,
            "complete": self.complete,
            "attached": self.attached,
        }
        lines = [json.dumps(_flag_data(flag), ensure_ascii=False) for flag in sorted(self.flags, key=lambda f: f.name)]
        return json.dumps(head)[:-1] + ', "flags": [\n' + ",\n".join(lines) + "\n]}\n"

    @classmethod
    def from_json(cls, text: str) -> FlagCatalogue:
        """Reads what `to_json` wrote; ValueError or KeyError or TypeError when it is something else."""
        data = json.loads(text)
        flags = tuple(_flag_from(entry) for entry in data.pop("flags"))
        return cls(engine=Engine(data.pop("engine")), flags=flags, **data)


def _distinct(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    return tuple({flag.name: flag for flag in flags}.values())


_DEFAULTS: Mapping[str, Any] = {
    "aliases": (),
    "takes": "one",
    "choices": (),
    "type": None,
    "negations": (),
    "required": False,
    "count": None,
    "hidden": False,
    "group": "",
    "help": "",
}


def _flag_data(flag: Flag) -> dict[str, Any]:
    values = {name: getattr(flag, name) for name in _DEFAULTS}
    return {"name": flag.name} | {name: value for name, value in values.items() if value != _DEFAULTS[name]}


def _flag_from(entry: Mapping[str, Any]) -> Flag:
    values: dict[str, Any] = dict(entry)
    for name in ("aliases", "choices", "negations"):
        values[name] = tuple(entry.get(name, ()))
    return Flag(**values)
