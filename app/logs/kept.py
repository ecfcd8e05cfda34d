"""What is kept of something that may be endless: its first and its last members, and their number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from app.core.model import Line

T = TypeVar("T")


class FirstAndLast(Generic[T]):
    """Keeps the first `first` and the last `last` members, counts all."""

    __slots__ = ("_first", "_last", "_room", "total")

    def __init__(self, first: int, last: int) -> None:
        self._first: list[T] = []
        self._room = first
        self._last: deque[T] = deque(maxlen=last)
        self.total = 0

    def append(self, member: T) -> None:
        self.total += 1
        if len(self._first) < self._room:
            self._first.append(member)
        else:
            self._last.append(member)

    def __iter__(self) -> Iterator[T]:
        yield from self._first
        yield from self._last

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    @property
    def complete(self) -> bool:
        """Whether nothing was dropped."""
        return self.total == len(self)


def cut_text(text: str, limit: int) -> str:
    """A text of at most `limit` characters, with a mark where more was."""
    return text if len(text) <= limit else f"{text[:limit]} …[{len(text) - limit} characters cut]"


def cut_line(line: Line, limit: int) -> Line:
    """A line whose text and body are at most `limit` characters, with a mark where more was."""
    if len(line.text) <= limit:
        return line
    return replace(line, text=cut_text(line.text, limit), body=cut_text(line.body, limit))
