"""`GET /stream`: the history as it is written, and progress, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from app.service.objects import time_json
from app.service.serve import Service
from app.store.store import Store
from app.store.views import TransitionView
from app.web.pulse import LOOK, Pulse

_BEAT = 15.0  # so that proxies and we notice a line that is dead
_PAGE = 200
_MAX_ID = 2**63 - 1
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def stream_routes(service: Service) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["stream"])
    pulse = Pulse(service.store)

    @router.get(
        "/stream",
        response_class=StreamingResponse,
        include_in_schema=False,  # OpenAPI has no words for an answer that never ends; the description tells of it
    )
    async def stream(
        request: Request,
        last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=_MAX_ID)] = None,
    ) -> StreamingResponse:
        after = await run_in_threadpool(service.store.newest_transition) if last is None else last
        return StreamingResponse(
            _events(request, service.store, pulse, after), media_type="text/event-stream", headers=_HEADERS
        )

    return router


async def _events(request: Request, store: Store, pulse: Pulse, after: int) -> AsyncIterator[str]:
    """Everything after that id, for as long as the client listens."""
    yield "retry: 2000\n\n"
    loop = asyncio.get_running_loop()
    known = (await pulse.now()).servers
    beat = loop.time() + _BEAT
    while not await request.is_disconnected():
        moment = await pulse.now()
        lines = await run_in_threadpool(store.transitions, after, _PAGE) if moment.newest > after else ()
        for line in lines:
            after = line.id
            yield _event("transition", _transition(line), line.id)
        for name, at in moment.servers.items():
            if at != known.get(name):
                yield _event("progress", {"server": name, **at})
        known = moment.servers
        if loop.time() >= beat:
            beat = loop.time() + _BEAT
            yield ": still here\n\n"
        if len(lines) < _PAGE:
            await asyncio.sleep(LOOK)


def _transition(line: TransitionView) -> dict[str, Any]:
    return {
        "id": line.id,
        "at": time_json(line.at),
        "server": line.server,
        "incident": line.incident_id,
        "kind": line.kind,
        "text": line.text,
    }


def _event(kind: str, data: dict[str, Any], number: int | None = None) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
