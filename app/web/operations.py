"""What machines ask the service about itself: whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from app import __version__
from app.service.metrics import CONTENT_TYPE
from app.service.serve import Service
from app.web.bodies import example

_METRICS: dict[str, Any] = {
    "description": "In the text format of Prometheus",
    "content": {
        CONTENT_TYPE: {
            "schema": {"type": "string"},
            "example": '# TYPE crashcart_server_ready gauge\ncrashcart_server_ready{server="kimi"} 1.0\n',
        }
    },
}


def operations(service: Service) -> APIRouter:
    """`/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(tags=["operations"])

    @router.get(
        "/healthz",
        summary="Whether the process answers",
        responses={200: example("It does", {"status": "ok", "version": __version__})},
    )
    def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @router.get(
        "/readyz",
        summary="Whether it does its work",
        responses={
            200: example("It does", {"status": "ready", "failing": []}),
            503: example("Not now", {"status": "not ready", "failing": ["following"]}),
        },
    )
    def readyz(response: Response) -> dict[str, Any]:
        service.store.newest_transition()
        ready = service.ready and not service.failing
        response.status_code = 200 if ready else 503
        failing = list(service.failing) or ([] if ready else ["starting"])
        return {"status": "ready" if ready else "not ready", "failing": failing}

    @router.get("/metrics", summary="Numbers for Prometheus", response_class=Response, responses={200: _METRICS})
    def metrics() -> Response:
        return Response(service.metrics.render(), media_type=CONTENT_TYPE)

    return router
