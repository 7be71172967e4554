"""A chat message as the fields of a record, the same on every way in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recall_loop.memory.parsing.chat_messages import TIMES, SourceMessage, message_fields, parse_message
from recall_loop.memory.parsing.foreign_json import clean_text, to_datetime
from recall_loop.state.errors import InvalidInputError

# Fields of messages as mappings: what is read, and what else LangChain and chat APIs have.
_READ = (
    *("role", "content", "name", "author", "language", *TIMES, "id", "type", "tool_calls", "invalid_tool_calls"),
    *("function_call", "tool_call_id", "error", "is_error", "status", "step_id", "step", "model", "model_name"),
    *("stop_reason", "finish_reason", "usage", "usage_metadata", "response_metadata", "additional_kwargs", "role_type"),
)
_PASSED_OVER = (
    *("metadata", "artifact", "tool_call_chunks", "chunk_position", "example", "refusal", "audio", "annotations"),
    *("parsed", "reasoning", "reasoning_content", "reasoning_details", "thinking", "phase", "weight", "prefix"),
    *("stop_sequence", "container", "context_management", "cache_control", "images", "tool_name", "tool_plan"),
    *("citations", "uuid", "token_count"),
)
_FIELDS = (*_READ, *_PASSED_OVER)
# What of a message comes to stand in its record as text.
_KEPT = ("content", "role", "name", "author", "id", "tool_calls", "invalid_tool_calls", "function_call")
_MAX_DEPTH = 60  # as deep as foreign JSON is read


def parse_known_message(given: object, where: str) -> list[SourceMessage]:
    """Read one message as `parse_message` does, for a record or a request, which have no place for unknown fields.

    Raises:
        InvalidInputError: it is no message, or a mapping with a field that no message has, such as a misspelt one.
    """
    check_known_fields(given, where)
    return parse_message(given, where)


def check_known_fields(given: object, where: str) -> None:
    """Check that a message, if it is a mapping, has no field that no message has.

    Raises:
        InvalidInputError: names the field and those that there are.
    """
    if isinstance(given, Mapping):
        for name, value in message_fields(given, where).items():
            if name not in _FIELDS:
                raise InvalidInputError(f"{where}.{name}", value, f"fields of a message: {', '.join(_FIELDS)}")


def message_record_fields(message: SourceMessage, part: int) -> dict[str, Any]:
    """Return a message's fields as those of a record; its author is who it names, else a role that nobody knows."""
    author = message.name or message.extra.get("author") or message.speaker
    fields: dict[str, Any] = {"kind": "message", "text": message.content, "role": message.role}
    if message.id is not None:
        fields["id"] = message.id if part == 0 else f"{message.id}-{part}"
    if author is not None:
        fields["author"] = author
    if message.extra.get("language") is not None:
        fields["language"] = message.extra["language"]
    if (moment := stated_time(message)) is not None:
        fields["created_at"] = moment
    if message.calls:
        fields["attributes"] = {"tool_calls": [{"name": one.name, "arguments": one.arguments} for one in message.calls]}
    return fields


def stated_time(message: SourceMessage) -> object:
    """Return when a message says that it was written; what is no time is for the store to reject."""
    if message.timestamp is not None:
        return message.timestamp
    kwargs = message.extra.get("additional_kwargs")
    own = time_among(message.extra)
    return own if own is not None else time_among(kwargs if isinstance(kwargs, dict) else {})


def time_among(fields: Mapping[str, Any]) -> object:
    """Return the time among a message's further fields, under whatever name: as given where it can't be read."""
    given = next((fields[name] for name in TIMES if fields.get(name) is not None), None)
    return to_datetime(given) or given


def with_text_as_given(fields: dict[str, Any], given: object, where: str) -> dict[str, Any]:
    """Return a record's fields with the characters that no store can hold and that parsing has replaced in a message.

    The store then refuses them, as it does in a record (API-2).

    Raises:
        InvalidInputError: `given` is no message.
    """
    source = message_fields(given, where)
    texts = (text for name in _KEPT for text in _texts(source.get(name)))
    unfit = {cleaned: text for text in texts if (cleaned := clean_text(text)) != text}
    return {name: _restored(value, unfit) for name, value in fields.items()} if unfit else fields


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield all texts of a value, names in mappings included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple) and depth < _MAX_DEPTH:
        for item in [*value, *value.values()] if isinstance(value, Mapping) else value:
            yield from _texts(item, depth + 1)


def _restored(value: Any, unfit: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for cleaned, raw in unfit.items():
            value = value.replace(cleaned, raw)
        return value
    if isinstance(value, dict):
        return {_restored(name, unfit): _restored(item, unfit) for name, item in value.items()}
    return [_restored(item, unfit) for item in value] if isinstance(value, list) else value
