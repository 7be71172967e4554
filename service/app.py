"""The FastAPI application and its OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.service.core.config import OPEN_PATHS, ServiceConfig, has_mcp
from recall_loop.service.core.problems import (
    Problem,
    logged_problem,
    openapi_problem,
    problem_response,
)
from recall_loop.service.middleware.request_middleware import MCP_PATH, BodyLimitMiddleware, RequestMiddleware
from recall_loop.service.middleware.request_validation import problem_from_validation
from recall_loop.service.process.lifecycle import Service
from recall_loop.service.routes import (
    routes_bulk,
    routes_erasure,
    routes_memory,
    routes_page,
    routes_records,
    routes_retrieve,
    routes_search,
    routes_status,
    routes_trajectories,
)
from recall_loop.state.errors import RecallError
from recall_loop.state.settings.settings import Settings

_SCHEME = "apiKey"
_ALWAYS = (400, 500, 503, 504)
_GUARDED = (401, 403, 429)
_WITH_BODY = (408, 413, 415, 422)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_UNUSED = ("HTTPValidationError", "ValidationError")  # FastAPI's own, which no route sends


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        parts = schema.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        parts["securitySchemes"] = {
            _SCHEME: {"type": "http", "scheme": "bearer", "description": "A key that `recall-loop keys add` has made."}
        }
        for unused in _UNUSED:
            parts["schemas"].pop(unused, None)
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                _complete(operation, guarded=path not in OPEN_PATHS, conditions=method != "get")
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(operation: dict[str, Any], *, guarded: bool, conditions: bool) -> None:
    """Add the answers of the middleware and of request validation, and the key."""
    with_body = _WITH_BODY if "requestBody" in operation else ()
    statuses = [*_ALWAYS, *(_GUARDED if guarded else ()), *with_body, *((412,) if conditions else ())]
    answers = operation["responses"]
    if "422" in answers:  # replaces FastAPI's own wording
        answers["422"] = openapi_problem(422)
    for status in statuses:
        answers.setdefault(str(status), openapi_problem(status))
    if guarded:
        operation["security"] = [{_SCHEME: []}, {}]


ROUTERS = (
    routes_status.router,
    routes_retrieve.router,
    routes_search.router,
    routes_memory.router,
    routes_records.router,
    routes_trajectories.router,
    routes_erasure.router,
    routes_page.router,
)


def create_app(
    config: ServiceConfig | None = None,
    *,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: ChatModel | str | None = None,
) -> FastAPI:
    """Return the application; the store is opened when it starts, and closed when it ends.

    Args:
        config: of the service; None = read from the environment now.
        settings: of the memory and the loop; None = read from the environment now.
        embedder: None = the one that the settings name.
        llm: any LangChain chat model, also with fallbacks or bound arguments, or its name as "provider:model"; None =
            the one that the settings name, if any.

    Raises:
        InvalidInputError: a setting is not allowed, or `llm` is no chat model.
    """
    check_bindings(None, llm)
    service = Service(config or ServiceConfig(), settings or Settings.from_env(), embedder, llm)
    app = FastAPI(
        title="Recall Loop",
        description="A memory for agents: search until there is enough new evidence, and say why it stopped.",
        version=version("recall-loop"),
        lifespan=_lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,  # generated clients derive function names from them
        telemetry={"logs": service.settings.trace_content},  # they contain exception texts
    )
    app.state.service = service
    for handled in (RequestValidationError, HTTPException, RecallError):
        app.add_exception_handler(handled, _handle_error)
    app.add_middleware(BodyLimitMiddleware, config=service.config)
    # The outermost: turns rejections of the others into problem documents.
    app.add_middleware(RequestMiddleware, service=service)
    _add_routes(app, service)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]  # FastAPI's own way to extend it
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    mcp = app.state.mcp
    async with app.state.service.lifespan(), mcp.lifespan() if mcp else nullcontext():
        yield


def _add_routes(app: FastAPI, service: Service) -> None:
    """Add every route, and the MCP server if its SDK is installed."""
    for router in ROUTERS:
        app.include_router(router)
    app.state.mcp = None
    if has_mcp():
        from recall_loop.service.mcp.mcp_http import McpEndpoint, mcp_route

        app.state.mcp = McpEndpoint(service)
        app.router.routes.append(mcp_route(app.state.mcp, MCP_PATH))
    app.include_router(routes_bulk.router)


async def _handle_error(request: Request, error: Exception) -> Response:
    request_id = request.state.request_id
    if isinstance(error, RequestValidationError):
        return problem_response(problem_from_validation(request, error), request_id)
    problem = logged_problem(error, request_id)
    if problem.status == 405:  # If several routes share an address, the router names only the first one's methods
        problem.headers = {**problem.headers, "Allow": ", ".join(_allowed_methods(request))}
    return problem_response(problem, request_id)


def _allowed_methods(request: Request) -> list[str]:
    routes = request.app.routes
    methods = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ["GET", "HEAD", *methods[1:]] if "GET" in methods else methods
