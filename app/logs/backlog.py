"""Lines that only patterns hold on which came often already: of those just the last hits are kept.

A healthy server logs millions of such lines. They are not looked at one by one: whole blocks wait here, and when the
digest is asked for, or when too many wait, the last hits are read out of the newest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from app.logs.cursor import Cursor
from app.logs.scanner import Scanner

_ROOM = 8 * 1024 * 1024  # bytes that wait at most
_MOST_BLOCKS = 2000
_STEP = 8 * 1024  # bytes that are looked at together when a block is read from its end

Look = Callable[[int, bytes, int], bool]  # ordinal of a line, the line, a pattern's number: whether that holds


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A block from an offset on, the ordinal of its first line, and the patterns whose filters hold in it."""

    cursor: Cursor
    begin: int
    first: int
    numbers: Set[int]


class Backlog:
    """The blocks of one launch that wait."""

    def __init__(self, scanner: Scanner, last: int) -> None:
        """`last` hits of each pattern are wanted."""
        self._scanner = scanner
        self._last = last
        self._waiting: list[_Waiting] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether it should be read out now."""
        return self._size > _ROOM or len(self._waiting) > _MOST_BLOCKS

    def add(self, cursor: Cursor, begin: int, first: int, numbers: Set[int]) -> None:
        """Takes a block in; `first` is the ordinal of the line with which the whole block begins."""
        self._waiting.append(_Waiting(cursor, begin, first, numbers))
        self._size += len(cursor.data)

    def clear(self) -> None:
        """Forgets all blocks."""
        self._waiting.clear()
        self._size = 0

    def read_out(self, look: Look) -> None:
        """Calls `look` for candidates from the last to the first, until each pattern held often enough."""
        missing: dict[int, int] = {}
        for waiting in reversed(self._waiting):
            for number in waiting.numbers:
                missing.setdefault(number, self._last)
            self._look_back(waiting, missing, look)
        self.clear()

    def _look_back(self, waiting: _Waiting, missing: dict[int, int], look: Look) -> None:
        """Looks through one block, from its end."""
        data, cursor = waiting.cursor.data, waiting.cursor
        at, lines = len(data), cursor.lines_between(0, len(data))
        before = -1, -1
        for start, stop, number in self._candidates(waiting, missing):
            if missing[number] <= 0 or (start, number) == before:
                continue
            before = start, number
            lines -= cursor.lines_between(start, at)
            at = start
            if look(waiting.first + lines, data[start:stop], number):
                missing[number] -= 1

    def _candidates(self, waiting: _Waiting, missing: dict[int, int]) -> Iterator[tuple[int, int, int]]:
        """Where lines begin and end on which a filter holds, and the pattern's number; the last line first."""
        data, stop = waiting.cursor.data, len(waiting.cursor.data)
        while stop > waiting.begin:
            wanted = {number for number in waiting.numbers if missing[number] > 0}
            if not wanted:
                return
            first = data.rfind(b"\n", waiting.begin, max(stop - _STEP, waiting.begin)) + 1 or waiting.begin
            for end, number in reversed(self._scanner.scan(data[first:stop], only=wanted)):
                at = first + end - 1
                yield data.rfind(b"\n", first, at) + 1 or first, data.find(b"\n", at), number
            stop = first
