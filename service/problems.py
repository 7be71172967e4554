"""Errors as problem documents (RFC 9457): what went wrong, where, and what would have been accepted.

Every error of every route comes so, with the media type `application/problem+json`. `type` is a URN whose last part
names the kind of error; clients may rely on it, while titles and details are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from recall_loop.state.errors import (
    EmbedderError,
    InvalidInputError,
    RecallError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnsupportedOptionError,
)

MEDIA_TYPE = "application/problem+json"
URN = "urn:recall-loop:problem:"
RETRY_SECONDS = 5
_TITLES = {
    401: "A valid API key is needed",
    413: "The body is too long",
    429: "Too many requests",
    503: "Not available at the moment",
    504: "The request took too long",
}
_DETAILS = {
    404: "There is no such address.",
    405: "This address doesn't take that method.",
    413: "The body is longer than the service takes.",
    500: "The service failed. Its log has more under the request's id.",
}


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Kind of error, as a URN.", examples=[URN + "invalid_input"])
    title: str = Field(description="The kind of error in words.")
    status: int = Field(description="The response's status.")
    detail: str = Field(description="What went wrong with this request.")
    request_id: str | None = Field(None, description="The request's id, as in the header X-Request-Id and in the log.")
    field: str | None = Field(None, description="Dotted name of the field that is to blame.")
    value: str | None = Field(None, description="Its value, as given, shortened.")
    allowed: str | None = Field(None, description="What would have been accepted.")


class ProblemError(RecallError):
    """An error that says itself which problem document it becomes."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: str | None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or slug(status)
        self.headers = dict(headers or {})
        self.extra = {name: value for name, value in extra.items() if value is not None}


def slug(status: int) -> str:
    """Return the kind of error that a status stands for by itself."""
    return HTTPStatus(status).phrase.lower().replace(" ", "_").replace("-", "_")


def problem_of(error: Exception) -> ProblemError:
    """Return the problem that an exception becomes; an unknown one tells nothing of the service's inside."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, InvalidInputError):
        kind = "unsupported_option" if isinstance(error, UnsupportedOptionError) else "invalid_input"
        return ProblemError(422, str(error), kind=kind, field=error.field, value=error.value, allowed=error.allowed)
    if isinstance(error, StoreReadOnlyError):
        return ProblemError(403, "The service has opened this memory for reading only.", kind="read_only")
    if isinstance(error, StoreError | EmbedderError):
        return _unavailable(error)
    return ProblemError(500, _DETAILS[500], kind="internal")


def _unavailable(error: RecallError) -> ProblemError:
    unavailable = isinstance(error, StoreUnavailableError)
    detail = (
        "The memory can't be read or written at the moment. A write that got this answer is not acknowledged; "
        "repeating it is safe."
        if unavailable or isinstance(error, StoreError)
        else "The texts can't be embedded at the moment."
    )
    kind = "store_unavailable" if isinstance(error, StoreError) else "embedder_unavailable"
    return ProblemError(503, detail, kind=kind, headers={"Retry-After": str(RETRY_SECONDS)})


def document(problem: ProblemError, request_id: str | None) -> Problem:
    """Return the document of a problem."""
    return Problem(
        type=URN + problem.kind,
        title=_TITLES.get(problem.status, HTTPStatus(problem.status).phrase),
        status=problem.status,
        detail=problem.detail,
        request_id=request_id,
        **problem.extra,
    )


def problem_response(problem: ProblemError, request_id: str | None = None) -> Response:
    """Return a problem as a response."""
    body = document(problem, request_id).model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def plain_problem(status: int, headers: Mapping[str, str] | None = None, detail: str | None = None) -> ProblemError:
    """Return the problem that a bare status stands for."""
    words = detail or _DETAILS.get(status) or HTTPStatus(status).description or HTTPStatus(status).phrase
    return ProblemError(status, words, headers=headers)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route: what it may answer besides success."""
    return {status: _documented(status) for status in statuses}


def _documented(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": _TITLES.get(status, HTTPStatus(status).phrase),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in (429, 503):
        retry = {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
        found["headers"] = {"Retry-After": retry}
    return found
