"""The FastAPI application: routes, the gate before them, and the store's life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from recall_loop.service import routes_status
from recall_loop.service.config import ServiceConfig
from recall_loop.service.gate import Gate
from recall_loop.service.problems import Problem, plain_problem, problem_of, problem_response
from recall_loop.service.running import Service
from recall_loop.service.validation import problem_of_validation
from recall_loop.state.errors import RecallError
from recall_loop.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from recall_loop.memory.store.embeddings import Embedder

ROUTERS = (routes_status.router,)


def create_app(
    config: ServiceConfig | None = None,
    *,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: BaseChatModel | None = None,
) -> FastAPI:
    """Return the application; the store is opened when it starts, and closed when it ends.

    Args:
        config: of the service; None = read from the environment now.
        settings: of the memory and the loop; None = read from the environment now.
        embedder: None = what the settings name.
        llm: any LangChain chat model; None = what the settings name, if any.

    Raises:
        InvalidInputError: a setting is not allowed.
    """
    service = Service(config or ServiceConfig(), settings or Settings.from_env(), embedder, llm)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.lifespan():
            yield

    app = FastAPI(
        title="Recall Loop",
        description="A memory for agents: search until there is enough new evidence, and say why it stopped.",
        version=version("recall-loop"),
        lifespan=lifespan,
        max_body_size=service.config.max_body_bytes,
        redoc_url=None,
    )
    app.state.service = service
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RecallError, _failed)
    app.add_middleware(Gate, service=service)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's own way to extend it
    return app


async def _invalid(request: Request, error: Exception) -> Response:
    return problem_response(problem_of_validation(request, error), request.state.request_id)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = error.headers if isinstance(error, HTTPException) else None
    return problem_response(plain_problem(status, headers), request.state.request_id)


async def _failed(request: Request, error: Exception) -> Response:
    return problem_response(problem_of(error), request.state.request_id)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own, which no route sends
            schemas.pop(unused, None)
        app.openapi_schema = schema
    return app.openapi_schema
