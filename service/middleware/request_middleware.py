"""Middleware of every request: its id, its caller, limits, its time, and errors as problem documents."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Iterable

from opentelemetry import trace
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recall_loop.service.access.local_access import check_headers
from recall_loop.service.core.config import OPEN_PATHS, ServiceConfig
from recall_loop.service.core.deadline import ClientGoneError, RequestExecutor, bind_executor
from recall_loop.service.core.id_paths import check_path
from recall_loop.service.core.problems import (
    MEDIA_TYPE,
    ProblemError,
    logged_problem,
    problem_from_status,
    problem_response,
)
from recall_loop.service.middleware.dependencies import (
    authenticate_caller,
    require_no_conditions,
    require_plain_body,
)
from recall_loop.service.process.lifecycle import Service

# The route for long uploads.
BULK_ROUTE = ("POST", "/api/memory/records/bulk")
METRICS_PATH = "/metrics"
MCP_PATH = "/mcp"
_CLIENT_GONE = 499
_REDACTED = "REDACTED"  # OpenTelemetry's attribute name
# The end of a response may be sent after the deadline of the request; its reader has this much time for each part.
_MIN_SEND_SECONDS = 10.0


class RequestMiddleware:
    """Pure ASGI: nothing is buffered, and a stream's events go out as they come."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan events go through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, began, metrics = secrets.token_hex(8), time.perf_counter(), self.service.metrics
        method = scope["method"]
        if method == "HEAD":  # answered like GET: the server drops the body, since it knows the method itself
            scope = {**scope, "method": "GET"}
        scope.setdefault("state", {})["request_id"] = request_id
        reply = _ResponseSender(send, request_id, json_errors=scope["path"] == MCP_PATH)
        if "fastapi.telemetry" in scope and not self.service.settings.trace_content:
            _redact_url(scope)
        metrics.in_flight.inc()
        try:
            await self._handle(scope, receive, reply, request_id)
        finally:
            metrics.in_flight.dec()
            known = scope["path"] in OPEN_PATHS or scope["path"] == MCP_PATH
            route = scope["path"] if known else getattr(scope.get("route"), "path_format", "unmatched")
            metrics.request(route, method, reply.status or _CLIENT_GONE, time.perf_counter() - began)

    async def _handle(self, scope: Scope, receive: Receive, reply: _ResponseSender, request_id: str) -> None:
        try:
            check_headers(Headers(scope=scope))
            check_path(scope)
            if scope["path"] in OPEN_PATHS:
                with bind_executor(self.service.executor(self.service.config.timeout_seconds, spare=True)):
                    await self.app(scope, receive, reply.send)
            else:
                await self._admit(scope, receive, reply)
        except ClientGoneError:
            return
        except Exception as error:
            problem = logged_problem(error, request_id)
            if reply.started:  # too late for another response: the server closes the connection
                raise
            await problem_response(problem, request_id)(scope, receive, reply.send)

    async def _admit(self, scope: Scope, receive: Receive, reply: _ResponseSender) -> None:
        service, headers = self.service, Headers(scope=scope)
        caller = authenticate_caller(service, headers, scope.get("client"), metrics=scope["path"] == METRICS_PATH)
        scope["state"]["caller"] = caller
        require_plain_body(headers)
        require_no_conditions(scope["method"], headers)
        key = caller.key_id or caller.tenant
        if wait := service.rate_limiter.take(key):
            service.metrics.refused.labels("rate").inc()
            detail = "The key exceeds its rate limit."
            raise ProblemError(429, detail, kind="rate_limited", retry_after=max(1, math.ceil(wait)))
        with service.places.hold(key, shared=service.keys is not None and service.keys.several) as admitted:
            if not admitted:
                service.metrics.refused.labels("concurrency").inc()
                detail = "The service, or the key's share of it, has reached its limit of requests."
                raise ProblemError(429, detail, kind="busy", retry_after=1)
            with bind_executor(service.executor(service.config.timeout_seconds, key=key)) as work:
                body = _receive_with_deadline(receive, work, service.config)
                await self.app(scope, body, _send_with_deadline(reply.send, work))


def _redact_url(scope: Scope) -> None:
    """Remove ids and filters from FastAPI's own span; it still has the route."""
    hidden = {"url.path": _REDACTED} | ({"url.query": _REDACTED} if scope.get("query_string") else {})
    trace.get_current_span().set_attributes(hidden)


def _receive_with_deadline(receive: Receive, work: RequestExecutor, config: ServiceConfig) -> Receive:
    """Return `receive` with the deadlines of request and least rate; after the body it waits for the end."""
    whole, left = False, config.head_seconds

    async def timed() -> Message:
        nonlocal whole, left
        if whole:
            return await receive()
        began = time.monotonic()
        try:
            message = await asyncio.wait_for(receive(), min(left, work.remaining))
        except TimeoutError as error:
            raise HTTPException(408, headers={"Retry-After": "1", "Connection": "close"}) from error
        left += len(message.get("body", b"")) / config.body_bytes_per_second - (time.monotonic() - began)
        whole = not message.get("more_body", False)
        return message

    return timed


def _send_with_deadline(send: Send, work: RequestExecutor) -> Send:
    """Return `send`, with the request's time for each part: a client that reads nothing doesn't hold a place."""

    async def timed(message: Message) -> None:
        try:
            async with asyncio.timeout(max(work.remaining, _MIN_SEND_SECONDS)) as limit:
                await send(message)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ClientGoneError from error

    return timed


class BodyLimitMiddleware:
    """Refuses bodies that are too long, whatever length they claim: pieces are counted as they come."""

    def __init__(self, app: ASGIApp, config: ServiceConfig) -> None:
        self.app = app
        self.config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        bulk = (scope["method"], scope["path"]) == BULK_ROUTE
        limit = self.config.max_bulk_bytes if bulk else self.config.max_body_bytes
        await RequestBodyLimitResponder(self.app, limit)(scope, receive, send)


class _ResponseSender:
    """A response on its way: it gets the request's id, no cache may keep it, and an error becomes a problem document.

    With `json_errors` an error that is JSON stays as it is: MCP defines its own errors.
    """

    def __init__(self, send: Send, request_id: str, *, json_errors: bool) -> None:
        self._send = send
        self._own = (MEDIA_TYPE.encode(), *((b"application/json",) if json_errors else ()))
        self._request_id = request_id
        self._replaced = False
        self.started = False
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a message on."""
        if message["type"] != "http.response.start":
            if not self._replaced:
                await self._send(message)
            return
        self.started, self.status = True, message["status"]
        headers = list(message.get("headers", []))
        media = next((value for name, value in headers if name.lower() == b"content-type"), b"")
        if self.status >= 400 and not media.startswith(self._own):
            self._replaced = True
            response = problem_response(problem_from_status(self.status), self._request_id)
            await self._send({**message, "headers": self._completed(response.raw_headers)})
            await self._send({"type": "http.response.body", "body": response.body})
            return
        await self._send({**message, "headers": self._completed(headers)})

    def _completed(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        found = [*headers, (b"x-request-id", self._request_id.encode())]
        if not any(name.lower() == b"cache-control" for name, _ in found):
            found.append((b"cache-control", b"no-store"))  # memories erased here would live on in a client's cache
        return found
