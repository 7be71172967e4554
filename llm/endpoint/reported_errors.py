"""Errors that an endpoint reports in a reply of HTTP 200, as some proxies and local servers do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Names of kinds of errors, in codes and types; and the HTTP status that the server should have sent.
_STATUSES = (
    (429, re.compile(r"rate_?limit|quota|too_many")),
    (401, re.compile(r"api_?key|auth")),
    (503, re.compile(r"server|internal|overload|unavailable|timeout")),
)
_REFUSED = 400


class ReportedError(Exception):
    """An endpoint's own error; its text is the endpoint's message, which may quote a prompt.

    `body` is as OpenAI's protocol has it, `status_code` the HTTP status that the error has elsewhere, 400 to 599.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or body))
        self.body = {"error": body}
        self.status_code = _status_of(body)


def reported_error(error: BaseException) -> ReportedError | None:
    """Return the error in the reply on which a model's client failed; None if the reply has none."""
    if isinstance(error, ValueError) and error.args and isinstance(error.args[0], Mapping):
        return _error_in({"error": error.args[0]})  # LangChain raises the value that it found under `error`
    response: Any = getattr(error, "response", None)
    if getattr(response, "status_code", None) != 200:
        return None
    try:
        return _error_in(response.json())
    except (ValueError, RecursionError, RuntimeError):  # a web page, or a stream that was not fully read
        return None


def _error_in(body: object) -> ReportedError | None:
    """Return the error of a reply: an object or a text under `error`, or the whole reply as vLLM writes it."""
    if not isinstance(body, Mapping):
        return None
    found = body.get("error") or (body if body.get("object") == "error" else None)
    if isinstance(found, str):
        return ReportedError({"message": found})
    if isinstance(found, Mapping) and (found.get("message") or found.get("code")):
        return ReportedError(found)
    return None


def _status_of(body: Mapping[str, Any]) -> int:
    code = str(body.get("code"))
    if code.isdecimal() and 400 <= int(code) <= 599:
        return int(code)
    named = f"{code} {body.get('type')}".lower()
    return next((status for status, names in _STATUSES if names.search(named)), _REFUSED)
