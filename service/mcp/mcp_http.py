"""The MCP server at the service's /mcp: the same keys, limits and tenant isolation as its other addresses (OPS-6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.access.callers import Caller
from recall_loop.service.core.deadline import RequestExecutor, current_executor
from recall_loop.service.mcp.mcp_server import McpContext, make_mcp_server
from recall_loop.service.mcp.mcp_tools import ToolContext
from recall_loop.service.middleware.dependencies import require_media_type
from recall_loop.service.process.lifecycle import Service, not_running_problem
from recall_loop.state.scope import Scope


class McpEndpoint:
    """An ASGI application for streamable HTTP. Every request is self-contained, so that any worker can answer it.

    Host and origin are checked by the middleware, and so is the key: a call reaches its tenant only.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: Mapping[bool, StreamableHTTPSessionManager] = {}

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        sessions = {writable: self._make_sessions(writable) for writable in (True, False)}
        async with AsyncExitStack() as stack:
            for each in sessions.values():
                await stack.enter_async_context(each.run())
            self._sessions = sessions
            try:
                yield
            finally:
                self._sessions = {}

    def _make_sessions(self, writable: bool) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            make_mcp_server(self._resolve_caller, self._context, writable=writable),
            stateless=True,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=self._service.config.max_body_bytes,
        )

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not self._sessions:
            raise not_running_problem()
        require_media_type(Headers(scope=scope))
        scope["state"]["work"] = current_executor()
        writable = self._permitted(scope["state"]["caller"]).has_role(KeyRole.WRITE)
        await self._sessions[writable].handle_request(scope, receive, send)

    def _permitted(self, caller: Caller) -> Caller:
        """Return the caller with what it may do here: where nothing is written, its key's role may be more."""
        return replace(caller, role=KeyRole.READ) if self._service.read_only else caller

    def _resolve_caller(self, context: McpContext) -> tuple[Caller, RequestExecutor]:
        """Return the caller that the middleware has authenticated, and the request's executor."""
        state: Any = context.request.state  # type: ignore[union-attr]
        return self._permitted(state.caller), state.work

    def _context(self, caller: Caller) -> ToolContext:
        service = self._service
        scope = Scope(tenant=caller.tenant)
        return ToolContext(service.store, service.settings, scope, caller, service.llm, service.record_result)


def mcp_route(endpoint: McpEndpoint, path: str) -> Route:
    """Return the route. A client may only post: a stream without a request would have nothing to say."""
    return Route(path, endpoint=endpoint, methods=["POST"])
