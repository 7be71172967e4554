"""The MCP server over standard input and output, for a program that starts it (OPS-6)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.core.deadline import RequestExecutor
from recall_loop.service.mcp.mcp_server import make_mcp_server
from recall_loop.service.mcp.mcp_tools import ToolContext
from recall_loop.service.middleware.dependencies import Caller

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.scope import Scope
    from recall_loop.state.settings.settings import Settings

_THREADS = 4


def serve_stdio(store: MemoryStore, settings: Settings, scope: Scope, *, seconds: float) -> None:
    """Serve one client until it closes standard input; each call takes at most `seconds`.

    `scope` determines the memory that is read and written; no call can change it. A store that is open for
    reading only has no tools that write.
    """
    caller = Caller(scope.tenant, None, KeyRole.READ if store.read_only else KeyRole.ADMIN)
    context = ToolContext(store, settings, scope, caller)

    async def run() -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="recall-loop-mcp") as pool:
            server = make_mcp_server(lambda _: (caller, RequestExecutor(pool, seconds)), lambda _: context)
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())
