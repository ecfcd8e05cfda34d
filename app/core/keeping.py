"""Files that only save time: kept in a folder that is the user's alone, never needed."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def is_private(folder: Path) -> bool:
    """Whether only this user can have written what lies in a folder; false where there is none."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return stat.S_ISDIR(status.st_mode) and mine and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def keep(folder: Path, name: str, data: bytes, *, most: int, pattern: str, not_before: int = 0) -> None:
    """Writes a file whole or not at all; nothing happens where that can't be done, or where others could write too.

    Of the files that match `pattern` the newest `most` stay. With `not_before`, nanoseconds of the file system's own
    clock, nothing is kept that would be written earlier.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            return
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".new", delete=False) as file:
            file.write(data)
        new = Path(file.name)
        if new.stat().st_mtime_ns < not_before:
            new.unlink()
            return
        new.replace(folder / name)
        for path in sorted(folder.glob(pattern), key=_age)[most:]:
            path.unlink(missing_ok=True)


def _age(path: Path) -> int:
    """Sorts the newest file first; one that another process took away meanwhile comes last."""
    try:
        return -path.stat().st_mtime_ns
    except OSError:
        return 0
