"""The patterns that a pass over a log looks for."""

from __future__ import annotations

from collections.abc import Iterable


class PatternSet:
    """Line patterns (`regex` syntax, searched in `Line.body`), each named by its own text.

    `boundaries` are patterns, of these or further ones, that mark the beginning of a launch.
    """

    def __init__(self, patterns: Iterable[str] = (), boundaries: Iterable[str] = ()) -> None:
        self.boundaries = frozenset(boundaries)
        self.patterns: tuple[str, ...] = tuple(dict.fromkeys((*patterns, *sorted(self.boundaries))))
