"""Whether the service lives, whether it can answer, and its figures."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.responses import Response

from recall_loop.service.access.local_access import is_local_client
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.problems import RETRY_SECONDS, ProblemError
from recall_loop.service.middleware.dependencies import service_of

router = APIRouter(tags=["status"])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The state of the service at the moment."""

    status: Literal["ready", "degraded"] = Field(description="`degraded` still answers, without some part.")
    reasons: list[str] = Field(description="The missing parts.")
    warnings: list[str] = Field(description="Notes for the operator; shown on the same machine only.")
    read_only: bool = Field(description="Whether writes are refused.")


@router.get("/health", summary="Whether the process answers")
async def health() -> Health:
    """Answer immediately, regardless of the store; see `/ready` for more."""
    return Health()


@router.get("/ready", summary="Whether the service can answer requests")
@blocking
def ready(request: Request) -> Readiness:
    """Read from the store, and report missing parts; 503, with `reasons`, if nothing can be answered."""
    service = service_of(request)
    blocking_issues, degrading_issues = service.health()
    # This route needs no key: paths and addresses are only for clients on this machine.
    local = is_local_client(request.headers, request.scope.get("client"))
    reasons = [
        f"{issue.what}: {issue.detail}" if local else issue.what for issue in (*blocking_issues, *degrading_issues)
    ]
    if blocking_issues:
        raise ProblemError(
            503, "Requests can't be answered.", kind="not_ready", retry_after=RETRY_SECONDS, reasons=reasons
        )
    return Readiness(
        status="degraded" if degrading_issues else "ready",
        reasons=reasons,
        warnings=service.warnings if local else [],
        read_only=service.read_only,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Figures"}},
    summary="Figures for Prometheus",
)
@blocking
def metrics(request: Request) -> Response:
    """Return counters and histograms of all workers, in Prometheus's text format."""
    return Response(service_of(request).metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
