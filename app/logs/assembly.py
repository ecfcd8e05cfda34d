"""Assembles events: each line goes to the open event that it continues, or opens one, or is let go."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from app.core.model import Event, Line
from app.logs.blocks import BlockBuilder, ErrorBuilder, NativeBuilder, UsageBuilder
from app.logs.kept import FirstAndLast
from app.logs.prefix import Parsed
from app.logs.shapes import Opening, continues_traceback, opening
from app.logs.traceback import Answer, TracebackBuilder

Builder = TracebackBuilder | BlockBuilder

_OPEN_KEPT = 24  # events open at once; a log of many ranks has fewer
_NEAR = 3000  # lines within which a like event is the same one printed again
_REMEMBERED = 64  # events that a later one is compared with
_RANKS_KEPT = 64
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


@dataclass(slots=True)
class _Closed:
    """An event that is complete, and how often it came again."""

    event: Event
    order: int
    last_number: int
    repeats: int = 1
    ranks: tuple[str, ...] = ()

    def built(self) -> Event:
        return replace(self.event, repeats=self.repeats, ranks=self.ranks)


class Assembler:
    """Events of one launch, in bounded memory.

    While `busy` it must see every line; else only lines with an anchor.
    """

    def __init__(self, events_first: int, events_last: int, event_lines: int, usage_lines: int) -> None:
        self._closed: FirstAndLast[_Closed] = FirstAndLast(events_first, events_last)
        self._recent: OrderedDict[Any, _Closed] = OrderedDict()
        self._open: list[tuple[int, Builder]] = []  # with their order of opening; the one that took last is last
        self._opened = 0
        self._event_lines = event_lines
        self._usage_lines = usage_lines
        self._usage_failed = False
        self._uncaught = False

    @property
    def busy(self) -> bool:
        """Whether an event is open, so that the next lines matter whatever they are."""
        return bool(self._open)

    @property
    def usage_failed(self) -> bool:
        """Whether a program refused its arguments: that launch is over."""
        return self._usage_failed

    @property
    def failed(self) -> bool:
        """Whether a program died with its last words: refused arguments or an uncaught exception."""
        return self._usage_failed or self._uncaught or any(builder.uncaught for _, builder in self._open)

    def offer(self, parsed: Parsed) -> None:
        """Takes a line into an open event, opens a new one with it, or lets it go."""
        ended = self._route(parsed)
        if ended is None:
            return
        kind = opening(parsed)
        if kind is not None:
            self._begin(kind, parsed, ended)

    def would_begin(self, parsed: Parsed) -> Opening | None:
        """What a line opens, if no open event would take it as its own."""
        wanted = any(isinstance(builder, TracebackBuilder | UsageBuilder) for _, builder in self._open)
        return None if wanted else opening(parsed)

    def open_usage(self) -> UsageBuilder | None:
        """Takes the usage block out that is being printed."""
        for entry in self._open:
            if isinstance(entry[1], UsageBuilder):
                self._open.remove(entry)
                return entry[1]
        return None

    def adopt(self, usage: UsageBuilder | None) -> None:
        """Goes on with a usage block that another launch's lines began."""
        if usage is not None:
            self._opened += 1
            self._open.append((self._opened, usage))

    def _route(self, parsed: Parsed) -> list[Builder] | None:
        """None when an open event took the line; else the events that it ended."""
        if not self._open:
            return []
        order = list(reversed(self._open))
        if continues_traceback(parsed.body):
            order.sort(key=lambda entry: not entry[1].wants_frames)
        ended: list[tuple[int, Builder]] = []
        taken = None
        for entry in order:
            answer = entry[1].accept(parsed)
            if answer is Answer.TAKE:
                taken = entry
                break
            if answer is Answer.END:
                ended.append(entry)
        for entry in reversed(ended):
            self._open.remove(entry)
            self._close(*entry)
        if taken is None:
            return [builder for _, builder in ended]
        self._open.remove(taken)
        if taken[1].closed:
            self._close(*taken)
        else:
            self._open.append(taken)
        return None

    def _begin(self, kind: Opening, parsed: Parsed, ended: list[Builder]) -> None:
        builder: Builder
        if kind in (Opening.TRACEBACK, Opening.FRAMES):
            builder = TracebackBuilder(parsed, self._event_lines, logged=self._logged(parsed, ended))
        elif kind in (Opening.USAGE, Opening.ARGPARSE):
            builder = UsageBuilder(parsed, self._usage_lines)
        elif kind is Opening.NATIVE:
            builder = NativeBuilder(parsed, self._event_lines)
        else:
            builder = ErrorBuilder(parsed, self._event_lines)
        self._opened += 1
        if builder.closed:
            self._close(self._opened, builder)
            return
        self._open.append((self._opened, builder))
        if len(self._open) > _OPEN_KEPT:
            self._close(*self._open.pop(0))

    @staticmethod
    def _logged(parsed: Parsed, ended: list[Builder]) -> Line | None:
        """The error record on the line before a bare traceback: that is its exception text."""
        if parsed.header is not None:
            return None
        for builder in ended:
            if isinstance(builder, ErrorBuilder) and builder.header is not None:
                last = builder.build().last
                if abs(last.number - parsed.line.number) == 1:
                    return builder.build().first
        return None

    def _close(self, order: int, builder: Builder) -> None:
        self._uncaught |= builder.uncaught
        if isinstance(builder, UsageBuilder):
            if not builder.complete:
                return  # the usage was asked for
            self._usage_failed = True
        event = builder.build()
        self._add(_Closed(event, order, event.last.number, ranks=event.ranks))

    def _add(self, closed: _Closed) -> None:
        key = _likeness(closed.event)
        same = self._recent.get(key)
        if same is not None and abs(closed.event.first.number - same.last_number) <= _NEAR:
            same.repeats += 1
            same.last_number = closed.last_number
            same.ranks = (*same.ranks, *(rank for rank in closed.ranks if rank not in same.ranks))[:_RANKS_KEPT]
            self._recent.move_to_end(key)
            return
        self._closed.append(closed)
        self._recent[key] = closed
        self._recent.move_to_end(key)
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)

    def finish(self) -> None:
        """The log ends: so do the open events."""
        for order, builder in sorted(self._open, key=lambda entry: entry[0]):
            if isinstance(builder, UsageBuilder) and not builder.complete:
                event = builder.build()
                self._add(_Closed(event, order, event.last.number, ranks=event.ranks))
            else:
                self._close(order, builder)
        self._open.clear()

    def events(self) -> tuple[Event, ...]:
        """All events in the order of their beginnings, open ones as far as they came."""
        found = [(closed.order, closed.built()) for closed in self._closed]
        found += [
            (order, builder.build())
            for order, builder in self._open
            if not isinstance(builder, UsageBuilder) or builder.complete
        ]
        return tuple(event for _, event in sorted(found, key=lambda entry: entry[0]))


def _likeness(event: Event) -> Any:
    """Equal for events that say the same: of other ranks, or printed twice."""
    if event.kind == "traceback":
        return tuple(
            (
                raised.type,
                _VARYING.sub("#", raised.message.strip()),
                tuple((frame.file, frame.lineno, frame.function) for frame in raised.frames),
            )
            for raised in event.chain
        )
    return event.kind, tuple(_VARYING.sub("#", line.body) for line in event.lines[:50])
