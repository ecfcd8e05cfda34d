"""What all open streams look at: read from the store once for all of them, however many there are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi.concurrency import run_in_threadpool

from app.service.objects import progress_json
from app.store.store import Store

LOOK = 0.25  # seconds between looks at the store


@dataclass(frozen=True, slots=True)
class Moment:
    """The newest line of the history, and how far each server is. `mark` differs when any of that does."""

    newest: int
    servers: dict[str, dict[str, Any]]
    mark: int


class Pulse:
    """The present moment, never older than `LOOK` seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: Moment | None = None
        self._due = 0.0
        self._looking = asyncio.Lock()

    async def now(self) -> Moment:
        """The moment; StoreError is for the caller."""
        async with self._looking:
            clock = asyncio.get_running_loop().time()
            if self._seen is None or clock >= self._due:
                self._seen = await run_in_threadpool(self._look)
                self._due = clock + LOOK
            return self._seen

    def _look(self) -> Moment:
        newest = self._store.newest_transition()
        views = self._store.list_servers()
        servers = {view.name: {"state": view.state.value, "progress": progress_json(view.progress)} for view in views}
        told = tuple((view.name, view.state, view.evidence, view.progress and view.progress.percent) for view in views)
        return Moment(newest, servers, hash(told))
