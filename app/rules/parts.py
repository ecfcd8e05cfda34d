"""What the parts of a rule can tell about themselves, however they were made: read and checked, or kept from before.

The checked parts are pydantic models. Importing those and checking some hundred files takes longer than reading most
logs, so what was checked once is kept and comes back as plain objects with the same names and these same methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from app.core.vocabulary import Confidence, RuleStatus
from app.rules.template import names

if TYPE_CHECKING:
    from app.rules.conditions import Comparison, Condition
    from app.rules.schema import FixSpec, Rule


class ClosestPart:
    """The nearest name in the flag catalogue."""

    if TYPE_CHECKING:
        closest: str


class FloorPart:
    """A number rounded down."""

    if TYPE_CHECKING:
        floor: str


class ComparisonPart:
    """Comparisons with a value."""

    @property
    def tests(self) -> int:
        """How many comparisons are asked for."""
        test = cast("Comparison", self)
        asked = (test.equals, test.matches, test.in_, test.gt, test.ge, test.lt, test.le, test.multiple_of)
        return sum(one is not None for one in asked)


class ConditionPart:
    """One or several questions that must all hold."""

    def walk(self) -> Iterator[Condition]:
        """This condition and all that are nested in it."""
        own = cast("Condition", self)
        yield own
        for group in (own.all, own.any, own.none):
            for child in group or ():
                yield from child.walk()

    def line_patterns(self) -> Iterator[str]:
        """The patterns that are searched for in every log line."""
        for part in self.walk():
            if part.line is not None:
                yield part.line.regex
            for leaf in (part.count, part.follows, part.without):
                if leaf is not None:
                    yield leaf.line

    def name_patterns(self) -> Iterator[str]:
        """The patterns that must be the whole of a short name: of an exception, of a function."""
        for part in self.walk():
            if (shape := part.traceback) is not None:
                yield from (one for one in (shape.type, shape.frame) if one)

    def inner_patterns(self) -> Iterator[str]:
        """The patterns that are searched for in events and values."""
        for part in self.walk():
            if part.event is not None:
                yield part.event.regex
            if (shape := part.traceback) is not None:
                yield from (one for one in (shape.message, shape.code) if one)
            tests = [part.argv, part.env, part.capture, *(part.probe or {}).values()]
            yield from (test.matches for test in tests if test is not None and test.matches)

    def patterns(self) -> set[str]:
        """All patterns."""
        return {*self.line_patterns(), *self.inner_patterns(), *self.name_patterns()}


class FixPart:
    """A change to the launch command, or the same command again."""

    @property
    def changes(self) -> bool:
        """Whether the command becomes another one."""
        fix = cast("FixSpec", self)
        return bool(fix.set or fix.remove or fix.rename or fix.adjust or fix.env_set or fix.env_unset)

    def templates(self) -> frozenset[str]:
        """Every text of the fix in which captures may stand."""
        fix = cast("FixSpec", self)
        values: list[Any] = [*fix.set.values(), *fix.env_set.values(), *fix.rename.values()]
        texts = [value for value in values if isinstance(value, str)]
        texts += [value.closest for value in values if isinstance(value, ClosestPart)]
        texts += [value.floor for value in values if isinstance(value, FloorPart)]
        keys = [*fix.set, *fix.rename, *fix.adjust, *fix.env_set, *(fix.remove or ()), *(fix.env_unset or ())]
        return frozenset([*texts, *keys, *fix.loses])


class RulePart:
    """A rule: when it holds, what that means and what mends it."""

    @property
    def folder(self) -> str:
        """The engine that the rule belongs to, or `any`."""
        return cast("Rule", self).id.partition("/")[0]

    @property
    def sureness(self) -> Confidence:
        """The confidence given, else high for a stable rule and medium for others."""
        rule = cast("Rule", self)
        return rule.confidence or (Confidence.HIGH if rule.status is RuleStatus.STABLE else Confidence.MEDIUM)

    def capture_names(self) -> frozenset[str]:
        """The captures that title, explanation and fix use."""
        rule = cast("Rule", self)
        texts = {rule.title, rule.explain}.union(*(spec.templates() for spec in rule.fix))
        return frozenset().union(*map(names, texts))
