"""`POST /api/memory/retrieve`, and the same as a stream of events (OPS-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Body, Request
from fastapi.sse import format_sse_event
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from recall_loop.graph.run import retrieve, stream_retrieve
from recall_loop.service.access.callers import Caller
from recall_loop.service.core.deadline import ClientGoneError, RequestExecutor, current_executor
from recall_loop.service.core.problems import logged_problem, problem_document
from recall_loop.service.middleware.dependencies import CallerDep, require_own_tenant, service_of
from recall_loop.service.middleware.json_bodies import json_router
from recall_loop.service.process.lifecycle import Service
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.types import Identifier

router = json_router("/api/memory", "retrieve")
_PING_SECONDS = 15.0

EXAMPLES: dict[str, Any] = {
    "question": {
        "summary": "One question",
        "value": {"messages": [{"role": "user", "content": "When did we order the windows?"}]},
    },
    "conversation": {
        "summary": "A conversation, with bounds and filters",
        "value": {
            "messages": [
                {"role": "user", "author": "Ada", "content": "The new windows are beautiful."},
                {"role": "user", "author": "Ada", "content": "When did we order them?"},
            ],
            "filters": {"start_time": "2024-01-01T00:00:00Z"},
            "content_types": ["fact", "message"],
            "max_facts": 10,
            "reference_time": "2024-06-01T12:00:00Z",
            "debug": True,
        },
    },
}


class RetrieveBody(RetrieveRequest):
    """One retrieval request. The tenant is that of the API key."""

    tenant: Identifier | None = Field(  # type: ignore[assignment]
        None, description="Optional; if given, it must be the key's own tenant."
    )

    def request_of(self, caller: Caller, request_id: str) -> RetrieveRequest:
        """Return the request in the caller's tenant, by default with the id of its HTTP request.

        Raises as `require_own_tenant`.
        """
        return self.model_copy(update={"tenant": require_own_tenant(caller, self.tenant), "id": self.id or request_id})


RetrieveDep = Annotated[RetrieveBody, Body(openapi_examples=EXAMPLES)]


@router.post("/retrieve", response_model=RetrieveResult, summary="Search until there is enough new evidence")
async def retrieve_memories(request: Request, body: RetrieveDep, caller: CallerDep) -> Response:
    """Run one retrieval to its end.

    The answer has ranked facts with where they come from, a text to paste into a prompt, how sure the result is, and
    why the search stopped. With `debug` it has score components and the trace. When part of the system is missing,
    `degraded` is true and `warnings` say what.
    """
    service = service_of(request)
    retrieve_request = body.request_of(caller, request.state.request_id)
    running = asyncio.ensure_future(current_executor().run(_answer, service, retrieve_request))
    leaving = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientGoneError  # the run stops at its next step
        return Response(await running, media_type="application/json")
    finally:
        leaving.cancel()
        running.cancel()


def _answer(service: Service, request: RetrieveRequest) -> bytes:
    """Run in one of the service's threads."""
    result = retrieve(request, store=service.store, settings=service.settings, llm=service.llm)
    service.record_result(request, result)
    return result.model_dump_json().encode()


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has closed the connection. The body has been read by now."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `accepted`, the progress of the run, and last `result` or `problem`.",
        "content": {
            "text/event-stream": {
                "schema": {"description": "One event."},
                "example": (
                    'event: accepted\ndata: {"type": "accepted", "request_id": "6f0c…"}\n\n'
                    'event: queries_planned\ndata: {"type": "queries_planned", "iteration": 1, …}\n\n'
                    'event: call_done\ndata: {"type": "call_done", "iteration": 1, …}\n\n'
                    'event: stopped\ndata: {"type": "stopped", "reason": "enough_facts", …}\n\n'
                    'event: result\ndata: {"request_id": …, "facts": […], …}\n\n'
                ),
            }
        },
    }
}


@router.post(
    "/retrieve/stream",
    response_class=StreamingResponse,
    responses=_STREAM,
    summary="The same, with progress events as they happen",
)
async def stream_retrieval(request: Request, body: RetrieveDep, caller: CallerDep) -> Response:
    """Run one retrieval and send its progress as server-sent events.

    Each event's name is the `type` of its data. The last one is `result`, with what `/api/memory/retrieve` answers, or
    `problem`, with a problem document. A comment line comes every 15 seconds in which nothing happens. Closing the
    connection ends the run.
    """
    service = service_of(request)
    request_id = request.state.request_id
    events = _events(service, body.request_of(caller, request_id), current_executor(), request_id)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(
    service: Service, retrieve_request: RetrieveRequest, work: RequestExecutor, request_id: str
) -> AsyncIterator[bytes]:
    def run(report: Callable[[bytes], None]) -> None:
        """Run in one of the service's threads."""
        for step in stream_retrieve(retrieve_request, store=service.store, settings=service.settings, llm=service.llm):
            if isinstance(step, RetrieveResult):
                service.record_result(retrieve_request, step)
                report(_event("result", step.model_dump_json()))
            else:
                report(_event(step["type"], json.dumps(step, ensure_ascii=False)))

    yield _event("accepted", json.dumps({"type": "accepted", "request_id": request_id}))
    try:
        async with aclosing(work.stream(run, idle_seconds=_PING_SECONDS)) as events:
            async for event in events:
                yield event or format_sse_event(comment="ping")
    except Exception as error:  # noqa: BLE001  # the last event reports it
        document = problem_document(logged_problem(error, request_id), request_id)
        yield _event("problem", document.model_dump_json(exclude_none=True))


def _event(name: str, data: str) -> bytes:
    return format_sse_event(event=name, data_str=data)
