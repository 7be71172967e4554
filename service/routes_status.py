"""Whether the service lives, whether it can answer, and its figures."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.responses import Response

from recall_loop.service.deps import run_blocking, service_of

router = APIRouter(tags=["status"])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """What the service can do at the moment."""

    status: Literal["ready", "degraded", "unavailable"] = Field(
        description="`degraded` answers, with less than everything; `unavailable` can't."
    )
    reasons: list[str] = Field(description="What is missing.")
    warnings: list[str] = Field(description="What an operator should know.")
    read_only: bool = Field(description="Whether writes are refused.")


@router.get("/health", summary="Whether the process answers")
async def health() -> Health:
    """Answer at once, whatever the store does; see `/ready` for more."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness}}, summary="Whether the service can answer requests")
async def ready(request: Request, response: Response) -> Readiness:
    """Read from the store, and say what is missing; 503 where nothing can be answered."""
    found: Readiness = await run_blocking(_readiness, request)
    response.status_code = 503 if found.status == "unavailable" else 200
    return found


def _readiness(request: Request) -> Readiness:
    service = service_of(request)
    missing, lacking = service.condition()
    status: Literal["ready", "degraded", "unavailable"] = "degraded" if lacking else "ready"
    return Readiness(
        status="unavailable" if missing else status,
        reasons=[*missing, *lacking],
        warnings=service.warnings,
        read_only=service.read_only,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Figures"}},
    summary="Figures for Prometheus",
)
async def metrics(request: Request) -> Response:
    """Return counters and histograms of all workers, in Prometheus's text format."""
    body = await run_blocking(service_of(request).metrics.exposition)
    return Response(body, media_type=CONTENT_TYPE_LATEST)
