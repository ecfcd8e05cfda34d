"""Reads the kernel's own log, where this user may: what it says of memory, GPUs (Xid) and disks since a moment."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_DEVICE = Path("/dev/kmsg")
_LONGEST = 8192  # bytes of a record: the kernel hands out whole ones
_MOST = 100_000  # records that are read: a log that grows while it is read has an end all the same


@dataclass(frozen=True, slots=True)
class Record:
    """One record: seconds since the machine was started, syslog severity (0 worst, 7 debugging), text."""

    at: float
    severity: int
    text: str


def kernel_records(since: float = 0.0, device: Path = _DEVICE) -> list[Record] | None:
    """Records written after `since` (in seconds of the monotonic clock), oldest first; None: it may not be read."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found: list[Record] = []
    try:
        for _ in range(_MOST):
            try:
                data = os.read(descriptor, _LONGEST)
            except BrokenPipeError:
                continue  # the oldest record was overwritten meanwhile: the next read goes on behind it
            except OSError:
                break  # nothing more for now
            if not data:
                break
            found += [record for record in [record_of(data)] if record is not None and record.at >= since]
    finally:
        os.close(descriptor)
    return found


def record_of(data: bytes) -> Record | None:
    """`PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`, then lines of details that begin with a blank."""
    head, separator, rest = data.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3:
        return None
    with contextlib.suppress(ValueError):
        return Record(int(fields[2]) / 1e6, int(fields[0]) & 7, rest.partition("\n")[0])
    return None


def monotonic_of(wall: float) -> float:
    """A wall-clock moment (seconds since 1970) as the kernel's log counts time."""
    return time.monotonic() - (time.time() - wall)
