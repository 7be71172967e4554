"""Answers made where the blocking work is done, so that a long one doesn't hold up the event loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.responses import Response

from recall_loop.service.core.problems import ProblemError
from recall_loop.state.errors import InvalidInputError


def json_response(content: BaseModel | Mapping[str, Any], status: int = 200, *, nulls: bool = False) -> Response:
    """Return a model, without its empty fields unless `nulls`, or plain JSON as a response."""
    if isinstance(content, BaseModel):
        body = content.model_dump_json(exclude_none=not nulls)
    else:
        body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


def not_found_problem(what: str, record_id: str) -> ProblemError:
    """Return the problem that there is no such thing; another tenant's is answered alike."""
    return ProblemError(404, f"There is no {what} with this id.", field="id", value=record_id[:200])


def _reject_query_params(request: Request) -> None:
    name = next(iter(request.query_params), None)
    if name is not None:
        raise InvalidInputError(name, request.query_params[name], "no such parameter: this address takes none")


# For `dependencies=[…]` of routes without query parameters: nothing is accepted and ignored (SEARCH-2).
NoQueryParams = Depends(_reject_query_params)
