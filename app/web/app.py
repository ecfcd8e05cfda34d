"""The web application: API, pages, and what stands before them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from app import __version__
from app.service.serve import Service
from app.web.api import incident_routes, rule_routes, server_routes
from app.web.bodies import ingested_schema
from app.web.docs import add_docs
from app.web.guard import Guard
from app.web.ingest import ingest_routes
from app.web.operations import operations
from app.web.pages import add_pages
from app.web.problems import SCHEMA, add_problems
from app.web.stream import stream_routes

_ABOUT = """
Why an inference server died, what to change, and whether it came back.

Errors are RFC 9457 problem details: `detail` says what is wrong, `mend` what to do, `errors` which fields.
Where a token is configured, send `Authorization: Bearer TOKEN`.

`GET /stream` is an endless stream of server-sent events: `transition` (a line of the history; its id resumes by
`Last-Event-ID`) and `progress`.
"""


def create_app(service: Service) -> FastAPI:
    """Everything that the service answers."""
    app = FastAPI(title="Crashcart", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    add_problems(app)
    add_docs(app)
    app.include_router(operations(service))
    for routes in (ingest_routes, incident_routes, server_routes, rule_routes, stream_routes):
        app.include_router(routes(service))
    token = service.config.token.get_secret_value() if service.config.token else None
    # Pages read the stream with the cookie that they gave.
    sessions = add_pages(app, service.store, token=token, rules=lambda: service.rulebook.rules)
    app.add_middleware(Guard, config=lambda: service.config, may_read=sessions.allows)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = SCHEMA
        schemas["Ingested"] = ingested_schema()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app
