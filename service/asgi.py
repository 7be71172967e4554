"""`recall_loop.service.asgi:app`: the service inside LangGraph's own server, as `langgraph.json` names it.

That server adds its routes and its middleware to the application it is given, and ours would then guard and limit the
routes of Studio too. So it gets a wrapper that hands our addresses on to the service, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from recall_loop.service.core.id_paths import ID_CONVERTOR

if TYPE_CHECKING:
    from fastapi import FastAPI

# /metrics and /openapi.json belong to that server; the latter includes our routes.
_PATHS = (f"/api/{{path:{ID_CONVERTOR}}}", "/health", "/ready")


def make_wrapper_app(service: FastAPI) -> FastAPI:
    """Return an application that has the service's addresses and its life."""
    from fastapi import FastAPI
    from starlette.routing import Route

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.router.lifespan_context(service):
            yield

    wrapper = FastAPI(
        title=service.title,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"logs": service.state.service.settings.trace_content},
    )
    wrapper.router.routes.extend(Route(path, service, include_in_schema=False) for path in _PATHS)
    wrapper.openapi = service.openapi  # type: ignore[method-assign]  # FastAPI's own way to replace it
    return wrapper


def __getattr__(name: str) -> object:
    """Make the application from the environment, once (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recall_loop.service.app import create_app

    globals()["app"] = application = make_wrapper_app(create_app())
    return application
