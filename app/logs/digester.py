"""From the bytes of a log to its digest: hits of all patterns, events, launches."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from app.core.model import LaunchSpan, Line, LogDigest
from app.logs.backlog import Backlog
from app.logs.confirm import Confirmer
from app.logs.cursor import Cursor
from app.logs.kept import FirstAndLast, cut_line
from app.logs.launch import Launch, Limits
from app.logs.patterns import PatternSet
from app.logs.prefix import Parsed, parse_line
from app.logs.reader import LONG, Block, LineCutter, Piece

_OVERLAP = 4096  # bytes of a long line that are scanned again with its next piece


@dataclass(slots=True)
class _LongLine:
    """A segment that comes in pieces: its beginning, and the patterns that held so far."""

    text: str
    length: int = 0
    overlap: bytes = b""
    anchored: bool = False
    groups: dict[int, dict[str, str | None]] = field(default_factory=dict)


class LogDigester:
    """Digests a log that comes in pieces; the digest does not depend on where the pieces were cut."""

    def __init__(self, patterns: PatternSet, *, limits: Limits | None = None, newest_first: int | None = None) -> None:
        """`newest_first` is the number of lines of a file that is fed from its last line to its first."""
        self._patterns = patterns
        self._limits = limits or Limits()
        self._newest_first = newest_first
        self._cutter = LineCutter()
        self._confirmer = Confirmer(patterns)
        self._anchor = len(patterns.patterns)
        self._scanner = patterns.scanner
        self._everywhere = patterns.everywhere
        self._number_of = {pattern: number for number, pattern in enumerate(patterns.patterns)}
        self._watched = frozenset(patterns.everywhere) | {self._number_of[text] for text in patterns.boundaries}
        self._ordinal = 1  # of the current line in reading order
        self._after_soft = False  # the current line has had a segment
        self._tail: deque[_Remembered] = deque()
        self._long: _LongLine | None = None
        self._launch = Launch(1, self._limits)
        self._backlog = Backlog(self._scanner, self._limits.hits_last)
        self._earlier: FirstAndLast[LaunchSpan] = FirstAndLast(self._limits.earlier // 2, self._limits.earlier // 2)
        self._closed = False

    def feed(self, data: bytes | memoryview) -> None:
        """Takes in the next bytes; a line is looked at when its end has come."""
        for part in self._cutter.feed(data):
            self._take(part)

    def close(self) -> None:
        """Says that no more bytes come: a last line without its end is looked at, open events end."""
        if self._closed:
            return
        self._closed = True
        for part in self._cutter.close():
            self._take(part)
        if self._after_soft:  # the log ends inside a progress bar
            self._ordinal += 1
            self._after_soft = False
        self._launch.assembler.finish()

    def digest(self) -> LogDigest:
        """What was seen so far; may be asked at any time and changes nothing."""
        self._settle()
        return LogDigest(
            lines=self._ordinal - 1,
            hits=self._launch.hits(),
            events=self._launch.events(),
            head=tuple(self._launch.head),
            tail=tuple(self._last_lines()),
            earlier=tuple(self._earlier),
            newest_first=self._newest_first is not None,
            timeouts=dict(self._confirmer.timeouts),
            suspended=tuple(self._confirmer.suspended),
        )

    def _number(self, ordinal: int) -> int:
        return ordinal if self._newest_first is None else self._newest_first + 1 - ordinal

    def _take(self, part: Block | Piece) -> None:
        if isinstance(part, Piece):
            self._piece(part)
        else:
            self._block(part)

    def _block(self, block: Block) -> None:
        cursor = Cursor(block.data, block.soft)
        at = 0
        while at < len(block.data):
            at = self._stretch(cursor, at)
        self._remember(cursor)
        if self._backlog.full:
            self._settle()

    def _stretch(self, cursor: Cursor, begin: int) -> int:
        """Looks at a block from an offset on; returns how far it came: where a launch begins, all counts anew."""
        data, launch, frequent = cursor.data, self._launch, self._frequent()
        part = data[begin:] if begin else data
        present = self._scanner.present(part) if frequent else frozenset()
        quiet = bool(frequent) and present <= frequent
        found = [] if quiet else self._scanner.scan(part, ignored=frequent)
        index, count = 0, len(found)
        at, size = begin, len(data)
        while at < size:
            if self._launch.assembler.busy or self._launch.wants_head or self._everywhere:
                start = at
            elif index < count:
                start = data.rfind(b"\n", at, begin + found[index][0]) + 1 or at
            else:
                break
            stop = data.find(b"\n", start)
            numbers = []
            while index < count and begin + found[index][0] <= stop:
                numbers.append(found[index][1])
                index += 1
            self._segment(cursor, start, stop, numbers)
            at = stop + 1
            if frequent and self._launch is not launch:
                return at
        if frequent & present:
            self._backlog.add(cursor, begin, self._ordinal, frequent & present)
        return size

    def _frequent(self) -> frozenset[int]:
        """The patterns that came so often in this launch that further hits are no longer looked at one by one.

        Not those with which launches begin, nor those that are tried on every line anyway.
        """
        numbers = frozenset(map(self._number_of.__getitem__, self._launch.frequent))
        return numbers - self._watched if numbers else numbers

    def _settle(self) -> None:
        """Adds the last hits of frequent patterns to those that are kept."""
        hits: list[tuple[str, Line, dict[str, str | None]]] = []

        def look(ordinal: int, raw: bytes, number: int) -> bool:
            parsed = self._line(ordinal, raw.removeprefix(codecs.BOM_UTF8))
            groups = self._confirmer.groups(number, parsed.body)
            if groups is not None:
                hits.append((self._patterns.patterns[number], self._cut(parsed).line, groups))
            return groups is not None

        self._backlog.read_out(look)
        for hit in reversed(hits):
            self._launch.add(*hit)

    def _segment(self, cursor: Cursor, start: int, stop: int, numbers: list[int]) -> None:
        """Looks at one segment of a block; an empty one beside a carriage return is none."""
        ordinal = self._ordinal + cursor.lines_before(start)
        if start == stop and (cursor.is_soft(stop) or self._follows_soft(cursor, start)):
            return
        raw = cursor.data[start:stop]
        text = raw.decode("utf-8", "replace")
        self._look(ordinal, text, numbers)

    def _follows_soft(self, cursor: Cursor, start: int) -> bool:
        return self._after_soft if start == 0 else cursor.is_soft(start - 1)

    def _remember(self, cursor: Cursor) -> None:
        """Counts a block's lines and keeps it while it may hold some of the last ones."""
        first, after_soft = self._ordinal, self._after_soft
        self._ordinal += cursor.lines_before(len(cursor.data))
        self._after_soft = cursor.is_soft(len(cursor.data) - 1)
        block = _Remembered(cursor, self._ordinal, after_soft, self._ordinal - first)
        if cursor.has_soft:
            block.segments = sum(1 for _ in islice(block.backwards(), self._limits.tail))
        self._tail.append(block)
        while len(self._tail) > 1 and sum(block.segments for block in self._tail) - self._tail[0].segments >= (
            self._limits.tail
        ):
            self._tail.popleft()

    def _last_lines(self) -> list[Line]:
        """The last segments of the current launch."""
        kept: list[Line] = []
        for block in reversed(self._tail):
            for ordinal, raw in block.backwards():
                if len(kept) >= self._limits.tail or ordinal < self._launch.first:
                    return kept[::-1]
                line = self._line(ordinal, raw[: self._limits.line_characters]).line
                kept.append(cut_line(line, self._limits.line_characters))
        return kept[::-1]

    def _line(self, ordinal: int, raw: bytes) -> Parsed:
        return parse_line(self._number(ordinal), raw.decode("utf-8", "replace"))

    def _look(self, ordinal: int, text: str, numbers: list[int]) -> None:
        """Looks at a segment that a filter held on, or that may belong to something open."""
        if text.startswith("\ufeff"):
            text = text[1:]
        parsed = parse_line(self._number(ordinal), text)
        found: dict[int, dict[str, str | None]] = {}
        for number in dict.fromkeys((*numbers, *self._everywhere)):
            if number != self._anchor and (groups := self._confirmer.groups(number, parsed.line.body)) is not None:
                found[number] = groups
        launch = self._launch
        self._enter(ordinal, self._cut(parsed), found, anchored=self._anchor in numbers)
        if self._launch is not launch:
            self._catch_up(launch, parsed)

    def _catch_up(self, before: Launch, parsed: Parsed) -> None:
        """Notes on the first line of a launch what was frequent in the one before: the scanner left it out."""
        for pattern in before.frequent:
            number = self._number_of[pattern]
            if number in self._watched:
                continue
            if (groups := self._confirmer.groups(number, parsed.body)) is not None:
                self._launch.add(pattern, self._cut(parsed).line, groups)

    def _cut(self, parsed: Parsed) -> Parsed:
        limit = self._limits.line_characters
        if len(parsed.line.text) <= limit:
            return parsed
        return Parsed(cut_line(parsed.line, limit), parsed.stream, parsed.container, parsed.header)

    def _enter(self, ordinal: int, parsed: Parsed, found: dict[int, dict[str, str | None]], *, anchored: bool) -> None:
        """Notes the hits of a line in its launch and lets events have it."""
        patterns = [self._patterns.patterns[number] for number in found]
        boundaries = [pattern for pattern in patterns if pattern in self._patterns.boundaries]
        ends = any(self._launch.ends_at_boundary(pattern, parsed) for pattern in boundaries)
        if ends or (anchored and self._launch.ends_at_opening(parsed)):
            self._end_launch(ordinal)
        elif anchored and self._launch.ends_at_refusal(parsed):
            refused = self._launch
            self._end_launch(ordinal)
            refused.hand_over(self._launch)
        for pattern in boundaries:
            self._launch.begin(pattern, parsed)
        for pattern, groups in zip(patterns, found.values(), strict=True):
            self._launch.add(pattern, parsed.line, groups)
        if self._launch.wants_head:
            self._launch.head.append(parsed.line)
        if anchored or self._launch.assembler.busy:
            self._launch.assembler.offer(parsed)

    def _end_launch(self, ordinal: int) -> None:
        if ordinal <= self._launch.first:
            return
        ends = sorted((self._number(self._launch.first), self._number(ordinal - 1)))
        self._earlier.append(LaunchSpan(*ends))
        self._launch = Launch(ordinal, self._limits)
        self._backlog.clear()

    def _piece(self, piece: Piece) -> None:
        """Scans a part of a segment too long to be held; the segment itself is entered at its end."""
        long = self._long
        if long is None or piece.first:
            long = self._long = _LongLine(piece.data[:LONG].decode("utf-8", "replace"))
        data = long.overlap + piece.data.rstrip(b"\n")
        self._scan_piece(long, data, is_first=piece.first)
        long.overlap = data[-_OVERLAP:]
        long.length += len(piece.data)
        if not piece.last:
            return
        self._long = None
        self._enter_long(long)
        kept = long.text[: self._limits.line_characters].encode("utf-8", "replace") + b"\n"
        self._remember(Cursor(kept, (len(kept) - 1,) if piece.soft else ()))

    def _scan_piece(self, long: _LongLine, data: bytes, *, is_first: bool) -> None:
        body = parse_line(1, long.text).body if is_first else ""
        for at in range(0, len(data), _OVERLAP):
            window = data[max(at - _OVERLAP, 0) : at + _OVERLAP]
            for number in self._scanner.present(window + b"\n"):
                if number == self._anchor:
                    long.anchored |= is_first
                elif number not in long.groups:
                    groups = self._confirmer.groups(number, body) if is_first else None
                    if groups is None and not is_first:
                        near = data[max(at - 4 * _OVERLAP, 0) : at + 4 * _OVERLAP].decode("utf-8", "replace")
                        groups = self._confirmer.groups(number, "\n" + near, 1)
                    if groups is not None:
                        long.groups[number] = groups

    def _enter_long(self, long: _LongLine) -> None:
        parsed = parse_line(self._number(self._ordinal), long.text)
        for number in self._everywhere:
            if number not in long.groups and (groups := self._confirmer.groups(number, parsed.body)) is not None:
                long.groups[number] = groups
        self._settle()  # its hits come behind those that wait
        self._enter(self._ordinal, self._cut(parsed), long.groups, anchored=long.anchored)


@dataclass(slots=True)
class _Remembered:
    """A block that was scanned, for a look back at the last lines."""

    cursor: Cursor
    end: int  # ordinal of the line behind its last
    after_soft: bool
    segments: int  # how many it gives, as far as that matters

    def backwards(self) -> Iterator[tuple[int, bytes]]:
        """Its segments with their lines' ordinals, the last first."""
        data, ordinal = self.cursor.data, self.end
        stop = len(data) - 1
        while stop >= 0:
            soft = self.cursor.is_soft(stop)
            ordinal -= not soft
            start = data.rfind(b"\n", 0, stop) + 1
            after = self.cursor.is_soft(start - 1) if start else self.after_soft
            if start < stop or not (soft or after):
                yield ordinal, data[start:stop]
            stop = start - 1
