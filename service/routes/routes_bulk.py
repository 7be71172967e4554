"""`POST /api/memory/records/bulk`: any number of records as JSON Lines, a line of answer for each (STORE-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from recall_loop.service.core.deadline import current_executor
from recall_loop.service.middleware.dependencies import (
    NDJSON_MEDIA_TYPES,
    NdjsonBody,
    ServiceDep,
    StoreDep,
    WriterDep,
)
from recall_loop.service.middleware.request_validation import CheckedQueryParams
from recall_loop.service.routes.bulk import BulkResponse, BulkUpload

router = APIRouter(prefix="/api/memory/records", tags=["records"])
_LINES = (
    '{"id":"m-1","kind":"message","text":"The ferry leaves at nine.","author":"Ada"}\n'
    '{"id":"m-2","kind":"message","text":""}\n'
)
_ANSWERS = (
    '{"line":1,"id":"m-1","status":"created"}\n'
    '{"line":2,"id":"m-2","status":"rejected","error":"text: got \'\'; allowed: text of 1 to 1000000 characters"}\n'
    '{"done":true,"created":1,"replaced":0,"unchanged":0,"rejected":1,"failed":0}\n'
)


def _text(description: str, example: str) -> dict[str, Any]:
    return {NDJSON_MEDIA_TYPES[0]: {"schema": {"type": "string", "description": description}, "example": example}}


@router.post(
    "/bulk",
    summary="Write any number of records",
    response_class=Response,
    dependencies=[NdjsonBody, CheckedQueryParams],
    responses={
        200: {
            "description": "One JSON object a line: for each line that was sent, then for all of them.",
            "content": _text("`BulkLine` for each line, `BulkSummary` at the end.", _ANSWERS),
        },
    },
    openapi_extra={
        "requestBody": {"required": True, "content": _text("One record a line: JSON in UTF-8.", _LINES)},
    },
)
async def write_bulk(request: Request, caller: WriterDep, store: StoreDep, service: ServiceDep) -> Response:
    """Write one record a line, each with its `id`, while they arrive; answer each line by a line.

    A line that is answered `created`, `replaced` or `unchanged` is acknowledged. A bad line is `rejected` and ends
    nothing; lines may be up to 16 MiB long, blank ones are skipped. If the store fails, the lines it failed with are
    `failed` and nothing more is written: `done` in the last line is false then, with the reason. Sending everything
    again is safe.
    """
    current_executor().extend(service.config.bulk_timeout_seconds)
    pieces = request.stream()
    # A body whose declared length exceeds the limit is rejected here, before the response begins.
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return BulkResponse(BulkUpload(store, caller, all_pieces(), request.state.request_id))
