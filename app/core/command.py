"""The launch command, typed: its parts, its flags in every spelling, and edits that change one thing only.

The words are kept as they were given; everything else is read from them. An edit makes a new command whose other
words, their order and their spelling are the same byte for byte.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from app.core.catalogue import FlagCatalogue
from app.core.errors import CommandError
from app.core.layout import Assignment, Layout, is_shell_operator, lay_out
from app.core.model import Fix, FlagValue
from app.core.occurrences import Occurrence, Reading, is_flag_word, key_of, read_arguments
from app.core.shipped import nearest_shipped
from app.core.vocabulary import Engine

_SAID_OF_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off"})
_PORTS: Mapping[Engine, int] = {
    Engine.SGLANG: 30000,
    Engine.VLLM: 8000,
    Engine.LLAMACPP: 8080,
    Engine.TGI: 3000,
    Engine.TENSORRT_LLM: 8000,
    Engine.LMDEPLOY: 23333,
    Engine.OLLAMA: 11434,
}
_MODEL_FLAGS: Mapping[Engine, tuple[str, ...]] = {
    Engine.LLAMACPP: ("--model", "-m", "--hf-repo", "-hf", "-hfr", "--model-url", "-mu"),
    Engine.TGI: ("--model-id",),
}
# Quoted parts, or a line continued on the next one: outside of quotes a shell joins such lines.
_CONTINUED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\\r?\n""", re.DOTALL)


def detect_engine(words: Sequence[str]) -> Engine | None:
    """The engine that this command starts, by its module or program; None for anything else."""
    return lay_out(words).engine


@dataclass(frozen=True)
class Command:
    """A launch command. `catalogue` tells how its flags are read: the one given, else the newest shipped one."""

    _words: tuple[str, ...]
    _flags: FlagCatalogue | None = field(default=None, repr=False)
    _engine: Engine | None = None

    @classmethod
    def parse(cls, words: Sequence[str], flags: FlagCatalogue | None = None, engine: Engine | None = None) -> Command:
        """Reads a command given as words. `engine` names it where the program's name does not."""
        return cls(tuple(words), flags, engine)

    @classmethod
    def from_string(cls, text: str, flags: FlagCatalogue | None = None, engine: Engine | None = None) -> Command:
        """Splits as a shell splits (quotes, lines continued by a backslash); nothing is expanded or run."""
        joined = _CONTINUED.sub(lambda match: "" if match[0].startswith("\\") else match[0], text)
        try:
            return cls(tuple(shlex.split(joined)), flags, engine)
        except ValueError as error:
            raise CommandError(
                f"The command can't be split into words: {str(error).lower()}.",
                mend="Close the quotation, or write a lone quote as \\'.",
            ) from None

    # -- parts ---------------------------------------------------------------------------------------------------

    @cached_property
    def layout(self) -> Layout:
        return lay_out(self._words)

    @cached_property
    def catalogue(self) -> FlagCatalogue | None:
        return self._flags or nearest_shipped(self.engine)

    @cached_property
    def _reading(self) -> Reading:
        return read_arguments(self._words, self.layout, self.catalogue)

    @property
    def engine(self) -> Engine | None:
        return self._engine or self.layout.engine

    @property
    def env(self) -> tuple[tuple[str, str], ...]:
        """The server's environment assignments, also those of `env A=b` and of a container's `-e A=b`."""
        return tuple((entry.name, entry.value) for entry in self.layout.assignments)

    @property
    def argv(self) -> tuple[str, ...]:
        """The words behind the leading assignments: what is executed."""
        return self._words[self.layout.leading :]

    @property
    def interpreter(self) -> str | None:
        at = self.layout.interpreter
        return None if at is None else self._words[at]

    @property
    def module(self) -> str | None:
        return self.layout.module

    @property
    def script(self) -> str | None:
        return self.layout.script

    @property
    def program(self) -> str | None:
        """The word that names what is run: program, script or module; None for bare arguments."""
        at = self.layout.program
        return None if at is None else self.module or self._words[at]

    @property
    def arguments(self) -> tuple[Occurrence, ...]:
        """The flags in the order typed."""
        return self._reading.occurrences

    @property
    def positionals(self) -> tuple[str, ...]:
        """The server's words that belong to no flag, subcommands left out."""
        return tuple(self._words[at] for at in self._reading.positionals)

    @property
    def positional_indexes(self) -> tuple[int, ...]:
        """Where the positionals stand in `words()`."""
        return self._reading.positionals

    def words(self) -> tuple[str, ...]:
        """The whole command, leading assignments first: what was parsed, byte for byte."""
        return self._words

    def shell(self) -> str:
        """The command ready to paste into a shell."""
        return " ".join(_quote(word, index < self.layout.leading) for index, word in enumerate(self._words))

    def with_catalogue(self, flags: FlagCatalogue | None) -> Command:
        """The same words, read by another catalogue."""
        return Command(self._words, flags, self._engine)

    def __str__(self) -> str:
        return self.shell()

    # -- questions -----------------------------------------------------------------------------------------------

    def find(self, flag: str) -> tuple[Occurrence, ...]:
        """Every place where this flag stands, in any of its spellings, its negation included."""
        key, _ = key_of(flag, self.catalogue)
        return tuple(entry for entry in self.arguments if entry.key == key)

    def has(self, flag: str) -> bool:
        """Whether the flag is given; a switch that is given as `--no-x` is not."""
        return self._last(flag) is not None

    def get(self, flag: str) -> FlagValue:
        """The value in force (the last one wins), True for a bare flag, None when it is not given."""
        last = self._last(flag)
        return None if last is None else self._value(last)

    def get_all(self, flag: str) -> list[str | Literal[True]]:
        """The value of each time that the flag is given."""
        _, negated = key_of(flag, self.catalogue)
        return [self._value(entry) for entry in self.find(flag) if entry.negated == negated]

    def values(self, flag: str) -> tuple[str, ...]:
        """The separate values of the last time that it is given: `--lora-paths a b` has two."""
        last = self._last(flag)
        return () if last is None else self.values_of(last)

    def values_of(self, entry: Occurrence) -> tuple[str, ...]:
        inline = () if entry.inline is None else (entry.inline,)
        return inline + tuple(self._words[at] for at in entry.values)

    @property
    def port(self) -> int | None:
        """The port given, else the engine's default."""
        given = self.get("--port")
        if isinstance(given, str):
            return int(given) if re.fullmatch(r"[0-9]{1,5}", given) else None
        return _PORTS.get(self.engine) if self.engine else None

    @property
    def host(self) -> str | None:
        given = self.get("--host")
        return given if isinstance(given, str) else None

    @property
    def model(self) -> str | None:
        """The model's path or name, as given by flag or, where the program takes it so, as its first word."""
        known = _MODEL_FLAGS.get(self.engine) if self.engine else None
        for flag in known or ("--model-path", "--model"):
            value = self.get(flag)
            if isinstance(value, str):
                return value
        return self.positionals[0] if self.layout.positionals and self.positionals else None

    def _last(self, flag: str) -> Occurrence | None:
        _, negated = key_of(flag, self.catalogue)
        found = self.find(flag)
        return found[-1] if found and found[-1].negated == negated else None

    def _value(self, entry: Occurrence) -> str | Literal[True]:
        values = self.values_of(entry)
        return " ".join(values) if values else True

    # -- edits ---------------------------------------------------------------------------------------------------

    def set(self, flag: str, value: str | Literal[True] | Sequence[str] = True) -> Command:
        """Gives the flag this value: in place and in the style of the last one typed, else at the end."""
        values = () if value is True else (value,) if isinstance(value, str) else tuple(value)
        found = self.find(flag)
        if not found:
            return self._insert(self._append_at, _spell(flag, values))
        return self._rewrite(found[-1], flag, values)

    def remove(self, flag: str) -> Command:
        """Takes the flag away, every time that it is given, with all its values."""
        gone = {at for entry in self.find(flag) for at in (entry.at, *entry.values, *self._stray(entry))}
        return self._with(word for at, word in enumerate(self._words) if at not in gone)

    def rename(self, old: str, new: str) -> Command:
        """Writes another flag in its place, every time; value and style stay. CommandError when it is not there."""
        found = self.find(old)
        if not found:
            raise CommandError(f"{old} is not in the command, so it can't become {new}.")
        words = list(self._words)
        for entry in reversed(found):
            if entry.inline is None:
                words[entry.at] = new
            elif entry.joiner:
                words[entry.at] = f"{new}={entry.inline}"
            else:
                words[entry.at : entry.at + 1] = [new, entry.inline]
        return self._with(words)

    def set_env(self, name: str, value: str) -> Command:
        """Assigns a variable of the server's environment: in place, else behind the assignments already there."""
        found = self._assigned(name)
        if found:
            last = found[-1]
            return self._replace(last.at, f"{last.before}{name}={value}")
        return self._insert(self.layout.assign_at, (*self.layout.assign_with, f"{name}={value}"))

    def unset_env(self, name: str) -> Command:
        """Takes every assignment of the variable out of the command."""
        gone: set[int] = set()
        for entry in self._assigned(name):
            gone.add(entry.at)
            if self.layout.assign_with and not entry.before and entry.at >= self.layout.leading:
                gone.add(entry.at - 1)
        return self._with(word for at, word in enumerate(self._words) if at not in gone)

    def apply(self, fix: Fix) -> Command:
        """The command with the whole fix applied: environment, renames, removals, then values."""
        command = self
        for name in fix.env_unset:
            command = command.unset_env(name)
        for name, text in fix.env_set.items():
            command = command.set_env(name, text)
        for old, new in fix.rename.items():
            command = command.rename(old, new)
        for flag in fix.remove:
            command = command.remove(flag)
        for flag, value in fix.set.items():
            command = command.set(flag, value)
        return command

    def _assigned(self, name: str) -> list[Assignment]:
        return [entry for entry in self.layout.assignments if entry.name == name]

    @property
    def _append_at(self) -> int:
        """Behind the last argument, but before a `--` that ends the flags and before a shell's `> log`."""
        return self._reading.terminator if self._reading.terminator is not None else self.layout.end

    def _stray(self, entry: Occurrence) -> tuple[int, ...]:
        """Where a switch, which takes no value, was given one all the same: `--enforce-eager true`."""
        at = entry.at + 1
        alone = entry.flag is not None and entry.flag.takes == "none" and entry.inline is None and not entry.values
        word = self._words[at].lower() if alone and at < self.layout.end else ""
        return (at,) if word in _SAID_OF_SWITCHES else ()

    def _rewrite(self, entry: Occurrence, flag: str, values: tuple[str, ...]) -> Command:
        _, negated = key_of(flag, self.catalogue)
        word = entry.spelled if entry.negated == negated else flag
        if len(values) == 1 and (entry.inline is not None or _needs_equals(values[0])):
            replacement = [f"{word}{entry.joiner if entry.inline is not None else '='}{values[0]}"]
        else:
            replacement = [word, *values]
        gone = {*entry.values, *(() if values else self._stray(entry))}
        words = [text for at, text in enumerate(self._words) if at not in gone]
        words[entry.at : entry.at + 1] = replacement
        return self._with(words)

    def _insert(self, at: int, words: Sequence[str]) -> Command:
        return self._with((*self._words[:at], *words, *self._words[at:]))

    def _replace(self, at: int, word: str) -> Command:
        return self._with((*self._words[:at], word, *self._words[at + 1 :]))

    def _with(self, words: Iterable[str]) -> Command:
        return Command(tuple(words), self._flags, self._engine)


def _spell(flag: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) == 1 and _needs_equals(values[0]):
        return (f"{flag}={values[0]}",)
    return (flag, *values)


def _needs_equals(value: str) -> bool:
    """A value that would be taken for a flag or for a shell's operator has to be joined to its own flag."""
    return value == "--" or is_flag_word(value, None) or is_shell_operator(value)


def _quote(word: str, assignment: bool) -> str:
    if assignment:
        name, _, value = word.partition("=")
        return f"{name}={shlex.quote(value)}"
    return shlex.quote(word)


__all__ = ["Command", "Occurrence", "detect_engine"]
