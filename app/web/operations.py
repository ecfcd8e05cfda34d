"""What machines ask the service about itself: whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from app import __version__
from app.service.metrics import CONTENT_TYPE
from app.service.serve import Service


def operations(service: Service) -> APIRouter:
    """`/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(tags=["operations"])

    @router.get("/healthz", summary="Whether the process answers")
    def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @router.get("/readyz", summary="Whether it does its work", responses={503: {"description": "Not now"}})
    def readyz(response: Response) -> dict[str, Any]:
        service.store.newest_transition()
        ready = service.ready and not service.failing
        response.status_code = 200 if ready else 503
        return {"status": "ready" if ready else "not ready", "failing": list(service.failing)}

    @router.get("/metrics", summary="Numbers for Prometheus", response_class=Response)
    def metrics() -> Response:
        return Response(service.metrics.render(), media_type=CONTENT_TYPE)

    return router
