"""One rule's view of a scene: candidate lines and events, values by name, and the bounds of its work."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import regex

from app.core.model import Event, Hit, Line
from app.rules.scene import Scene
from app.rules.template import expand_exactly

if TYPE_CHECKING:
    from app.rules.conditions import Comparison

SEARCH_SECONDS = 0.25  # of processor time for one pattern on one text
MOST_STEPS = 20_000  # candidates that one rule may try in one scene


class RuleTroubleError(Exception):
    """A rule can't be decided within its bounds; it is reported and counts as not holding."""


class State(NamedTuple):
    """What the conditions solved so far have found.

    `anchor` is the line found first: it proves the rule. `latest` is the line found last: relative conditions start
    from it.
    """

    captures: Mapping[str, str] = {}
    anchor: Line | None = None
    latest: Line | None = None
    event: Event | None = None
    rank: str | None = None
    weight: int = 0  # questions that held
    depth: int = 0  # of the frame that held, from the outermost

    def held(
        self,
        weight: int,
        *,
        groups: Mapping[str, str] | None = None,
        line: Line | None = None,
        event: Event | None = None,
        depth: int = 0,
    ) -> State | None:
        """The state after a condition held; None when it captured another value under a name already taken.

        The first condition on the log sets the anchor, and it stays.
        """
        captures = self.captures
        if groups:
            if any(captures.get(name, value) != value for name, value in groups.items()):
                return None
            captures = {**captures, **groups}
        state = self._replace(captures=captures, weight=self.weight + weight, depth=max(self.depth, depth))
        if line is None:
            return state
        state = state._replace(latest=line)
        if self.anchor is not None:
            return state
        return state._replace(anchor=line, event=event, rank=line.rank or (event.rank if event else None))


@functools.cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """A pattern, compiled when it is first needed."""
    return regex.compile(pattern)


class Look:
    """A scene as one rule sees it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.steps = 0

    def step(self) -> None:
        """Counts a candidate; too many mean that a rule's conditions multiply."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise RuleTroubleError(f"gave up after {MOST_STEPS:,} tries: its conditions hold on too many lines")

    def search(self, pattern: str, text: str) -> regex.Match[str] | None:
        """The first place where a pattern is found, in bounded time."""
        try:
            return compiled(pattern).search(text, timeout=SEARCH_SECONDS)
        except TimeoutError:
            raise RuleTroubleError(f"took longer than {SEARCH_SECONDS:g} s: {pattern!r}") from None

    def fits(self, pattern: str, text: str) -> regex.Match[str] | None:
        """Whether a pattern is the whole of a text."""
        try:
            return compiled(pattern).fullmatch(text, timeout=SEARCH_SECONDS)
        except TimeoutError:
            raise RuleTroubleError(f"took longer than {SEARCH_SECONDS:g} s: {pattern!r}") from None

    def hits(self, pattern: str) -> Sequence[Hit]:
        """The kept lines on which a pattern was found, in log order."""
        hits = self.scene.digest.hits.get(pattern)
        return hits.kept if hits else ()

    def total(self, pattern: str) -> int:
        """On how many lines a pattern was found."""
        hits = self.scene.digest.hits.get(pattern)
        return hits.total if hits else 0

    def position(self, line: Line) -> int:
        """Where a line stands in time: an export with the newest line first counts backwards."""
        return -line.number if self.scene.digest.newest_first else line.number

    def value(self, name: str, state: State) -> str | None:
        """A capture by its name: a named group, `argv.--flag`, `env.NAME`, `probe.name`, or a fact of the scene."""
        if name in state.captures:
            return state.captures[name]
        kind, _, rest = name.partition(".")
        match kind if rest else None:
            case "argv":
                return self.argument(rest)
            case "env":
                return self.variable(rest)
            case "probe":
                return self._probed(rest)
        return self._fact(name)

    def _probed(self, name: str) -> str | None:
        found = self.scene.probes.get(name)
        several = found if isinstance(found, list | tuple | set | frozenset) else [found]
        return ", ".join(str(one) for one in several) if found is not None else None

    def _fact(self, name: str) -> str | None:
        command = self.scene.command
        match name:
            case "phase":
                return self.scene.phase.value
            case "engine":
                return self.scene.engine.value if self.scene.engine else None
            case "version":
                return self.scene.version
            case "exit":
                return str(self.scene.exit) if self.scene.exit.known else None
            case "model" if command is not None:
                return command.model
            case "port" if command is not None:
                return None if command.port is None else str(command.port)
        return None

    def argument(self, spellings: str) -> str | None:
        """A flag's value, `true` for a bare one; the first of `--a|--b` that was given."""
        if self.scene.command is None:
            return None
        for flag in spellings.split("|"):
            value = self.scene.command.get(flag)
            if value is not None:
                return "true" if value is True else value
        return None

    def variable(self, name: str) -> str | None:
        """The value of an environment variable that was given with the command."""
        return None if self.scene.command is None else dict(self.scene.command.env).get(name)

    def text(self, template: str, state: State) -> str | None:
        """A text of the rule with its captures; None when one is missing."""
        return expand_exactly(template, Values(self, state))

    def compares(self, test: Comparison, value: str, state: State) -> Mapping[str, str] | None:
        """What a comparison captured when all of it holds, else None."""
        wanted = [self.text(one, state) for one in (test.equals,) if one is not None]
        if any(one is None or not _same(value, one) for one in wanted):
            return None
        choices = [self.text(one, state) for one in test.in_ or ()]
        if test.in_ is not None and not any(one is not None and _same(value, one) for one in choices):
            return None
        if not self._in_bounds(test, value, state):
            return None
        if test.matches is None:
            return {}
        found = self.search(test.matches, value)
        return groups_of(found) if found else None

    def _in_bounds(self, test: Comparison, value: str, state: State) -> bool:
        bounds = [(test.gt, 1, False), (test.ge, 1, True), (test.lt, -1, False), (test.le, -1, True)]
        for template, direction, inclusive in bounds:
            if template is None:
                continue
            number, bound = _number(value), _number(self.text(template, state))
            if number is None or bound is None:
                return False
            distance = (number - bound) * direction
            if distance < 0 or (distance == 0 and not inclusive):
                return False
        return test.multiple_of is None or _is_multiple(value, self.text(test.multiple_of, state))


class Values(Mapping[str, str]):
    """All captures by name, those of the command and the scene looked up when asked for."""

    def __init__(self, look: Look, state: State) -> None:
        self._look, self._state = look, state

    def __getitem__(self, name: str) -> str:
        value = self._look.value(name, self._state)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.captures)

    def __len__(self) -> int:
        return len(self._state.captures)


def groups_of(found: regex.Match[str]) -> dict[str, str]:
    """The named groups that took part."""
    return {name: value for name, value in found.groupdict().items() if value is not None}


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _is_multiple(value: str, of: str | None) -> bool:
    number, divisor = _number(value), _number(of)
    return number is not None and divisor is not None and divisor != 0 and number % divisor == 0


def _same(left: str, right: str) -> bool:
    first, second = _number(left), _number(right)
    return left == right or (first is not None and first == second)
