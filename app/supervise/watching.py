"""Waking up when something changes in folders: inotify by watchfiles, with a poll as the safety net.

Folders are watched, never files: a watch on a file goes deaf when the file is rotated.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from watchfiles import awatch

_STEP = 1  # ms; the library's own defaults wait up to 1.6 s while anything goes on in the folder
_DEBOUNCE = 5
_MAGIC = frozenset("*?[")

Changed = Callable[[set[Path]], Awaitable[None]]


def expand(patterns: Iterable[str], roots: Sequence[Path] = ()) -> list[Path]:
    """The files that the globs find now; none outside `roots`, wherever links lead."""
    allowed = [root.resolve() for root in roots]
    found: dict[Path, None] = {}
    for pattern in patterns:
        plain = not _MAGIC & set(pattern)
        for name in [pattern] if plain else sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - absolute globs
            path = Path(name)
            if path.is_file() and (not allowed or any(path.resolve().is_relative_to(root) for root in allowed)):
                found[path] = None
    return list(found)


def folders(patterns: Iterable[str]) -> dict[Path, bool]:
    """The folders that these globs must be watched in, and whether with all below them."""
    wanted: dict[Path, bool] = {}
    for pattern in patterns:
        parts = Path(pattern).parts
        fixed = next((at for at, part in enumerate(parts[:-1]) if _MAGIC & set(part)), len(parts) - 1)
        folder = Path(*parts[:fixed]) if fixed else Path()
        wanted[folder] = wanted.get(folder, False) or fixed < len(parts) - 1
    return wanted


async def watch(patterns: Sequence[str], changed: Changed, stop: asyncio.Event) -> None:
    """Calls `changed` with the paths that changed, until `stop`; folders may come and go."""
    async with asyncio.TaskGroup() as group:
        for folder, deep in folders(patterns).items():
            group.create_task(_watch_one(folder, deep, changed, stop))


async def _watch_one(folder: Path, deep: bool, changed: Changed, stop: asyncio.Event) -> None:
    while not stop.is_set():
        if not folder.is_dir():
            await _pause(stop, 0.25)
            continue
        await changed({folder})
        gone = asyncio.Event()
        with contextlib.suppress(FileNotFoundError, OSError):
            async with asyncio.TaskGroup() as group:
                guard = group.create_task(_until_replaced(folder, gone, stop))
                async for changes in awatch(
                    folder,
                    watch_filter=None,
                    step=_STEP,
                    debounce=_DEBOUNCE,
                    recursive=deep,
                    stop_event=gone,
                    ignore_permission_denied=True,
                ):
                    await changed({Path(path) for _, path in changes})
                guard.cancel()
        await _pause(stop, 0.05)


async def _until_replaced(folder: Path, gone: asyncio.Event, stop: asyncio.Event) -> None:
    """A folder that was removed and made again is another one: its old watch is deaf."""
    first = _identity(folder)
    while not stop.is_set() and _identity(folder) == first:
        await _pause(stop, 0.5)
    gone.set()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
