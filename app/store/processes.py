"""Tells a process from a later one that got the same pid."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from app.store.views import ProcessRef


def this_process() -> ProcessRef:
    """The process that runs this code."""
    return ref(os.getpid())


def ref(pid: int) -> ProcessRef:
    """The process that has this pid now."""
    seen = _look(pid)
    return ProcessRef(pid, seen[0] if seen else None)


def alive(process: ProcessRef | None) -> bool:
    """Whether that very process still runs. A zombie does not: it only waits for its parent."""
    if process is None:
        return False
    seen = _look(process.pid)
    if seen is None:
        return False
    mark, zombie = seen
    return not zombie and (process.mark is None or process.mark == mark)


def _look(pid: int) -> tuple[str, bool] | None:
    """Start mark and whether it is a zombie; None when there is no such process."""
    if not _boot():
        return _look_without_proc(pid)
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in brackets may hold spaces and brackets itself; the fields begin behind the last one.
    fields = status[status.rindex(")") + 2 :].split()
    return f"{_boot()}:{fields[19]}", fields[0] in "ZX"


@functools.cache
def _boot() -> str:
    """Names this boot of the machine. Ticks since boot do not move when the clock is set, as wall times do."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return ""


def _look_without_proc(pid: int) -> tuple[str, bool] | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return f"{process.create_time():.2f}", process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return "", False
