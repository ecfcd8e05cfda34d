"""What is kept of one launch in a log: its hits, events and first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.layout import is_server
from app.core.model import Event, Hit, Hits, Line
from app.logs.assembly import Assembler
from app.logs.kept import FirstAndLast, cut_line, cut_text
from app.logs.prefix import Parsed
from app.logs.shapes import ARGPARSE, ARGPARSE_TEXT, Opening

_WHOLE = 10  # hits of one pattern that are kept whole; later ones are cut
_CUT = 4096
_BOUNDARIES_KEPT = 1000
_NUMBER = re.compile(r"(?<=pid=)\d+|(?<=\[)\d+(?=\])")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a log is kept; what lies beyond is counted only."""

    hits_first: int = 50
    hits_last: int = 50
    counted: int = 1000  # hits of one pattern that are counted; from then on it is frequent
    events_first: int = 100
    events_last: int = 200
    event_lines: int = 400
    usage_lines: int = 1500
    line_characters: int = 64 * 1024
    head: int = 40
    tail: int = 40
    earlier: int = 200


class Launch:
    """One launch, from the line that began it."""

    def __init__(self, first: int, limits: Limits) -> None:
        self.first = first
        self.head: list[Line] = []
        self.assembler = Assembler(limits.events_first, limits.events_last, limits.event_lines, limits.usage_lines)
        self._limits = limits
        self._hits: dict[str, FirstAndLast[Hit]] = {}
        self.frequent: set[str] = set()  # patterns whose further hits need not be added, but for the last ones
        self._begun: set[tuple[str, str, str | None]] = set()

    @property
    def wants_head(self) -> bool:
        return len(self.head) < self._limits.head

    def ends_at_boundary(self, pattern: str, parsed: Parsed) -> bool:
        """Whether a line that begins a launch begins another one than this.

        Several lines begin one launch (banner, arguments), and several servers may share a file: so another one
        begins where the same server says the same again, or where this one has died.
        """
        return self._boundary(pattern, parsed) in self._begun or self.assembler.failed

    def ends_at_opening(self, parsed: Parsed) -> bool:
        """Whether a line tells of a new launch, because this one was over when its arguments were refused."""
        over = self.assembler.usage_failed
        return over and self.assembler.would_begin(parsed) in (Opening.USAGE, Opening.TRACEBACK, Opening.ARGPARSE)

    def ends_at_refusal(self, parsed: Parsed) -> bool:
        """Whether a server refuses its arguments with this line, though this launch began with arguments that it took.

        Nothing else tells of such a launch: what refuses its arguments prints no banner. Its usage, or a usage that
        somebody asked for between two launches, says nothing yet.
        """
        found = ARGPARSE.match(parsed.body) if self._begun else None
        return found is not None and is_server(found["program"]) and ARGPARSE_TEXT.match(found["text"]) is not None

    def hand_over(self, next: Launch) -> None:
        """Gives the usage block that is open to the launch that it belongs to."""
        next.assembler.adopt(self.assembler.open_usage())

    def begin(self, pattern: str, parsed: Parsed) -> None:
        """Notes a line that begins this launch."""
        if len(self._begun) < _BOUNDARIES_KEPT:
            self._begun.add(self._boundary(pattern, parsed))

    @staticmethod
    def _boundary(pattern: str, parsed: Parsed) -> tuple[str, str, str | None]:
        return pattern, _NUMBER.sub("", parsed.stream), parsed.line.rank

    def add(self, pattern: str, line: Line, groups: Mapping[str, str | None]) -> None:
        """Notes that a pattern held on a line."""
        hits = self._hits.get(pattern)
        if hits is None:
            hits = self._hits[pattern] = FirstAndLast(self._limits.hits_first, self._limits.hits_last)
        limit = self._limits.line_characters if hits.total < _WHOLE else _CUT
        found = {name: cut_text(text, limit) for name, text in groups.items() if text is not None}
        hits.append(Hit(pattern, cut_line(line, limit), found))
        if hits.total >= self._limits.counted:
            self.frequent.add(pattern)

    def hits(self) -> dict[str, Hits]:
        return {
            pattern: Hits(min(hits.total, self._limits.counted), tuple(hits)) for pattern, hits in self._hits.items()
        }

    def events(self) -> tuple[Event, ...]:
        return self.assembler.events()
