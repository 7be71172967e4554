"""A chat message as the fields of a record, the same on every way in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from recall_loop.memory.parsing.chat_messages import CONTENT, TIMES, SourceMessage, message_fields, parse_message
from recall_loop.memory.parsing.foreign_json import clean_text, to_datetime, to_text
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.schemas.schema_words import nearest_name
from recall_loop.state.types import Role

# Fields that are read of a message as a mapping; any other is an application's or a provider's own.
READ = ("role", "content", "name", "author", "language", *TIMES, "id", "tool_calls", "tool_call_id", "function_call")
# The speaker is given by `role` and `name`, and the owner by the `user_id` of the call.
_MISTAKEN = "user"
# Minimum similarity of a misspelt field to a known field of messages.
_SURELY = 0.9
# Numbers that aren't times, under names that have other meanings: a latency in seconds, a count.
_LEAST_EPOCH = 1e8
_TIMES_BY_NAME = ("timestamp", "created_at")
# What of a message comes to stand in its record as text.
_KEPT = (*CONTENT, "role", "name", "author", "id", "tool_calls", "invalid_tool_calls", "function_call")
# Where the speaker is an object, as Discord's is.
_NAMES = ("nickname", "global_name", "display_name", "displayName", "name", "username")
_MAX_DEPTH = 60  # as deep as foreign JSON is read


def parse_known_message(given: object, where: str, also: Collection[str] = ()) -> list[SourceMessage]:
    """Read one message as `parse_message` does, for a record or a request, which would lose a misspelt field.

    Raises as `parse_message`, and as `check_known_fields`.
    """
    check_known_fields(given, where, also)
    return parse_message(given, where)


def check_known_fields(given: object, where: str, also: Collection[str] = ()) -> None:
    """Raise `InvalidInputError` where a message is a mapping with a misspelt one of the fields that are read.

    So it does where a user's or a system's message says something only under a name that nobody reads. An assistant's
    may have no content: a call, a refusal, thoughts.

    `where` is the message's place, `also` are further fields that the caller reads.
    """
    if not isinstance(given, Mapping):
        return
    fields, read = message_fields(given, where), (*READ, *also)
    stated = {*fields, *(CONTENT if not fields.keys().isdisjoint(CONTENT) else ())}
    absent = [name for name in read if name not in stated]
    for name, value in fields.items():
        near = name == _MISTAKEN or nearest_name(str(name), absent) or nearest_name(str(name), read, _SURELY)
        if name not in (*read, *CONTENT) and near:
            raise InvalidInputError(f"{where}.{name}", value, f"fields of a message: {', '.join(read)}")
    if fields.keys().isdisjoint(CONTENT) and any(_loses_text(one, read) for one in parse_message(given, where)):
        allowed = f"what the message says, under the name {', '.join(CONTENT[:-1])} or {CONTENT[-1]}"
        raise InvalidInputError(f"{where}.{CONTENT[0]}", given, allowed)


def _loses_text(message: SourceMessage, read: Collection[str]) -> bool:
    """Return whether nothing is read of a message that people write, but it has text under a name of its own."""
    if message.content or message.calls or message.role not in (Role.USER, Role.SYSTEM):
        return False
    return any(isinstance(value, str) and value.strip() for name, value in message.extra.items() if name not in read)


def message_record_fields(message: SourceMessage, part: int) -> dict[str, Any]:
    """Return a message's fields as those of a record; its author is who it names, else a role that nobody knows."""
    author = message.name or _name(message.extra.get("author")) or message.speaker
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


def _name(speaker: object) -> object:
    if not isinstance(speaker, Mapping):
        return speaker
    return next((name for one in _NAMES if (name := to_text(speaker.get(one)))), None)


def stated_time(message: SourceMessage) -> object:
    """Return when a message says it was written; the store rejects an invalid time."""
    if message.timestamp is not None:
        return message.timestamp
    kwargs = message.extra.get("additional_kwargs")
    own = time_among(message.extra)
    return own if own is not None else time_among(kwargs if isinstance(kwargs, dict) else {})


def time_among(fields: Mapping[str, Any]) -> object:
    """Return the time among a message's further fields, under whatever name.

    What can't be read is returned as given under `timestamp` and `created_at`, and is no time under any other name.
    """
    for name in (name for name in TIMES if fields.get(name) not in (None, "")):
        given, certain = fields[name], name in _TIMES_BY_NAME
        if not certain and isinstance(given, int | float) and (isinstance(given, bool) or given < _LEAST_EPOCH):
            continue
        moment = to_datetime(given)
        if moment is not None or certain:
            return moment or given
    return None


def with_text_as_given(fields: dict[str, Any], given: object, where: str) -> dict[str, Any]:
    """Return a record's fields with the characters that no store can hold and that parsing has replaced in a message.

    The store then refuses them, as it does in a record (API-2).
    """
    source = message_fields(given, where)
    texts = (text for name in _KEPT for text in _texts(source.get(name)))
    unfit = {cleaned: text for text in texts if (cleaned := clean_text(text)) != text}
    return {name: _restored(value, unfit) for name, value in fields.items()} if unfit else fields


def _texts(value: object, depth: int = 0, seen: set[int] | None = None) -> Iterator[str]:
    """Yield all texts of a value, names in mappings included; of what it holds several times those of one."""
    seen = set() if seen is None else seen
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple) and depth < _MAX_DEPTH and id(value) not in seen:
        seen.add(id(value))
        for item in [*value, *value.values()] if isinstance(value, Mapping) else value:
            yield from _texts(item, depth + 1, seen)


def _restored(value: Any, unfit: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for cleaned, raw in unfit.items():
            value = value.replace(cleaned, raw)
        return value
    if isinstance(value, dict):
        return {_restored(name, unfit): _restored(item, unfit) for name, item in value.items()}
    return [_restored(item, unfit) for item in value] if isinstance(value, list) else value
