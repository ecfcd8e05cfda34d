"""From the fix that a rule describes to a change of this very command line, checked before it is offered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.core import nearness
from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.equivalents import equivalent
from app.core.errors import CommandError
from app.core.model import Fix
from app.core.problems import ArgumentProblem
from app.core.vocabulary import Action, Engine, Safety
from app.rules.parts import ClosestPart, FloorPart
from app.rules.template import expand, expand_exactly

if TYPE_CHECKING:
    from app.rules.conditions import Condition
    from app.rules.schema import Adjust, Closest, FixSpec, Floor


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would bring the server back. `command` is None where no command is known or none can be offered.

    `wanted` is the safety of the change itself, before it is known whether the command would start.
    """

    action: Action = Action.NONE
    fix: Fix | None = None
    command: Command | None = None
    safety: Safety = Safety.MANUAL
    loses: tuple[str, ...] = ()
    wanted: Safety = Safety.MANUAL


@dataclass(frozen=True, slots=True)
class Step:
    """The mending of one argument: what to change, how safe that is, and why in half a sentence."""

    fix: Fix
    safety: Safety
    why: str
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """What a fix is worked out on: the command and the flags that its program takes, as far as both are known.

    `exact` says that the catalogue is the one of this very version: then what it does not know is refused for sure.
    """

    command: Command | None = None
    catalogue: FlagCatalogue | None = None
    exact: bool = False
    engine: Engine | None = None

    def offer(self, fix: Fix, safety: Safety, loses: tuple[str, ...] = ()) -> Remedy | None:
        """The fix as a remedy, with the corrected command; None when it changes nothing or would be refused.

        A command that would still be refused for something else is no command that may start alone: it is not safe.
        """
        if fix.empty:
            return None
        if self.command is None:
            return Remedy(Action.CHANGE, fix, None, safety, loses, safety)
        try:
            changed = self.command.apply(fix)
        except CommandError:
            return None
        if changed.words() == self.command.words():
            return None
        before, after = self._problems(self.command), self._problems(changed)
        if after - before:
            return None
        # Without a catalogue nobody knows whether it would be taken.
        doubtful = self.catalogue is None or (bool(after) and self.exact)
        return Remedy(Action.CHANGE, fix, changed, Safety.MANUAL if doubtful else safety, loses, safety)

    def _problems(self, command: Command) -> set[tuple[str, str, str | None]]:
        if self.catalogue is None:
            return set()
        return {(problem.kind, problem.flag, problem.value) for problem in self.problems(command)}

    def problems(self, command: Command) -> list[ArgumentProblem]:
        """What the program would refuse in a command, by the catalogue."""
        return self.catalogue.validate(command) if self.catalogue is not None else []

    def typed(self, flag: str) -> str | None:
        """How the command spells a flag that it has, in whatever spelling."""
        found = self.command.find(flag) if self.command is not None else ()
        return found[-1].spelled if found else None

    def spelling(self, flag: str) -> str | None:
        """How this command, or else this version, spells a flag; None when the version has no such flag."""
        if (typed := self.typed(flag)) is not None:
            return typed
        if self.catalogue is None:
            return flag
        if self.catalogue.find(flag) is not None:
            return flag
        known = equivalent(flag, self.catalogue.engine, self.catalogue)
        if known is not None and known.same_meaning and known.flag is not None and known.fold is None:
            return known.flag
        return None if self.exact and self.catalogue.complete else flag


def choose(
    specs: Iterable[FixSpec],
    captures: Mapping[str, str],
    bench: Bench,
    holds: Callable[[Condition], bool],
) -> Remedy:
    """The first fix whose `requires` holds and that can be applied; an empty remedy when there is none."""
    for spec in specs:
        if spec.requires is not None and not holds(spec.requires):
            continue
        loses = tuple(expand(text, captures) for text in spec.loses)
        if spec.restart:
            return Remedy(Action.RESTART, None, None, spec.safety, loses)
        fix = plan(spec, captures, bench)
        remedy = bench.offer(fix, spec.safety, loses) if fix is not None else None
        if remedy is not None:
            return remedy
    return Remedy()


def plan(spec: FixSpec, captures: Mapping[str, str], bench: Bench) -> Fix | None:
    """A fix description with its captures, closest names and arithmetic worked out; None when that can't be done."""
    try:
        return Fix(
            set=_settings(spec, captures, bench),
            remove=tuple(_present(_exactly(flag, captures), bench) for flag in spec.remove or ()),
            rename={
                _present(_exactly(old, captures), bench): _new_name(new, captures, bench)
                for old, new in spec.rename.items()
            },
            env_set={
                _exactly(name, captures): _text(_value(value, captures, None, bench))
                for name, value in spec.env_set.items()
            },
            env_unset=tuple(_exactly(name, captures) for name in spec.env_unset or ()),
        )
    except _Impossible:
        return None


class _Impossible(Exception):  # noqa: N818  (not an error: this fix just does not apply here)
    """A capture, a number or a flag that the fix needs is not there."""


def _settings(spec: FixSpec, captures: Mapping[str, str], bench: Bench) -> dict[str, str | Literal[True]]:
    settings: dict[str, str | Literal[True]] = {}
    for written, value in spec.set.items():
        flag = _known(_exactly(written, captures), bench)
        settings[flag] = _value(value, captures, flag, bench)
    for written, adjust in spec.adjust.items():
        flag = _known(_exactly(written, captures), bench)
        settings[flag] = _adjusted(flag, adjust, captures, bench)
    return settings


def _exactly(text: str, captures: Mapping[str, str]) -> str:
    found = expand_exactly(text, captures)
    if found is None or not found:
        raise _Impossible
    return found


def _known(flag: str, bench: Bench) -> str:
    spelt = bench.spelling(flag)
    if spelt is None:
        raise _Impossible
    return spelt


def _present(flag: str, bench: Bench) -> str:
    """The spelling in the command of a flag that is to go: the command must have it."""
    if bench.command is None:
        return flag
    typed = bench.typed(flag)
    if typed is None:
        raise _Impossible
    return typed


def _new_name(new: str | Closest, captures: Mapping[str, str], bench: Bench) -> str:
    if isinstance(new, str):
        return _known(_exactly(new, captures), bench)
    near = bench.catalogue.near(_exactly(new.closest, captures)) if bench.catalogue is not None else None
    if near is None:
        raise _Impossible
    return near


def _text(value: str | Literal[True]) -> str:
    if value is True:
        raise _Impossible
    return value


def _value(
    value: str | Literal[True] | Closest | Floor, captures: Mapping[str, str], flag: str | None, bench: Bench
) -> str | Literal[True]:
    if value is True:
        return True
    if isinstance(value, FloorPart):
        number = _number(_exactly(value.floor, captures))
        return str(int(number // value.to) * value.to + value.plus)
    if isinstance(value, ClosestPart):
        return _closest_choice(_exactly(value.closest, captures), flag, bench)
    return _exactly(value, captures)


def _closest_choice(typed: str, flag: str | None, bench: Bench) -> str:
    known = bench.catalogue.find(flag) if bench.catalogue is not None and flag is not None else None
    choice = clear_choice(typed, known.choices if known is not None else ())
    if choice is None:
        raise _Impossible
    return choice


def clear_choice(typed: str, choices: Iterable[str]) -> str | None:
    """The one choice that a value was clearly meant to be: only case or signs differ, or a slip of one or two keys.

    A difference in digits (`fp4`, `fp8`) is a difference in meaning.
    """
    listed = list(choices)
    same = [choice for choice in listed if _plain(choice) == _plain(typed)]
    if len(same) == 1:
        return same[0]
    if len(typed) < 4:
        return None
    allowed = 2 if len(typed) >= 9 else 1
    ranked = sorted((nearness.distance(typed.lower(), choice.lower(), allowed + 2), choice) for choice in listed)
    if not ranked or ranked[0][0] > allowed or (len(ranked) > 1 and ranked[1][0] < ranked[0][0] + 2):
        return None
    winner = ranked[0][1]
    return winner if _digits(winner) == _digits(typed) else None


def _plain(value: str) -> str:
    return value.lower().replace("_", "").replace("-", "").replace(" ", "")


def _digits(value: str) -> str:
    return "".join(letter for letter in value if letter.isdigit())


def _number(text: str) -> float:
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise _Impossible from None
    if not math.isfinite(number):
        raise _Impossible
    return number


def _adjusted(flag: str, adjust: Adjust, captures: Mapping[str, str], bench: Bench) -> str:
    """The flag's number moved within its bounds; impossible where the bound is reached already."""
    typed = bench.command.get(flag) if bench.command is not None else None
    if not isinstance(typed, str):
        raise _Impossible
    now = _number(typed)
    wanted = now * adjust.times + adjust.by
    if adjust.min is not None:
        wanted = max(wanted, adjust.min)
    if adjust.max is not None:
        wanted = min(wanted, adjust.max)
    upwards = now * adjust.times + adjust.by > now
    whole = now.is_integer() and "." not in typed
    if whole:
        wanted = math.ceil(wanted) if upwards else math.floor(wanted)
    if wanted == now or (wanted > now) != upwards:
        raise _Impossible
    return str(int(wanted)) if whole else f"{wanted:.6f}".rstrip("0").rstrip(".")
