"""Calls of tools in the shapes of several frameworks, read into one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import JsonValue

from recall_loop.memory.trajectories.capture.to_json import clean_text, to_json_object, to_json_value
from recall_loop.memory.trajectories.capture.values import to_error, to_text

UNNAMED = "(unnamed)"


class FieldReader(Protocol):
    """Fields that can be taken by name."""

    def take(self, *names: str) -> Any:
        """Remove and return the first of `names` that has a value."""

    def nested(self, name: str) -> Mapping[str, Any]:
        """Return a field that holds further fields."""

    def remaining(self) -> dict[str, Any]:
        """Return what is left."""


@dataclass(slots=True)
class RawCall:
    """One call as its source gave it; not masked yet."""

    name: str
    arguments: dict[str, JsonValue] | str = field(default_factory=dict)
    id: str | None = None
    error: str | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


def take_calls(fields: FieldReader) -> list[RawCall]:
    """Take the calls out of a message's fields.

    LangChain repeats the raw calls under `additional_kwargs`; they are read only where there are no others.
    """
    given = _as_list(fields.take("tool_calls"))
    if not fields.remaining():
        return [_call(call) for call in given]
    given += _as_list(fields.take("invalid_tool_calls"))
    single = fields.take("function_call")
    if isinstance(single, Mapping):
        given.append(single)
    if not given:
        given = _as_list(fields.nested("additional_kwargs").get("tool_calls"))
    return [_call(call) for call in given]


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    return [value] if value else []


def _call(given: Any) -> RawCall:
    if not isinstance(given, Mapping):
        own = {name: getattr(given, name, None) for name in ("name", "arguments", "args", "input", "id", "function")}
        found = {name: value for name, value in own.items() if value is not None}
        given = found or {"name": UNNAMED, "value": given}
    left = dict(given)
    function = left.pop("function", None)
    if isinstance(function, Mapping):
        left = {**function, **{key: value for key, value in left.items() if value is not None}}
    elif function is not None and "name" not in left:
        left |= {"name": getattr(function, "name", function), "arguments": getattr(function, "arguments", {})}
    if left.get("type") in ("function", "tool_call", "tool_use", "invalid_tool_call"):
        left.pop("type")
    name = to_text(left.pop("name", None)) or UNNAMED
    arguments = _arguments(_first(left, "arguments", "args", "input"))
    call_id, error = to_text(left.pop("id", None)), to_error(left.pop("error", None))
    return RawCall(name, arguments, call_id, error, to_json_object(left))


def _first(fields: dict[str, Any], *names: str) -> Any:
    for name in names:
        if fields.get(name) is not None:
            return fields.pop(name)
    return {}


def _arguments(given: Any) -> dict[str, JsonValue] | str:
    """Return arguments as a JSON object where they are one or spell one, else as text."""
    if isinstance(given, str):
        if not given.strip():
            return {}
        try:
            read = json.loads(given)
        except (ValueError, RecursionError):
            return clean_text(given)
        if not isinstance(read, dict):
            return clean_text(given)
        given = read
    value = to_json_value(given)
    return value if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
