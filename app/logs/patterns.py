"""The patterns that a pass over a log looks for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import regex

from app.core.errors import RuleError
from app.logs import prepared
from app.logs.anchors import ANCHORS
from app.logs.filterform import FilterError, filter_form
from app.logs.scanner import HyperscanScanner, Scanner, can_be_kept, make_scanner


class PatternSet:
    """Line patterns (`regex` syntax, searched in `Line.body`), each named by its own text.

    `boundaries` are patterns, of these or further ones, that mark the beginning of a launch. A set is immutable;
    it compiles at its first use, and then serves any number of logs. With `cache`, a folder, what was compiled
    serves later processes too.
    """

    def __init__(
        self, patterns: Iterable[str] = (), boundaries: Iterable[str] = (), *, cache: Path | None = None
    ) -> None:
        self._cache = cache
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
        return self._ready[0]

    @cached_property
    def everywhere(self) -> tuple[int, ...]:
        """The numbers of patterns that no filter serves: they are tried on every line."""
        return self._ready[1]

    @cached_property
    def _ready(self) -> tuple[Scanner, tuple[int, ...]]:
        if self._cache is None or not can_be_kept():
            return self._compile()
        key = prepared.key_of((*self.patterns, "", *ANCHORS), can_be_kept())
        kept = prepared.read(self._cache, key)
        scanner = HyperscanScanner.loaded(kept.database) if kept is not None else None
        if kept is not None and scanner is not None:
            return scanner, kept.everywhere
        made, everywhere = self._compile()
        if isinstance(made, HyperscanScanner):
            prepared.write(self._cache, key, prepared.Prepared(made.dump(), everywhere))
        return made, everywhere

    def _compile(self) -> tuple[Scanner, tuple[int, ...]]:
        forms, without = self._forms
        anchor = len(self.patterns)
        made = make_scanner([*forms.items(), *((anchor, filter_form(text)) for text in ANCHORS)])
        return made, (*without, *made.refused)

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
