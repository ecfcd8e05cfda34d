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
_ABSENT = 0.25  # seconds between looks for a folder that is not there
_AGAIN = 0.5  # seconds until a folder that can't be watched is tried again
_MAGIC = frozenset("*?[")

Changed = Callable[[set[Path]], Awaitable[None]]


class Expander:
    """One look for the files of globs: none outside `roots`, wherever links lead."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = [root.resolve() for root in roots]
        self.outside: list[Path] = []  # files that were found, and that lead out of the roots
        self._folders: dict[Path, Path] = {}  # each resolved once: many logs lie in one

    def files(self, patterns: Iterable[str]) -> list[Path]:
        """The files that the globs find now."""
        found: dict[Path, None] = {}
        for pattern in patterns:
            plain = not _MAGIC & set(pattern)
            for name in [pattern] if plain else sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - absolute
                path = Path(name)
                if not path.is_file():
                    continue
                if not self._roots or self._lies_in_one(path):
                    found[path] = None
                else:
                    self.outside.append(path)
        return list(found)

    def _lies_in_one(self, path: Path) -> bool:
        if path.is_symlink():
            folder = path.resolve().parent
        else:
            folder = self._folders.get(path.parent) or self._folders.setdefault(path.parent, path.parent.resolve())
        return any(folder.is_relative_to(root) for root in self._roots)


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
        try:
            # Held open, so that its inode is not given to the folder that takes its place.
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            await _pause(stop, _ABSENT)
            continue
        await changed({folder})
        gone = asyncio.Event()
        guard = asyncio.create_task(_until_replaced(folder, held, gone, stop))
        try:
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
        except (OSError, RuntimeError):
            # It vanished just now, or the system has no more watches. Whoever polls goes on; here it is tried again.
            await _pause(stop, _AGAIN)
        finally:
            guard.cancel()
            os.close(held)
        await _pause(stop, 0.05)


async def _until_replaced(folder: Path, held: int, gone: asyncio.Event, stop: asyncio.Event) -> None:
    """A folder that was removed and made again is another one: its old watch is deaf."""
    while not stop.is_set() and _same(folder, held):
        await _pause(stop, 0.5)
    gone.set()


def _same(folder: Path, held: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder), os.fstat(held))  # noqa: PTH116
    except OSError:
        return False


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
