"""Digests files and standard input, also exports that have the newest line first."""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from app.core.errors import UsageError
from app.core.model import LogDigest
from app.logs.digester import LogDigester
from app.logs.launch import Limits
from app.logs.patterns import PatternSet
from app.logs.prefix import parse_line
from app.logs.reader import CHUNK, backwards, clean

__all__ = ["Limits", "LogDigester", "digest_file", "digest_stream", "is_newest_first", "open_log"]

_LOOKED_AT = 400  # lines at the beginning whose times tell the order
_ENOUGH = 5  # lines with descending times that prove it
_SPOOL = 64 * 1024 * 1024
_GZIP = b"\x1f\x8b"


def digest_file(path: Path | str, patterns: PatternSet, *, limits: Limits | None = None) -> LogDigest:
    """Digests a whole file, or standard input for `-`; exports with the newest line first are turned round."""
    if str(path) == "-":
        return digest_stream(sys.stdin.buffer, patterns, limits=limits)
    with open_log(Path(path)) as stream:
        return digest_stream(stream, patterns, limits=limits)


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """A log file's bytes, those of a gzip file unpacked as they are read; a UsageError says what can't be read."""
    try:
        with path.open("rb") as file:
            if _is_gzip(file):
                import gzip  # few logs need it

                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield file
    except (EOFError, zlib.error) as error:
        mend = f"Read what can be saved of it: gzip -dc {path} | crashcart diagnose -"
        raise UsageError(f"The log {path} is a damaged gzip file: {error}.", mend=mend) from error
    except OSError as error:
        mend = "Name a readable file, or - for standard input."
        raise UsageError(f"The log {path} can't be read: {error.strerror or error}.", mend=mend) from error


def _is_gzip(file: BinaryIO) -> bool:
    if not file.seekable():  # a pipe
        return False
    magic = file.read(len(_GZIP))
    file.seek(0)
    return magic == _GZIP


def digest_stream(stream: BinaryIO, patterns: PatternSet, *, limits: Limits | None = None) -> LogDigest:
    """Digests an open binary stream to its end."""
    head = stream.read(CHUNK)
    if is_newest_first(head):
        with tempfile.SpooledTemporaryFile(_SPOOL) as copy:
            copy.write(head)
            while chunk := stream.read(CHUNK):
                copy.write(chunk)
            return _digest_backwards(copy, patterns, limits)  # type: ignore[arg-type]
    digester = LogDigester(patterns, limits=limits)
    digester.feed(head)
    del head
    buffer = memoryview(bytearray(CHUNK))
    readinto = getattr(stream, "readinto", None)
    if readinto is None:
        while chunk := stream.read(CHUNK):
            digester.feed(chunk)
    else:
        while size := readinto(buffer):
            digester.feed(buffer[:size])
    digester.close()
    return digester.digest()


def _digest_backwards(stream: BinaryIO, patterns: PatternSet, limits: Limits | None) -> LogDigest:
    stream.seek(0)
    lines, last = 0, b"\n"
    while chunk := stream.read(CHUNK):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    lines += last != b"\n"
    digester = LogDigester(patterns, limits=limits, newest_first=lines)
    for block in backwards(stream, stream.tell()):
        digester.feed(block)
    digester.close()
    return digester.digest()


def is_newest_first(head: bytes) -> bool:
    """Whether the times at a file's beginning descend: such is what some log viewers export."""
    lines = clean(head[: head.rfind(b"\n") + 1]).data.decode("utf-8", "replace").split("\n")[:_LOOKED_AT]
    times = [time for line in lines if (time := parse_line(1, line[:500]).line.time) is not None]
    falls = sum(later < earlier for earlier, later in pairwise(times))
    rises = sum(later > earlier for earlier, later in pairwise(times))
    return falls >= _ENOUGH and rises * 10 <= falls
