"""Following a log file by name through all that happens to it: appending, rotation both ways, rewriting, return.

A file is known by its inode and its first bytes together: inodes are given again, and names move. Everything here is
plain calls without waiting; who wakes it up is the business of `app.supervise.watching`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEAD = 256  # bytes at the beginning by which a file is known again
_REMEMBERED = 60.0  # seconds that a file is known after it was last seen
CHUNK = 64 * 1024  # read in one turn, so that a flooding file leaves time for the others

# What rotation puts behind a name; packed files are not read.
_ROTATED = re.compile(r"[._~-](?:\d[\d:T_.-]*|old|bak|backup|prev|orig)|~")

Known = tuple[int, str]  # inode, hash of the first bytes


@dataclass(frozen=True, slots=True)
class Place:
    """How far a file was read. `known` are the rotated files beside it that are done with."""

    device: int = 0
    inode: int = 0
    offset: int = 0
    head_length: int = 0
    head: str = ""
    known: frozenset[Known] = frozenset()


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that were read at `offset`. `fresh` says that they begin another file than those before."""

    data: bytes
    offset: int
    fresh: bool = False


@dataclass
class _Open:
    """One open file."""

    descriptor: int
    offset: int = 0
    head_length: int = 0
    head: str = ""
    left: bool = False  # another file has its name, or its content is a finished copy
    stat: os.stat_result = field(init=False)

    def __post_init__(self) -> None:
        self.stat = os.fstat(self.descriptor)

    def learn_head(self) -> None:
        """Takes in more of the first bytes while there are fewer than enough."""
        if self.head_length < HEAD and self.offset > self.head_length:
            first = os.pread(self.descriptor, min(HEAD, self.offset), 0)
            self.head_length, self.head = len(first), _hash(first)

    def same(self) -> bool:
        """Whether the file still begins as it did, and still is as long as what was read of it."""
        if os.fstat(self.descriptor).st_size < self.offset:
            return False
        return _hash(os.pread(self.descriptor, self.head_length, 0)) == self.head if self.head_length else True

    def close(self) -> None:
        os.close(self.descriptor)


class FileFollower:
    """Reads one log by its name, piece by piece, in the order in which it was written."""

    def __init__(self, path: Path, place: Place | None = None, *, at_end: bool = False) -> None:
        """Goes on at `place`. Without one it begins at the file's beginning, or `at_end`."""
        self.path = path
        self._queue: deque[_Open] = deque()
        self._known: dict[Known, float] = {}  # and when each was last seen in the folder
        self._fresh = False
        if place is None:
            self._known = dict.fromkeys((known for _, known in self._siblings()), time.monotonic())
            self._open_current(at_end=at_end)
        else:
            self._known = dict.fromkeys(place.known, time.monotonic())
            self._resume(place)

    @property
    def place(self) -> Place:
        """How far it was read by now."""
        if not self._queue:
            return Place(known=frozenset(self._known))
        return _place(self._queue[0], frozenset(self._known))

    @property
    def descriptor(self) -> int | None:
        """The open file that is being read; None when there is none."""
        return self._queue[0].descriptor if self._queue else None

    @property
    def begins_anew(self) -> bool:
        """Whether what comes next is not the file that was read before."""
        return self._fresh

    def read(self, limit: int = CHUNK) -> Piece | None:
        """The next bytes; None when there are none now."""
        self._notice()
        while self._queue:
            now = self._queue[0]
            data = os.pread(now.descriptor, limit, now.offset)
            if data and not now.left and not now.same():
                self._rewritten(now)  # just now: these bytes may be of another content
                continue
            if data:
                piece = Piece(data, now.offset, self._fresh)
                self._fresh = False
                now.offset += len(data)
                now.learn_head()
                return piece
            if not now.left or len(self._queue) == 1:
                return None
            self._done_with(now)
        return None

    def back(self, start: int) -> Iterator[bytes]:
        """What lies between `start` and the present place, read once more."""
        now = self._queue[0] if self._queue else None
        while now is not None and start < now.offset:
            data = os.pread(now.descriptor, min(1 << 20, now.offset - start), start)
            if not data:
                return
            start += len(data)
            yield data

    @property
    def gone(self) -> bool:
        """Whether nobody has the file any more, and it was read to its end."""
        return not self.path.exists() and (
            not self._queue or os.fstat(self._queue[0].descriptor).st_size <= self._queue[0].offset
        )

    @property
    def refused(self) -> bool:
        """Whether the file is there and can't be opened."""
        return not self._queue and self.path.exists() and not os.access(self.path, os.R_OK)

    def close(self) -> None:
        while self._queue:
            self._queue.popleft().close()

    # -- what happened to the file

    def _resume(self, place: Place) -> None:
        """Finds the file again that was being read when we ended, by whatever name it has now."""
        found = self._find(place)
        if found is not None:
            found.offset, found.head_length, found.head = place.offset, place.head_length, place.head
            self._queue.append(found)
            current = _stat(self.path)
            found.left = current is None or (current.st_dev, current.st_ino) != (found.stat.st_dev, found.stat.st_ino)
            if not found.left:
                if place.offset > 0:
                    return
                self._queue.pop().close()  # whole contents may have come and gone before this one
        else:
            self._fresh = True
        self._catch_up()

    def _find(self, place: Place) -> _Open | None:
        """The file itself under its own or another name; else a copy of it that is at least as long."""
        files = [self.path, *(path for path, _ in self._siblings())]
        opened = [one for path in files if (one := _open(path)) is not None]
        best: _Open | None = None
        for same_inode in (True, False):
            for one in opened:
                one.offset, one.head_length, one.head = place.offset, place.head_length, place.head
                itself = (one.stat.st_dev, one.stat.st_ino) == (place.device, place.inode)
                if best is None and itself == same_inode and (itself or place.head_length) and one.same():
                    best = one
        for one in opened:
            if one is not best:
                one.close()
        return best

    def _notice(self) -> None:
        """Looks whether the name leads to another file, or the file has other content."""
        if not self._queue:
            self._catch_up()
            return
        now = self._queue[-1]
        if now.left:
            self._catch_up()
            return
        if not now.same():
            self._rewritten(now)
            return
        current = _stat(self.path)
        if current is None or (current.st_dev, current.st_ino) == (now.stat.st_dev, now.stat.st_ino):
            return
        # An empty file is no sign yet: who rotates makes it before the writer goes over to it.
        if current.st_size > 0:
            now.left = True
            self._catch_up()

    def _rewritten(self, now: _Open) -> None:
        """Truncated or written anew. What was not read before may stand in a copy."""
        place = _place(now)
        self._queue.pop()
        now.close()
        self._fresh = self._fresh or not self._queue
        copy = self._find(place) if place.head_length else None
        if copy is not None:
            copy.offset, copy.head_length, copy.head, copy.left = place.offset, place.head_length, place.head, True
            self._queue.append(copy)
            self._fresh = self._fresh and len(self._queue) > 1
        self._catch_up()

    def _catch_up(self) -> None:
        """Queues rotated files that were never read, oldest first, and then the one that has the name now."""
        have = {(one.stat.st_dev, one.stat.st_ino) for one in self._queue}
        for path, known in self._siblings():
            seen = _stat(path)
            if known in self._known or seen is None or (seen.st_dev, seen.st_ino) in have:
                continue
            opened = _open(path)
            if opened is None:
                continue
            # Names move while we look: what was opened may be another file than the one that was listed.
            if _key(opened) in self._known or (opened.stat.st_dev, opened.stat.st_ino) in have:
                opened.close()
                continue
            opened.left = True
            have.add((opened.stat.st_dev, opened.stat.st_ino))
            self._queue.append(opened)
        current = _stat(self.path)
        if current is not None and current.st_size > 0 and (current.st_dev, current.st_ino) not in have:
            self._open_current()
            self._fresh = self._fresh or len(self._queue) == 1

    def _open_current(self, *, at_end: bool = False) -> None:
        opened = _open(self.path)
        if opened is None:
            return
        if at_end:
            opened.offset = _line_end(opened.descriptor)
            opened.learn_head()
        self._queue.append(opened)

    def _done_with(self, now: _Open) -> None:
        self._queue.popleft()
        # Only what still lies there must be remembered. A listing made during a rotation may lack a file: it is
        # forgotten only when it has been missing for a while.
        at = time.monotonic()
        for _, known in self._siblings():
            if known in self._known:
                self._known[known] = at
        self._known = {known: seen for known, seen in self._known.items() if at - seen < _REMEMBERED}
        self._known[_key(now)] = at
        now.close()
        self._fresh = True

    def _siblings(self) -> list[tuple[Path, Known]]:
        """Files that this one may have been rotated to, oldest first."""
        found: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError):
            found = [
                entry
                for entry in os.scandir(self.path.parent)
                if self._may_be_rotated(entry.name) and entry.is_file(follow_symlinks=False)
            ]
        result = []
        for entry in found:
            with contextlib.suppress(OSError):
                with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123 - one file, whatever its name is by now
                    seen = os.fstat(file.fileno())
                    known = (seen.st_ino, _hash(file.read(HEAD)))
                result.append((seen.st_mtime_ns, Path(entry.path), known))
        return [(path, known) for _, path, known in sorted(result)]

    def _may_be_rotated(self, name: str) -> bool:
        own = self.path.name
        return name.startswith(own) and _ROTATED.fullmatch(name[len(own) :]) is not None


def is_rotated_name(path: Path, others: set[Path]) -> bool:
    """Whether a name that a glob found is a rotated form of another that it found too: `x.log.1` beside `x.log`."""
    name = path.name
    ends = (at for at in range(1, len(name)) if _ROTATED.fullmatch(name[at:]))
    return any(path.with_name(name[:at]) in others for at in ends)


def _place(file: _Open, known: frozenset[Known] = frozenset()) -> Place:
    return Place(file.stat.st_dev, file.stat.st_ino, file.offset, file.head_length, file.head, known=known)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _open(path: Path) -> _Open | None:
    """Opens a regular file; O_NONBLOCK, because a FIFO of that name would hold us up."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    opened = _Open(descriptor)
    if not stat.S_ISREG(opened.stat.st_mode):
        opened.close()
        return None
    return opened


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _key(file: _Open) -> Known:
    return file.stat.st_ino, _hash(os.pread(file.descriptor, HEAD, 0))


def _line_end(descriptor: int) -> int:
    """Behind the last whole line."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - CHUNK)
    at = os.pread(descriptor, size - start, start).rfind(b"\n")
    return start + at + 1 if at >= 0 else size
