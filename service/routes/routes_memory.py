"""Adding memories of any shape, and taking all of them out as lines (API-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from recall_loop.graph.memories.memory import Memory
from recall_loop.memory.intake.files.record_lines import export_line
from recall_loop.service.core.deadline import blocking, current_executor
from recall_loop.service.core.problems import json_response
from recall_loop.service.middleware.dependencies import (
    NDJSON_MEDIA_TYPES,
    CallerDep,
    ServiceDep,
    StoreDep,
    WriterDep,
)
from recall_loop.service.middleware.json_bodies import json_router
from recall_loop.service.models.memory_models import AddRequest, AddResponse
from recall_loop.service.models.record_models import ExportParams, MemoryOverview
from recall_loop.state.scope import Filters, Scope

router = json_router("/api/memory", "memory")
_LINES_AT_ONCE = 100
_LINES: dict[str, Any] = {
    NDJSON_MEDIA_TYPES[0]: {
        "schema": {"type": "string", "description": "One record a line."},
        "example": '{"id": "m-1", "kind": "message", "text": "The ferry leaves at nine.", "author": "Ada"}\n',
    }
}


@router.post("/add", summary="Store memories", response_model=AddResponse)
@blocking
def add_memories(body: AddRequest, caller: WriterDep, store: StoreDep, service: ServiceDep) -> Response:
    """Store a text, messages, records, or a list of any of these.

    All are kept, or none where one can't be: then the problem names the first reason, and its `detail` all of them.
    Something with an `id` replaces the record that has it. The answer is the acknowledgement.
    """
    memory = Memory(store=store, settings=service.settings, llm=service.llm)
    fields = body.model_dump(exclude={"content"})
    added = memory.add(body.content, tenant=caller.tenant, actor=caller.key_id, **fields)
    return json_response(AddResponse.model_validate(added, from_attributes=True))


@router.get("/overview", summary="See what memory holds", response_model=MemoryOverview)
@blocking
def read_overview(caller: CallerDep, store: StoreDep, service: ServiceDep) -> Response:
    """Return the numbers of the tenant's records by kind, user and agent, their times, and what the caller may do."""
    access = {"tenant": caller.tenant, "role": caller.role.value, "read_only": service.read_only}
    held = asdict(store.overview(Scope(tenant=caller.tenant)))
    return json_response(MemoryOverview.model_validate({"caller": access, **held}), nulls=True)


@router.get(
    "/export",
    summary="Export records",
    response_class=Response,
    responses={200: {"description": "One record a line, as `recall-loop ingest` reads them.", "content": _LINES}},
)
async def export_memories(
    params: Annotated[ExportParams, Query()], caller: CallerDep, store: StoreDep, service: ServiceDep
) -> Response:
    """Return the records within scope and filters, one per line, in the order in which they were written.

    Without any filter superseded facts are among them. An answer that breaks off is not whole.
    """
    work = current_executor()
    work.extend(service.config.bulk_timeout_seconds)
    scope, filters = params.read_scope(caller.tenant), params.filters()

    def lines() -> Iterator[str]:
        records = store.scan(scope, None if filters == Filters() else filters, params.content_types)
        while part := list(islice(records, _LINES_AT_ONCE)):
            yield "".join(export_line(record) + "\n" for record in part)

    async def parts() -> AsyncIterator[str]:
        # Each part waits for its key's turn at the service's threads; no thread is held while the client reads.
        rest = lines()
        while part := await work.run(next, rest, ""):
            yield part
            work.extend(service.config.timeout_seconds)  # a long export continues as long as the client reads

    return StreamingResponse(parts(), media_type=NDJSON_MEDIA_TYPES[0])
