"""Problem documents (RFC 9457) for every error, and JSON responses."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from recall_loop.service.core.deadline import RequestTimeoutError
from recall_loop.state.errors import (
    EmbedderError,
    InvalidInputError,
    RecallError,
    StoreError,
    StoreReadOnlyError,
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
    400: "The body can't be read as JSON in UTF-8.",
    408: "The body didn't arrive in time.",
    404: "There is no such address.",
    405: "This address doesn't support that method.",
    413: "The body is longer than the service allows.",
    500: "The service failed. Its log has details under the request's id.",
}
# In order: the first match wins.
_KNOWN_ERRORS: tuple[tuple[type[RecallError], int, str, str], ...] = (
    (
        RequestTimeoutError,
        504,
        "gateway_timeout",
        "The request exceeded its time limit. A write may still complete; repeating it with the same ids is safe.",
    ),
    (StoreReadOnlyError, 403, "read_only", "The service has opened this memory read-only."),
    (
        StoreError,
        503,
        "store_unavailable",
        "The memory can't be read or written at the moment. A write is not acknowledged; "
        "repeating it with the same ids is safe.",
    ),
    (EmbedderError, 503, "embedder_unavailable", "Texts can't be embedded at the moment."),
)
_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Kind of error, as a URN.", examples=[URN + "invalid_input"])
    title: str = Field(description="The kind of error in words.")
    status: int = Field(description="The response's status.")
    detail: str = Field(description="What went wrong with this request.")
    request_id: str | None = Field(None, description="The request's id, as in the header X-Request-Id and in the log.")
    field: str | None = Field(None, description="Dotted name of the invalid field.")
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
        retry_after: int | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or problem_kind(status)
        self.headers = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": str(retry_after)})
        self.extra = {name: value for name, value in extra.items() if value is not None}


def problem_kind(status: int) -> str:
    """Return the kind of error that a status alone stands for."""
    # Python's own names for these have changed between versions.
    names = {413: "content_too_large", 422: "unprocessable_content"}
    return names.get(status) or _phrase(status).lower().replace(" ", "_").replace("-", "_")


def _phrase(status: int) -> str:
    known = HTTPStatus.__members__.values()
    return next((one.phrase for one in known if one == status), "Error")


def problem_from_error(error: BaseException) -> ProblemError:
    """Return the problem that an exception becomes; an unknown one reveals no internals."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, HTTPException):
        return problem_from_status(error.status_code, error.headers)
    if isinstance(error, InvalidInputError):
        kind = "unsupported_option" if isinstance(error, UnsupportedOptionError) else "invalid_input"
        return ProblemError(422, str(error), kind=kind, field=error.field, value=error.value, allowed=error.allowed)
    for known, status, kind, detail in _KNOWN_ERRORS:
        if isinstance(error, known):
            return ProblemError(status, detail, kind=kind, retry_after=RETRY_SECONDS if status == 503 else None)
    return ProblemError(500, _DETAILS[500], kind="internal")


def logged_problem(error: BaseException, request_id: str) -> ProblemError:
    """Return the problem that an exception becomes, and log one that the service is to blame for."""
    problem = problem_from_error(error)
    if problem.status == 500:
        _log.error("request %s failed", request_id, exc_info=error)
    elif problem.status > 500:
        cause = error.__cause__ if isinstance(error, ProblemError) and error.__cause__ else error
        words = cause.told if isinstance(cause, RecallError) else ""  # texts of other libraries may quote users
        fields = {"status": problem.status, "error_type": type(cause).__name__}
        _log.warning("request %s failed: %s", request_id, f"{type(cause).__name__}: {words}", extra=fields)
    return problem


def problem_document(problem: ProblemError, request_id: str | None) -> Problem:
    """Return the document of a problem."""
    extra = {name: _utf8_safe(value) if isinstance(value, str) else value for name, value in problem.extra.items()}
    return Problem(
        type=URN + problem.kind,
        title=_TITLES.get(problem.status) or _phrase(problem.status),
        status=problem.status,
        detail=_utf8_safe(problem.detail),
        request_id=request_id,
        **extra,
    )


def _utf8_safe(text: str) -> str:
    """Return `text` as UTF-8 can hold it: the name of a field may have lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def problem_response(problem: ProblemError, request_id: str | None = None) -> Response:
    """Return a problem as a response."""
    body = problem_document(problem, request_id).model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def problem_from_status(status: int, headers: Mapping[str, str] | None = None) -> ProblemError:
    """Return the problem that a bare status stands for."""
    return ProblemError(status, _DETAILS.get(status) or _phrase(status), headers=headers)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route: its answers besides success and those of every route."""
    return {status: openapi_problem(status) for status in statuses}


def openapi_problem(status: int) -> dict[str, Any]:
    """Return what OpenAPI says about an error."""
    found: dict[str, Any] = {
        "description": _TITLES.get(status) or _phrase(status),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in (408, 429, 503):
        retry = {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
        found["headers"] = {"Retry-After": retry}
    return found


def json_response(content: BaseModel | Mapping[str, Any], status: int = 200, *, nulls: bool = False) -> Response:
    """Return a model, without its empty fields unless `nulls`, or plain JSON as a response."""
    if isinstance(content, BaseModel):
        body = content.model_dump_json(exclude_none=not nulls)
    else:
        body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


def not_found_problem(what: str, record_id: str) -> ProblemError:
    """Return the problem for a missing thing; another tenant's gets the same answer."""
    return ProblemError(404, f"There is no {what} with this id.", field="id", value=record_id[:200])
