"""The OpenAPI document: what every route may answer besides success, and how to show a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from recall_loop.service.core.problems import Problem, openapi_problem
from recall_loop.service.core.public_paths import OPEN_PATHS

if TYPE_CHECKING:
    from fastapi import FastAPI

_SCHEME = "apiKey"
_ALWAYS = (500, 503, 504)
_GUARDED = (401, 403, 429)
_WITH_BODY = (400, 408, 413, 415, 422)
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
            for operation in methods.values():
                _complete(operation, guarded=path not in OPEN_PATHS)
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(operation: dict[str, Any], *, guarded: bool) -> None:
    """Add the answers of the middleware and of request validation, and the key."""
    statuses = [*_ALWAYS, *(_GUARDED if guarded else ()), *(_WITH_BODY if "requestBody" in operation else ())]
    answers = operation["responses"]
    if "422" in answers:  # FastAPI's own words for it are replaced
        answers["422"] = openapi_problem(422)
    for status in statuses:
        answers.setdefault(str(status), openapi_problem(status))
    if guarded:
        operation["security"] = [{_SCHEME: []}, {}]
