"""Following a growing file: nothing lost at its end, whatever truncates it meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

BLOCK = 128 * 1024
POLL = 0.02  # seconds; 50 reads a second of a quiet file cost under 0.1 % of a core


class Tail:
    """Reads what was appended to a file since `offset`; starts over when the file was truncated."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> bytes:
        """The next bytes; empty when there are none yet."""
        data = os.pread(self._descriptor, BLOCK, self.offset)
        if not data and self.size < self.offset:
            # Copy-truncate: writers append, so the file goes on at its new beginning.
            self.offset = 0
            data = os.pread(self._descriptor, BLOCK, 0)
        self.offset += len(data)
        return data

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Tail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PassThrough:
    """Copies a growing file to a terminal or pipe from a thread of its own.

    A reader that stops reading (Ctrl-S, a full pipe) holds up only this copy: the file is the buffer. Bytes pass
    as they are: they are the server's own output on its user's own terminal.
    """

    def __init__(self, path: Path, offset: int, write: Callable[[bytes], object]) -> None:
        self._tail = Tail(path, offset)
        self._write = write
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._broken = False
        self._thread = threading.Thread(target=self._copy, name="pass-through", daemon=True)
        self._thread.start()

    def close(self, wait: float = 2.0) -> None:
        """Copies what is left, for up to `wait` seconds, and ends."""
        self._stop.set()
        self._thread.join(wait)

    def caught_up(self, wait: float) -> bool:
        """Waits until all that the file holds now was passed on."""
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            if self._broken or not self._thread.is_alive() or self._tail.offset >= self._tail.size:
                return self._idle.wait(max(0.0, deadline - time.monotonic()))
            time.sleep(POLL / 4)
        return False

    def _copy(self) -> None:
        with self._tail:
            while True:
                ending = self._stop.is_set()
                data = self._tail.read()
                if data and not self._broken:
                    self._idle.clear()
                    self._pass(data)
                    continue
                self._idle.set()
                if ending:
                    return
                self._stop.wait(POLL)

    def _pass(self, data: bytes) -> None:
        try:
            self._write(data)
        except (OSError, ValueError):
            # The reader went away (`| head`, a closed terminal): the server must not suffer for it.
            self._broken = True


def rotate(path: Path, limit: int) -> bool:
    """Moves a kept log that outgrew `limit` bytes to `NAME.1` by copy and truncate: its writers append on.

    Call it where everything was read. Lines written between the last copied byte and the truncation, some
    microseconds later, are lost to the copy; a rename would instead leave the writers on the old file for ever.
    """
    try:
        if path.stat().st_size < limit:
            return False
        older = path.with_name(path.name + ".1")
        with path.open("rb") as source, older.open("wb") as copy:
            older.chmod(0o600)
            shutil.copyfileobj(source, copy, BLOCK)
            os.truncate(path, 0)
    except OSError:
        # No room for the copy: the newest lines are worth more than the oldest.
        with contextlib.suppress(OSError):
            os.truncate(path, 0)
            return True
        return False
    return True
