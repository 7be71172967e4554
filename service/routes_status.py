"""Whether the service lives, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from recall_loop.service.problems import problem_responses

router = APIRouter(tags=["status"])


class Health(BaseModel):
    """The process answers."""

    status: str = Field(description="`ok`.", examples=["ok"])


@router.get("/health", responses=problem_responses(429, 503), summary="Whether the process answers")
async def health() -> Health:
    """Answer at once, whatever the store does; see `/ready` for more."""
    return Health(status="ok")
