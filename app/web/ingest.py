"""`POST /incidents/ingest`: failures that others send in."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from app.core.model import Exit
from app.service.ingest import Sent, Taken, take_in
from app.service.objects import diagnosis_json, incident_json
from app.service.serve import Service
from app.store.answers import KeptAnswer
from app.web.bodies import DIAGNOSIS, INCIDENT, NAME, Ingested, example
from app.web.problems import Refusal, described

_INLINE = 256 * 1024
_HALF = b"\\u"
_GZIP = b"\x1f\x8b"
_KEY = Header(alias="Idempotency-Key", min_length=1, max_length=200, include_in_schema=False)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Ingested"}},
        },
    }
}


def ingest_routes(service: Service) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["incidents"])
    door = _Door(service)

    @router.post(
        "/incidents/ingest",
        summary="Send in a failure",
        responses={
            200: example("Joined an incident, or nothing failed", {"incident": None, "diagnosis": DIAGNOSIS}),
            201: example("A new incident", {"incident": INCIDENT, "diagnosis": DIAGNOSIS}),
            **described(400, 401, 403, 404, 413, 415, 422, 503),
        },
        openapi_extra=_BODY,
    )
    async def ingest(
        request: Request,
        server: Annotated[str | None, Query(pattern=NAME, include_in_schema=False)] = None,
        key: Annotated[
            str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200, include_in_schema=False)
        ] = None,
    ) -> JSONResponse:
        """Log text is diagnosed; a bare word (`crashed`) on a known server makes Crashcart look itself.

        The log may also be sent as `text/plain` with `?server=NAME`, and packed (`Content-Encoding: gzip`). With an
        `Idempotency-Key` the same body leads to one incident and gets the same answer however often it is sent;
        another body under the same key gets 422.
        """
        body = await request.body()
        kind = request.headers.get("content-type", "")
        # Reading megabytes of JSON would hold up everybody; for a short body a thread would be the slower way.
        small = len(body) <= _INLINE
        sent = _read(body, kind, server) if small else await run_in_threadpool(_read, body, kind, server)
        return await door.answer(sent, body + b"\0" + (server or "").encode(), key)

    return router


class _Door:
    """Takes in what was read; the same key at the same moment waits for its twin."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._keyed = asyncio.Lock()

    async def answer(self, sent: Sent, body: bytes, key: str | None) -> JSONResponse:
        if key is None:
            status, answer = await run_in_threadpool(self._take_in, sent)
            return JSONResponse(answer, status)
        async with self._keyed:
            kept = await run_in_threadpool(self._take_once, sent, hashlib.sha256(body).hexdigest(), key)
        return JSONResponse(dict(kept.response), kept.status_code)

    def _take_in(self, sent: Sent) -> tuple[int, dict[str, Any]]:
        # All of it in a thread: even a short text ends in a transaction, which may wait for another process.
        taken = take_in(self._service.store, sent, lambda: self._service.rulebook.pipeline)
        return 201 if taken.new else 200, _told(taken)

    def _take_once(self, sent: Sent, body_hash: str, key: str) -> KeptAnswer:
        store = self._service.store
        kept = store.kept_answer(key)
        if kept is None:
            status, answer = self._take_in(sent)
            kept = store.keep_answer(key, body_hash, status, answer)
        if kept.body_hash != body_hash:
            raise Refusal(
                422, "This key was used with another body.", field="Idempotency-Key", mend="Take a new key for it."
            )
        return kept


def _told(taken: Taken) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "incident": None if taken.incident is None else incident_json(taken.incident),
        "diagnosis": None if taken.diagnosis is None else diagnosis_json(taken.diagnosis),
    }
    if taken.said is not None:
        answer["text"] = taken.said
    return answer


def _read(body: bytes, content_type: str, server: str | None) -> Sent:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/plain":
        return _plain(body, server)
    if kind != "application/json":
        raise Refusal(415, f"A body of type {kind[:60] or 'unknown'!r} can't be read.", mend="Send JSON or text/plain.")
    try:
        given = Ingested.model_validate(_json(body))
    except ValidationError as error:
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from error
    if server is not None and server != given.server:
        text = f"The body is about {given.server}, the query about {server}."
        raise Refusal(422, text, field="server", mend="Name one server.")
    return Sent(
        given.server,
        given.log,
        tuple(given.command or ()),
        given.env,
        Exit.from_code(given.exit_code) if given.exit_code is not None else Exit(),
        given.reported_by,
        given.occurred_at,
    )


def _json(body: bytes) -> Any:
    try:
        found = json.loads(body)
        # Halves of surrogate pairs are valid JSON and no valid text.
        return json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")) if _HALF in body else found
    except (ValueError, RecursionError) as error:
        raise Refusal(422, "The body is no valid JSON.", field="body") from error


def _plain(body: bytes, server: str | None) -> Sent:
    if server is None:
        raise Refusal(422, "text/plain needs ?server=NAME.", field="server")
    if body.startswith(_GZIP):
        raise Refusal(
            415, "The body is packed by gzip.", mend="Send it with the header Content-Encoding: gzip, or unpack it."
        )
    text = body.decode("utf-8", "replace")
    if not text.strip():
        raise Refusal(422, "The body is empty.", field="text")
    return Sent(server, text)
