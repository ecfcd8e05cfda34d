"""Tells open pages that something changed: they then fetch themselves again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from app.web.pulse import LOOK, Pulse

_ALIVE_EVERY = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def news(pulse: Pulse, request: Request) -> Response:
    """An endless stream of server-sent events: `transition` with its id, and `progress`; both without content."""
    return StreamingResponse(_events(pulse, request), media_type="text/event-stream", headers=_HEADERS)


async def _events(pulse: Pulse, request: Request) -> AsyncIterator[str]:
    moment = await pulse.now()
    newest, servers = moment.newest, moment.mark
    known = request.headers.get("last-event-id", "")
    if known.isdecimal() and known != str(newest):
        newest = -1  # what happened while the browser was away
    yield "retry: 2000\n\n"
    silent = 0.0
    while not await request.is_disconnected():
        moment = await pulse.now()
        if moment.newest != newest:
            yield f"id: {moment.newest}\nevent: transition\ndata: {moment.newest}\n\n"
        elif moment.mark != servers:
            yield "event: progress\ndata: -\n\n"
        silent = silent + LOOK if (moment.newest, moment.mark) == (newest, servers) else 0.0
        newest, servers = moment.newest, moment.mark
        if silent >= _ALIVE_EVERY:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(LOOK)
