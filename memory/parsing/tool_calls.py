"""Calls of tools in the shapes of several frameworks, read into one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from recall_loop.memory.parsing.foreign_json import (
    attribute,
    clean_text,
    to_error,
    to_json_object,
    to_json_value,
    to_text,
)

UNNAMED = "(unnamed)"
# In the order in which they count: a call of OpenAI's Responses API has an `id` of its own, that no result refers to.
CALL_ID = ("call_id", "tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "id")
_KINDS = ("function", "function_call", "tool_call", "tool-call", "tool_use", "invalid_tool_call")
_NAME, _ARGUMENTS = ("name", "tool_name", "toolName"), ("arguments", "args", "input")


@dataclass(slots=True)
class MessageFields:
    """A message's fields; those that were taken are no longer among the remaining ones."""

    remaining: dict[str, Any]

    def take(self, *names: str) -> Any:
        """Remove and return the first of `names` that has a value; None where none has."""
        for name in names:
            if self.remaining.get(name) is not None:
                return self.remaining.pop(name)
        return None

    def nested(self, name: str) -> Mapping[str, Any]:
        """Return a field that holds further fields, without taking it; empty where there is none."""
        value = self.remaining.get(name)
        return value if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class RawCall:
    """One call as its source gave it; not masked yet."""

    name: str
    arguments: dict[str, JsonValue] | str = field(default_factory=dict)
    id: str | None = None
    error: str | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


def take_calls(fields: MessageFields) -> list[RawCall]:
    """Take the calls out of a message's fields.

    LangChain repeats the raw calls under `additional_kwargs`; they are read only where there are no others.
    """
    given = [*_as_list(fields.take("tool_calls")), *_as_list(fields.take("invalid_tool_calls"))]
    single = fields.take("function_call")
    if isinstance(single, Mapping):
        given.append(single)
    return [_call(call) for call in given or _as_list(fields.nested("additional_kwargs").get("tool_calls"))]


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    return [value] if value else []


def _call(given: Any) -> RawCall:
    if not isinstance(given, Mapping):
        names = (*_NAME, *_ARGUMENTS, *CALL_ID, "function")
        values = {name: attribute(given, name) for name in names}
        known = {name: value for name, value in values.items() if value is not None}
        given = known or {"name": UNNAMED, "value": given}
    fields = dict(given)
    function = fields.pop("function", None)
    if isinstance(function, Mapping):
        fields = {**function, **{key: value for key, value in fields.items() if value is not None}}
    elif function is not None and "name" not in fields:
        fields |= {"name": attribute(function, "name", function), "arguments": attribute(function, "arguments", {})}
    if fields.get("type") in _KINDS:
        fields.pop("type")
    take = MessageFields(fields).take
    name, arguments = to_text(take(*_NAME)) or UNNAMED, _arguments(take(*_ARGUMENTS))
    return RawCall(name, arguments, to_text(take(*CALL_ID)), to_error(take("error")), to_json_object(fields))


def _arguments(given: Any) -> dict[str, JsonValue] | str:
    """Return arguments as a JSON object where they are one or spell one, else as text."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}
    if isinstance(given, str):
        try:
            parsed = json.loads(given)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            return clean_text(given)
        given = parsed
    value = to_json_value(given)
    return value if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
