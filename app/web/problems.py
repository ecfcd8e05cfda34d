"""Errors as RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from app.core.errors import CommandError, CrashcartError, NotFoundError, StaleError, UsageError

MEDIA_TYPE = "application/problem+json"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_STATUS = {NotFoundError: 404, StaleError: 409, UsageError: 422, CommandError: 422}


class Refusal(Exception):  # noqa: N818 - it is an answer
    """A request that is answered with a problem."""

    def __init__(
        self, status: int, detail: str, *, field: str | None = None, mend: str | None = None, wait: int | None = None
    ) -> None:
        """`wait`: seconds after which it may be tried again."""
        super().__init__(detail)
        self.status, self.detail, self.field, self.mend, self.wait = status, detail, field, mend, wait


def problem(
    status: int,
    detail: str,
    *,
    mend: str | None = None,
    errors: list[dict[str, str]] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The answer to a request that failed; `errors` names fields."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail.encode("utf-8", "replace").decode(),
    }
    if mend:
        body["mend"] = mend
    if errors:
        body["errors"] = errors
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for OpenAPI."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "An error, by RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong with this request."},
        "mend": {"type": "string", "description": "What to do about it."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def add_problems(app: FastAPI) -> None:
    """Lets all errors of the application be answered so."""
    app.add_exception_handler(CrashcartError, _ours)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CrashcartError)  # noqa: S101 - it was registered for these
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 503)
    return problem(status, str(error), mend=error.mend)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # noqa: S101
    errors = [{"field": error.field, "detail": error.detail}] if error.field else None
    return problem(error.status, error.detail, mend=error.mend, errors=errors)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return problem(error.status_code, str(error.detail), headers=headers)


def _methods(request: Request) -> list[str]:
    """What may be done at this address: several routes can share it, and a refusal knows only the first."""
    return [method for method in _METHODS if _answered({**request.scope, "method": method}, request.app.routes)]


def _answered(scope: Scope, routes: Sequence[BaseRoute]) -> bool:
    return any(route.matches(dict(scope))[0] is Match.FULL for route in routes)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    errors = [{"field": _field(one["loc"]), "detail": str(one["msg"])} for one in error.errors()]
    told = "; ".join(f"{one['field']}: {one['detail']}" for one in errors[:5])
    return problem(422, f"The request is not valid: {told}.", errors=errors)


def _field(loc: tuple[Any, ...]) -> str:
    """`server`, `lines.3`: the place without where it came from."""
    parts = loc[1:] if len(loc) > 1 else loc
    return ".".join(str(part) for part in parts)
