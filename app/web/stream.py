"""`GET /stream`: the history as it is written, and progress, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from app.service.objects import progress_json, time_json
from app.service.serve import Service
from app.store.store import Store
from app.store.views import TransitionView
from app.web.problems import described

_LOOK = 0.25  # seconds between looks at the store
_BEAT = 15.0  # so that proxies and we notice a line that is dead
_PAGE = 200
_MAX_ID = 2**63 - 1
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def stream_routes(service: Service) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["stream"])

    @router.get(
        "/stream",
        summary="Live events",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "`transition` (its id resumes by `Last-Event-ID`) and `progress`",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **described(400, 401, 422, 503),
        },
    )
    async def stream(
        request: Request,
        last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=_MAX_ID)] = None,
    ) -> StreamingResponse:
        after = await run_in_threadpool(service.store.newest_transition) if last is None else last
        return StreamingResponse(
            _events(request, service.store, after), media_type="text/event-stream", headers=_HEADERS
        )

    return router


async def _events(request: Request, store: Store, after: int) -> AsyncIterator[str]:
    """Everything after that id, for as long as the client listens."""
    yield "retry: 2000\n\n"
    loop = asyncio.get_running_loop()
    progress = await run_in_threadpool(_progress, store)
    beat = loop.time() + _BEAT
    while not await request.is_disconnected():
        lines = await run_in_threadpool(store.transitions, after, _PAGE)
        for line in lines:
            after = line.id
            yield _event("transition", _transition(line), line.id)
        now = await run_in_threadpool(_progress, store)
        for name, at in now.items():
            if at != progress.get(name):
                yield _event("progress", {"server": name, **at})
        progress = now
        if loop.time() >= beat:
            beat = loop.time() + _BEAT
            yield ": still here\n\n"
        if len(lines) < _PAGE:
            await asyncio.sleep(_LOOK)


def _progress(store: Store) -> dict[str, dict[str, Any]]:
    return {
        server.name: {"state": server.state.value, "progress": progress_json(server.progress)}
        for server in store.list_servers()
    }


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
