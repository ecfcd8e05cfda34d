"""The patterns that a pass over a log looks for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import regex

from app.core.errors import RuleError
from app.logs.anchors import ANCHORS
from app.logs.filterform import FilterError, filter_form
from app.logs.scanner import Scanner, make_scanner


class PatternSet:
    """Line patterns (`regex` syntax, searched in `Line.body`), each named by its own text.

    `boundaries` are patterns, of these or further ones, that mark the beginning of a launch. A set is immutable;
    it compiles at its first use, and then serves any number of logs.
    """

    def __init__(self, patterns: Iterable[str] = (), boundaries: Iterable[str] = ()) -> None:
        self.boundaries = frozenset(boundaries)
        self.patterns: tuple[str, ...] = tuple(dict.fromkeys((*patterns, *sorted(self.boundaries))))
        self._compiled: dict[int, regex.Pattern[str]] = {}

    @cached_property
    def _forms(self) -> tuple[dict[int, str], tuple[int, ...]]:
        """The filter forms by pattern number, and the numbers of patterns that have none."""
        forms: dict[int, str] = {}
        without: list[int] = []
        for number, pattern in enumerate(self.patterns):
            try:
                forms[number] = filter_form(pattern)
            except FilterError:
                self.compiled(number)  # a mistake in it is told now, not in the middle of a log
                without.append(number)
        return forms, tuple(without)

    @cached_property
    def scanner(self) -> Scanner:
        """Finds candidates for all patterns and for the anchors of events (whose number is `len(patterns)`)."""
        forms, _ = self._forms
        anchor = len(self.patterns)
        return make_scanner([*forms.items(), *((anchor, filter_form(text)) for text in ANCHORS)])

    @cached_property
    def everywhere(self) -> tuple[int, ...]:
        """The numbers of patterns that no filter serves: they are tried on every line."""
        return (*self._forms[1], *self.scanner.refused)

    def compiled(self, number: int) -> regex.Pattern[str]:
        """The pattern itself; most are never needed, so each compiles when its filter first held."""
        if number not in self._compiled:
            text = self.patterns[number]
            try:
                self._compiled[number] = regex.compile(text)
            except regex.error as error:
                raise RuleError(
                    f"The pattern {text!r} is not valid: {error}.", mend="Correct the pattern; `regex` syntax is used."
                ) from error
        return self._compiled[number]
