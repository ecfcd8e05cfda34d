"""Cuts a stream of bytes into blocks of whole lines, free of terminal escapes, however the bytes arrive.

A carriage return alone begins a line anew on a terminal (progress bars): it ends a segment, which is matched by
itself, but not a line, which is what is counted.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

CHUNK = 128 * 1024
LONG = 256 * 1024  # segments from this length on come in pieces of it

_ESCAPE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"
    rb"|\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)"
    rb"|\x1b[PX^_][^\x1b\r\n]*\x1b\\"
    rb"|\x1b[ -/]*[0-~]"
    rb"|\x1b"
)
_RETURNS = re.compile(rb"\r+\n")


@dataclass(frozen=True, slots=True)
class Block:
    """Whole segments, each ended by a line feed; `soft` are the offsets of those that end no line."""

    data: bytes
    soft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a segment too long to be held; the last one ends with a line feed."""

    data: bytes
    first: bool
    last: bool
    soft: bool = False  # of the last: it ends no line


def clean(raw: bytes) -> Block:
    """Takes out terminal escapes, NULs and carriage returns; `raw` ends with `\\n` or `\\r`."""
    returns = b"\r" in raw
    if returns:  # first of all: what stands between \r and \n must not matter for where a block was cut
        raw = _RETURNS.sub(b"\n", raw)
    if b"\x1b" in raw:
        raw = _ESCAPE.sub(b"", raw)
    if b"\0" in raw:  # a file truncated below its writer, UTF-16
        raw = raw.replace(b"\0", b"")
    if not returns:
        return Block(raw)
    soft = []
    at = raw.find(b"\r")
    while at >= 0:
        soft.append(at)
        at = raw.find(b"\r", at + 1)
    return Block(raw.replace(b"\r", b"\n"), tuple(soft))


class LineCutter:
    """Turns chunks of any size into blocks and pieces that depend on the bytes alone, not on the chunks' ends."""

    def __init__(self) -> None:
        self._carry = b""
        self._more: list[bytes] = []  # what came since and ends nothing; joined when something does
        self._size = 0
        self._long = False  # in the middle of a segment that comes in pieces

    @property
    def pending(self) -> bool:
        """Whether bytes wait for the end of their line."""
        return bool(self._carry or self._more) or self._long

    def feed(self, data: bytes | memoryview) -> Iterator[Block | Piece]:
        """The blocks that the next bytes complete."""
        for start in range(0, len(data), CHUNK):
            part = bytes(data[start : start + CHUNK])
            if self._ends_nothing(part):
                self._more.append(part)
                self._size += len(part)
            else:
                yield from self._take(self._joined(part))

    def _ends_nothing(self, part: bytes) -> bool:
        room = len(self._carry) + self._size + len(part) < LONG
        return room and b"\n" not in part and b"\r" not in part and not self._carry.endswith(b"\r")

    def _joined(self, part: bytes) -> bytes:
        whole = b"".join((self._carry, *self._more, part)) if self._carry or self._more else part
        self._more.clear()
        self._size = 0
        return whole

    def close(self) -> Iterator[Block | Piece]:
        """What is left of a last line without its end."""
        rest, self._carry = self._joined(b""), b""
        if self._long:
            self._long = False
            yield Piece(clean(rest + b"\n").data, first=False, last=True)
        elif rest:
            yield clean(rest + b"\n")

    def _take(self, data: bytes) -> Iterator[Block | Piece]:
        if self._long or len(data) >= LONG:
            data = yield from self._pieces(data)
        # Carriage returns at the end may belong to a line end that is still to come.
        sure = len(data.rstrip(b"\r")) if data.endswith(b"\r") else len(data)
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, sure)) + 1
        self._carry = data[cut:]
        if cut:
            yield clean(data[:cut])

    def _pieces(self, data: bytes) -> Generator[Block | Piece, None, bytes]:
        """Takes long segments off the front; returns (to `yield from`) what follows them."""
        while True:
            end = _first_end(data)
            length = len(data.rstrip(b"\r")) if end is None else end  # a last \r may belong to the line's end
            if not self._long and length < LONG:
                return data
            while length >= LONG:
                yield Piece(clean(data[:LONG] + b"\n").data[:-1], first=not self._long, last=False)
                self._long = True
                data, length = data[LONG:], length - LONG
            if end is None:
                return data
            soft = data[length : length + 1] == b"\r" and data[length : length + 2] != b"\r\n"
            width = len(_END.match(data, length).group())  # type: ignore[union-attr]
            yield Piece(clean(data[:length] + b"\n").data, first=False, last=True, soft=soft)
            self._long = False
            data = data[length + width :]


_END = re.compile(rb"\r*\n|\r(?=[^\n])")


def _first_end(data: bytes) -> int | None:
    """Where the first segment ends: None while that is still open."""
    found = _END.search(data)
    return None if found is None else found.start()


def backwards(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines of a file from its last to its first, in blocks."""
    tail = b""
    at = size
    first = True
    while at > 0:
        start = max(at - CHUNK, 0)
        stream.seek(start)
        data = stream.read(at - start) + tail
        at = start
        lines = data.split(b"\n")
        tail = lines[0]
        rest = lines[1:]
        if first and rest:
            first = False
            if not rest[-1]:
                rest.pop()
        if rest:
            yield b"\n".join(reversed(rest)) + b"\n"
    if tail or size:
        yield tail + b"\n"
