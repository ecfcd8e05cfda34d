"""Where the lines of a block are."""

from __future__ import annotations

from bisect import bisect_left


class Cursor:
    """Counts lines in a block, going forward; only what is asked for is counted."""

    def __init__(self, data: bytes, soft: tuple[int, ...]) -> None:
        self.data = data
        self._soft = soft
        self._at = 0
        self._lines = 0

    @property
    def has_soft(self) -> bool:
        return bool(self._soft)

    def is_soft(self, at: int) -> bool:
        if not self._soft:
            return False
        place = bisect_left(self._soft, at)
        return place < len(self._soft) and self._soft[place] == at

    def lines_before(self, at: int) -> int:
        """How many lines end before an offset; offsets must not descend."""
        if at > self._at:
            self._lines += self.lines_between(self._at, at)
            self._at = at
        return self._lines

    def lines_between(self, start: int, stop: int) -> int:
        """How many lines end in a part of the block."""
        part = self.data[start:stop]
        ended = len(part) - len(part.replace(b"\n", b""))  # several times as fast as count()
        return ended - (bisect_left(self._soft, stop) - bisect_left(self._soft, start) if self._soft else 0)
