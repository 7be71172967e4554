"""Recognise errors in tool results that their source doesn't mark: OpenAI's messages have no field for that.

Only forms that are conventions count, and only where a result begins with them: a log or a page that speaks of errors
is a result like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

_STATUS_LINES = "|".join(f"{status.value} {re.escape(status.phrase)}" for status in HTTPStatus if status >= 400)
_ERROR_START = re.compile(
    r"\s*(?:Traceback \(most recent call last\)"
    # `Error: …`, `ValueError: …`, `requests.exceptions.HTTPError: …`, `Error (429): …`; not `error: null`
    r"|(?:\w+\.)*(?:error|exception|(?-i:[A-Z]\w*(?:Error|Exception)))\b(?: ?[(\[][^)\]\n]{0,80}[)\]])?:"
    r"(?!\s*(?:none|null|nil|false|no|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?)\s*(?:$|\n))"
    # FastMCP, LangGraph's ToolNode; the agents of OpenAI's SDK
    r"|Error (?:executing|calling|invoking|running) |An error occurred while running the tool\b"
    rf"|(?:HTTP(?:/[\d.]+)? (?:status )?|error:? |status:? )?(?:{_STATUS_LINES})\b"
    r"|HTTP(?:/[\d.]+)? (?:status |error )?[45]\d\d\b"
    r"|(?:exit|exited with|returned) (?:code|status):? ?[1-9])",
    re.IGNORECASE,
)
_ERROR_NAME = re.compile(r'"(?:errors?|exception|is_?error|success|ok|status(?:_?code)?|detail)"\s*:', re.IGNORECASE)
_ERROR_STATUSES = range(400, 600)


def is_error_result(content: str) -> bool:
    """Return whether a tool's result reports an error: by its first line, or as a JSON object by its fields."""
    if _ERROR_START.match(content):
        return True
    if not content.lstrip().startswith("{") or not _ERROR_NAME.search(content):
        return False
    try:
        result = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(result, dict) and _is_error_object({str(name).lower(): value for name, value in result.items()})


def _is_error_object(result: Mapping[str, Any]) -> bool:
    # A number of errors is what a linter or a test reports, not a failure of the tool.
    named = [result[name] for name in ("error", "errors", "exception", "iserror", "is_error") if result.get(name)]
    codes = [result.get(name) for name in ("status", "statuscode", "status_code")]
    return (
        any(value is True or isinstance(value, str | list | dict) for value in named)
        or any(result.get(name) is False for name in ("success", "ok"))
        or result.get("status") in ("error", "fail")
        or any(type(code) is int and code in _ERROR_STATUSES for code in codes)
        or _ERROR_START.match(str(result.get("detail", ""))) is not None
    )
