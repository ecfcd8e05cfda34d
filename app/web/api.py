"""Incidents, servers and rules over HTTP. All that reads or writes the store runs in threads."""

from __future__ import annotations

import asyncio
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from app.core.vocabulary import Category, IncidentStatus
from app.service.asking import Looks, Until, look, unknown
from app.service.bundle import bundle_name, write_bundle
from app.service.objects import incident_json, proposal_json, server_json, wait_json
from app.service.serve import Service
from app.store.wishes import ServerWish
from app.store.words import Wish
from app.web.bodies import INCIDENT, MAX_ID, RULE, SERVER, Amended, Decided, example
from app.web.problems import Refusal, described

LONGEST_WAIT = 600.0
_IN_MEMORY = 4 * 2**20  # bytes of an archive that are not put on the disk
_CHUNK = 256 * 1024
_ERRORS = (400, 401, 403, 422, 503)
Number = Annotated[int, Path(ge=1, le=MAX_ID)]
Name = Annotated[str, Path(min_length=1, max_length=64)]


def incident_routes(service: Service) -> APIRouter:
    """`/incidents`."""
    store = service.store
    router = APIRouter(tags=["incidents"])

    @router.get(
        "/incidents",
        summary="Incidents, newest first",
        responses={200: example("A page", {"items": [INCIDENT], "next_cursor": None}), **described(*_ERRORS)},
    )
    def incidents(
        status: IncidentStatus | None = None,
        server: Annotated[str | None, Query(max_length=64)] = None,
        category: Category | None = None,
        q: Annotated[str | None, Query(max_length=200, description="In title and server.")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        cursor: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next_cursor` of the page before.")] = None,
    ) -> dict[str, Any]:
        found = store.incidents(status=status, server=server, category=category, q=q, limit=limit + 1, before=cursor)
        page = found[:limit]
        return {
            "items": [incident_json(one) for one in page],
            "next_cursor": str(page[-1].id) if len(found) > limit else None,
        }

    @router.get(
        "/incidents/{incident_id:int}",
        summary="One incident",
        responses={200: example("The incident", INCIDENT), **described(404, *_ERRORS)},
    )
    def incident(incident_id: Number) -> dict[str, Any]:
        return incident_json(store.incident(incident_id))

    @router.get(
        "/incidents/{incident_id:int}/evidence",
        summary="Everything that is known of an incident, as one archive",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "A tar.gz: the incident, and of each launch its log, its diagnosis and the machine.",
                "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
            },
            **described(404, *_ERRORS),
        },
    )
    def evidence(incident_id: Number) -> StreamingResponse:
        archive = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when it was sent
        try:
            write_bundle(store, incident_id, archive)
        except BaseException:
            archive.close()
            raise
        archive.seek(0)
        name = {"Content-Disposition": f'attachment; filename="{bundle_name(incident_id)}"'}
        chunks = iter(lambda: archive.read(_CHUNK), b"")
        return StreamingResponse(
            chunks, headers=name, media_type="application/gzip", background=BackgroundTask(archive.close)
        )

    @router.patch(
        "/incidents/{incident_id:int}",
        summary="Acknowledge, mute, resolve, or leave a note",
        responses={200: example("The incident as it is now", INCIDENT), **described(404, 413, 415, *_ERRORS)},
    )
    def amend(incident_id: Number, body: Amended) -> dict[str, Any]:
        store.amend(
            incident_id,
            "api",
            acknowledged=body.acknowledged,
            muted_until=body.muted_until,
            unmute="muted_until" in body.model_fields_set and body.muted_until is None,
            text=body.note,
        )
        if body.status is not None:
            store.resolve(incident_id, "resolved by a person", "api")
        return incident_json(store.incident(incident_id))

    @router.post(
        "/incidents/{incident_id:int}/fix",
        summary="Approve or reject the proposed fix",
        responses={
            200: example("The incident, and what was decided on", INCIDENT),
            **described(404, 409, 413, 415, *_ERRORS),
        },
    )
    def decide(incident_id: Number, body: Decided) -> dict[str, Any]:
        proposal = store.decide(incident_id, body.fix_id, Wish(body.decision), "api")
        return {**incident_json(store.incident(incident_id)), "decided": proposal_json(proposal)}

    return router


def server_routes(service: Service) -> APIRouter:
    """`/servers`."""
    store = service.store
    router = APIRouter(tags=["servers"])

    def shown(name: str) -> dict[str, Any]:
        found = store.get_server(name)
        if found is None:
            raise unknown(store, name)
        return server_json(found, look(found), store.missing(name))

    @router.get("/servers", summary="All servers", responses={200: example("By name", [SERVER]), **described(*_ERRORS)})
    def servers() -> list[dict[str, Any]]:
        return [server_json(one, look(one), store.missing(one.name)) for one in store.list_servers()]

    @router.get(
        "/servers/{name}",
        summary="One server",
        responses={200: example("The server now", SERVER), **described(404, *_ERRORS)},
    )
    def server(name: Name) -> dict[str, Any]:
        return shown(name)

    @router.get(
        "/servers/{name}/wait",
        summary="Wait until it is ready, or down",
        responses={
            200: example("The end of the wait", {"reached": True, "state": "ready", "diagnosis": None}),
            **described(404, *_ERRORS),
        },
    )
    async def wait(
        request: Request,
        name: Name,
        until: Until = Until.READY,
        timeout: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds.")] = 60.0,
    ) -> dict[str, Any]:
        """`reached` is false when the time is up, or when it won't come about by itself."""
        looks = Looks(store, name, until, timeout)
        while (answer := await run_in_threadpool(looks.look)) is None:
            await asyncio.sleep(looks.pause)
            if await request.is_disconnected():
                raise Refusal(400, "The client is gone.")
        return wait_json(answer)

    def wish(name: str, wanted: ServerWish) -> dict[str, Any]:
        shown(name)
        store.wish(name, wanted, "api")
        return shown(name)

    for wanted in ServerWish:
        router.add_api_route(
            f"/servers/{{name}}/{wanted}",
            _wished(wish, wanted),
            methods=["POST"],
            name=f"{wanted}_server",
            status_code=202,
            summary=f"Ask that it is {_PAST[wanted]}",
            responses={
                202: example("Written down; it happens soon", SERVER),
                **described(404, 409, 413, 415, *_ERRORS),
            },
        )
    return router


_PAST = {
    ServerWish.START: "started",
    ServerWish.STOP: "stopped",
    ServerWish.RESTART: "restarted",
    ServerWish.RESTORE: "restarted with the configured command",
}


def _wished(wish: Any, wanted: ServerWish) -> Any:
    def endpoint(name: Name) -> dict[str, Any]:
        told: dict[str, Any] = wish(name, wanted)
        return told

    return endpoint


def rule_routes(service: Service) -> APIRouter:
    """`/rules`."""
    router = APIRouter(tags=["rules"])

    @router.get(
        "/rules",
        summary="The rules in use",
        responses={200: example("In the order in which they are asked", [RULE]), **described(400, 401, 503)},
    )
    def rules() -> list[dict[str, Any]]:
        return [
            {
                "id": rule.id,
                "role": rule.role.value,
                "title": rule.title,
                "category": rule.category.value if rule.category else None,
                "status": rule.status.value,
            }
            for rule in service.rulebook.rules.rules
        ]

    return router
