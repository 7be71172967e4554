"""Failures of chat model calls, and how to handle them.

Errors are distinguished by langchain's own classes, by an HTTP status, and by the names of their classes: the model may
come from any vendor, and naming a class needs no import of its package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
    OutputParserException,
)
from pydantic import ValidationError

from recall_loop.llm.endpoint.reported_errors import ReportedError, reported_error

DETAIL_CHARACTERS = 200


class FailureReason(StrEnum):
    """Why an ask gave no value; the step then goes its deterministic way."""

    CALL_LIMIT = "call_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    CIRCUIT_OPEN = "circuit_open"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    TOO_LONG = "too_long"
    EMPTY = "empty"
    NOT_JSON = "not_json"
    INVALID = "invalid"
    UNSUPPORTED = "unsupported"
    ERROR = "error"

    @property
    def is_own_limit(self) -> bool:
        """Whether the caller's own limit was reached, as was asked for; anything else went wrong."""
        return self in (FailureReason.CALL_LIMIT, FailureReason.TOKEN_LIMIT, FailureReason.TIME_LIMIT)


@dataclass(frozen=True)
class Failure:
    """A reason and one short line about it, of at most 200 characters, never with words of a prompt or a reply."""

    reason: FailureReason
    detail: str


@dataclass(frozen=True)
class CallError:
    """A failure of one call, and how to proceed.

    `try_next_method`: another form of the same question may do better; `retry`: the same call may succeed later, after
    `retry_after` seconds if the server gave them. The server refuses `parameter`. `alive`: it did answer, so nothing is
    wrong with the connection to it; `unreadable`: the model's client didn't understand the reply.
    """

    failure: Failure
    try_next_method: bool = False
    retry: bool = False
    retry_after: float | None = None
    parameter: str | None = None
    alive: bool = False
    unreadable: bool = False

    @property
    def reason(self) -> FailureReason:
        """The failure's reason."""
        return self.failure.reason


_RETRYABLE_REASONS = frozenset({FailureReason.CONNECTION, FailureReason.RATE_LIMITED, FailureReason.SERVER_ERROR})
# Reasons for not calling the endpoint for a while, once the retries are used up.
CIRCUIT_OPENING_REASONS = _RETRYABLE_REASONS | {FailureReason.TIMEOUT, FailureReason.AUTHENTICATION}
_FALLBACK_REASONS = frozenset(
    {
        FailureReason.BAD_REQUEST,
        FailureReason.EMPTY,
        FailureReason.NOT_JSON,
        FailureReason.INVALID,
        FailureReason.UNSUPPORTED,
    }
)
_BY_CLASS: tuple[tuple[tuple[type[Exception], ...], FailureReason], ...] = (
    ((TimeoutError, ModelTimeoutError), FailureReason.TIMEOUT),
    ((ModelAuthenticationError, ModelPermissionDeniedError), FailureReason.AUTHENTICATION),
    ((ModelRateLimitError,), FailureReason.RATE_LIMITED),
    ((ModelAPIError,), FailureReason.SERVER_ERROR),
    ((ModelConnectionError, ConnectionError), FailureReason.CONNECTION),
    ((ModelInvalidRequestError, ModelNotFoundError), FailureReason.BAD_REQUEST),
    ((NotImplementedError,), FailureReason.UNSUPPORTED),
    # Recursion in a model's call comes from a parser, on a reply with thousands of brackets.
    ((RecursionError, OutputParserException), FailureReason.NOT_JSON),
    ((ValidationError,), FailureReason.INVALID),
)
# Classes of openai, httpx and other vendors, by name; the first match wins.
_BY_NAME = {
    "LengthFinishReasonError": FailureReason.TRUNCATED,
    "ContentFilterFinishReasonError": FailureReason.REFUSED,
    "OpenAIRefusalError": FailureReason.REFUSED,
    "APITimeoutError": FailureReason.TIMEOUT,
    "TimeoutException": FailureReason.TIMEOUT,
    "APIConnectionError": FailureReason.CONNECTION,
    "TransportError": FailureReason.CONNECTION,
}
# Errors that clients raise on replies in another format than their own.
_FORM_ERRORS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
# Class names are for telemetry; readers of warnings don't know them.
_WORDS = {
    FailureReason.TIMEOUT: "no reply in time",
    FailureReason.CONNECTION: "no connection to the endpoint, or one that broke off",
    FailureReason.RATE_LIMITED: "too many requests",
    FailureReason.AUTHENTICATION: "the endpoint rejected the key",
    FailureReason.BAD_REQUEST: "the endpoint rejected the request",
    FailureReason.SERVER_ERROR: "the endpoint reported an internal error",
    FailureReason.REFUSED: "the model refused",
    FailureReason.TRUNCATED: "the reply was cut off at its limit",
    FailureReason.NOT_JSON: "the reply holds no valid JSON",
    FailureReason.INVALID: "the reply doesn't match the schema",
    FailureReason.UNSUPPORTED: "the model doesn't support the output method",
    FailureReason.ERROR: "the model's client failed",
}
_TOO_LONG = re.compile(r"context.{0,20}(length|window)|too (long|large|many tokens)|maximum context|exceeds? .*context")
_FILTERED = re.compile(r"content_filter|content_policy|moderation")
_KEY = re.compile(r"api[_ -]?key|unauthenticated|unauthorized")
_PLAIN = re.compile(r"[\w.\[\]-]{1,60}")


def call_error(reason: FailureReason, detail: str, *, alive: bool = False) -> CallError:
    """Return what follows from a reason alone."""
    failure = Failure(reason, detail[:DETAIL_CHARACTERS])
    return CallError(
        failure, try_next_method=reason in _FALLBACK_REASONS, retry=reason in _RETRYABLE_REASONS, alive=alive
    )


def unclassified_error(error: Exception) -> CallError:
    """Return the error for anything unknown, or an error whose own text raises, by the error's class alone."""
    if issubclass(type(error), RecursionError):
        return call_error(FailureReason.NOT_JSON, "the reply is nested too deeply", alive=True)
    return call_error(FailureReason.ERROR, "the reply can't be read")


def classify_error(error: BaseException, form: str = "the form that is expected") -> CallError:
    """Classify an error of a model's call, whose message is never passed on; `form` is the form of a readable reply."""
    error = reported_error(error) or error
    if isinstance(error, ContextOverflowError):
        failure = Failure(FailureReason.BAD_REQUEST, "the prompt is longer than the model's context")
        return CallError(failure, alive=True)
    named = _named(error)
    if named in (FailureReason.TRUNCATED, FailureReason.REFUSED):
        return call_error(named, _WORDS[named], alive=True)
    if (status := _status(error)) is not None:
        return _of_status(error, status)
    reason = next((reason for kinds, reason in _BY_CLASS if isinstance(error, kinds)), named)
    if reason is None and "APIError" in class_names(error):
        # An error event in the middle of a stream: openai raises its base class, without a status.
        reason = FailureReason.SERVER_ERROR
    if reason is None and isinstance(error, _FORM_ERRORS):
        return _of_form(error, form)
    reason = reason or FailureReason.ERROR
    return call_error(reason, _WORDS[reason], alive=reason in (FailureReason.NOT_JSON, FailureReason.INVALID))


def _of_form(error: Exception, form: str) -> CallError:
    """Classify a client's error on a reply."""
    # LangChain indexes an empty list of choices, or finds none.
    none = isinstance(error, IndexError) or (isinstance(error, KeyError | TypeError) and "choices" in str(error))
    if none:
        return replace(call_error(FailureReason.EMPTY, "the reply has no choices", alive=True), unreadable=True)
    return replace(call_error(FailureReason.ERROR, f"the endpoint's reply isn't in {form}"), unreadable=True)


def _of_status(error: BaseException, status: int) -> CallError:
    """Classify an HTTP status of 400 or more, or an error that should have had it."""
    code, parameter = _field(error, "code"), _field(error, "param")
    head = "an error in a reply of HTTP 200" if isinstance(error, ReportedError) else f"HTTP {status}"
    words = [head, *(f"{n} {v}" for n, v in (("code", code), ("param", parameter)) if _is_plain(v))]
    detail = ", ".join(words)
    if status in (401, 403):
        return call_error(FailureReason.AUTHENTICATION, detail, alive=True)
    if status == 429:
        # An exhausted quota doesn't recover within a request.
        later = replace(call_error(FailureReason.RATE_LIMITED, detail), retry=code != "insufficient_quota")
        return replace(later, retry_after=_retry_after(error))
    if status in (408, 409) or (status >= 500 and status != 501):
        return replace(call_error(FailureReason.SERVER_ERROR, detail), retry_after=_retry_after(error))
    return _of_refusal(f"{code} {error}".lower(), status, detail, parameter)


def _of_refusal(said: str, status: int, detail: str, parameter: str | None) -> CallError:
    """Classify a 400 or similar status: the format, the key, the content or the length."""
    if _FILTERED.search(said):
        return call_error(FailureReason.REFUSED, detail, alive=True)
    if _KEY.search(said):
        return call_error(FailureReason.AUTHENTICATION, detail, alive=True)
    failure = Failure(FailureReason.BAD_REQUEST, detail[:DETAIL_CHARACTERS])
    too_long = status == 413 or _TOO_LONG.search(said) is not None
    return CallError(failure, try_next_method=not too_long, parameter=parameter, alive=True)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, or the one that an error event of a stream names as its code."""
    response = getattr(error, "response", None)
    for found in (getattr(error, "status_code", None), getattr(response, "status_code", None), _field(error, "code")):
        if str(found).isdecimal() and 400 <= int(str(found)) <= 599:
            return int(str(found))
    return None


def _field(error: BaseException, name: str) -> str | None:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    found = getattr(error, name, None) or (inner.get(name) if isinstance(inner, Mapping) else None)
    return None if found is None else str(found)


def _is_plain(value: str | None) -> bool:
    return value is not None and _PLAIN.fullmatch(value) is not None


def _named(error: BaseException) -> FailureReason | None:
    kinds = class_names(error)
    return next((reason for name, reason in _BY_NAME.items() if name in kinds), None)


def class_names(value: object) -> list[str]:
    """Return the names of a value's class and its bases, nearest first; no package need be imported for that."""
    return [kind.__name__ for kind in type(value).__mro__]


def _retry_after(error: BaseException) -> float | None:
    """Return the seconds that the server asks to wait, from a number or an HTTP date; None if it doesn't say."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    said = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if not isinstance(said, str):
        return None
    with suppress(ValueError):
        return max(0.0, float(said))
    with suppress(ValueError, OverflowError):
        moment = parsedate_to_datetime(said)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None
