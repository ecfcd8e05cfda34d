"""Tells open pages that something changed: they then fetch themselves again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from app.store.store import Store

_EVERY = 0.25
_ALIVE_EVERY = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def news(store: Store, request: Request) -> Response:
    """An endless stream of server-sent events: `transition` with its id, and `progress`; both without content."""
    return StreamingResponse(_events(store, request), media_type="text/event-stream", headers=_HEADERS)


async def _events(store: Store, request: Request) -> AsyncIterator[str]:
    newest, servers = await run_in_threadpool(_seen, store)
    known = request.headers.get("last-event-id", "")
    if known.isdecimal() and known != str(newest):
        newest = -1  # what happened while the browser was away
    yield "retry: 2000\n\n"
    silent = 0.0
    while not await request.is_disconnected():
        seen, progress = await run_in_threadpool(_seen, store)
        if seen != newest:
            yield f"id: {seen}\nevent: transition\ndata: {seen}\n\n"
        elif progress != servers:
            yield "event: progress\ndata: -\n\n"
        silent = silent + _EVERY if (seen, progress) == (newest, servers) else 0.0
        newest, servers = seen, progress
        if silent >= _ALIVE_EVERY:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(_EVERY)


def _seen(store: Store) -> tuple[int, int]:
    servers = (
        (one.name, one.state, one.evidence, one.progress and one.progress.percent) for one in store.list_servers()
    )
    return store.newest_transition(), hash(tuple(servers))
