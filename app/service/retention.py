"""What is kept and for how long: by age, by size, and never the last incident of its kind."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from app.service.config import Config, RetentionConfig
from app.store.store import Store

# A folder this young may belong to an incident that is just being written.
_SETTLED = 3600.0
_KEYS = timedelta(days=2)  # how long an answer is kept for its idempotency key


@dataclass(frozen=True, slots=True)
class Swept:
    """What one round removed. `too_large`: still larger than allowed, and nothing is left that may go."""

    incidents: int = 0
    rows: int = 0
    folders: int = 0
    too_large: bool = False


def sweep(store: Store, keep: RetentionConfig, now: datetime | None = None) -> Swept:
    """One round. Each incident goes in a transaction of its own; a round that is cut short goes on in the next."""
    now = now or datetime.now(UTC)
    old = now - timedelta(days=keep.days)
    incidents = sum(_forget(store, one) for one in store.forgettable(old))
    rows = 0
    while removed := store.forget_history(old):
        rows += removed
    store.forget_answers(now - _KEYS)
    folders = _sweep_orphans(store)
    limit = int(keep.max_gib * 2**30)
    if _held(store) > limit:
        for one in store.forgettable():
            incidents += _forget(store, one)
            if _held(store) <= limit:
                break
    store.shrink()
    return Swept(incidents, rows, folders, too_large=_held(store) > limit)


def _held(store: Store) -> int:
    """Bytes of what is kept. Room that deletions left in the database file does not count: it is used again."""
    wal = store.state / "crashcart.db-wal"
    return size_of(store.state) - store.free() - (wal.stat().st_size if wal.exists() else 0)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; what vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total


async def kept_in_bounds(store: Store, config: Callable[[], Config], wait: float = 20.0) -> None:
    """Sweeps again and again, first `wait` seconds after the start. StoreError is for the caller."""
    log = structlog.get_logger("crashcart")
    await asyncio.sleep(wait)
    while True:
        keep = config().retention
        swept = await asyncio.to_thread(sweep, store, keep)
        if swept.incidents or swept.folders:
            log.info("old incidents removed", incidents=swept.incidents, folders=swept.folders)
        if swept.too_large:
            log.warning(
                "the state folder is larger than retention.max_gib, and only what is open or rare is left in it",
                mend="Raise retention.max_gib, lower retention.server_log, or resolve incidents that are over.",
            )
        await asyncio.sleep(keep.every)


def _forget(store: Store, incident_id: int) -> bool:
    """The rows first: evidence without an incident is swept in a later round, an incident without it would lie."""
    gone = store.forget(incident_id)
    if gone:
        shutil.rmtree(store.state / "incidents" / str(incident_id), ignore_errors=True)
    return gone


def _sweep_orphans(store: Store) -> int:
    settled = [path for path in store.orphans() if time.time() - path.stat().st_mtime > _SETTLED]
    for path in settled:
        shutil.rmtree(path, ignore_errors=True)
    return len(settled)
