"""A chat message as the fields of a record, the same on every way in."""

from __future__ import annotations

from typing import Any

from recall_loop.memory.parsing.chat_messages import SourceMessage
from recall_loop.memory.parsing.foreign_json import to_datetime

_TIMES = ("timestamp", "created_at", "created", "time", "date")


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
    if (moment := _stated_time(message)) is not None:
        fields["created_at"] = moment
    if message.calls:
        fields["attributes"] = {"tool_calls": [{"name": one.name, "arguments": one.arguments} for one in message.calls]}
    return fields


def _stated_time(message: SourceMessage) -> object:
    """Return when a message says that it was written; what is no time is for the store to reject."""
    if message.timestamp is not None:
        return message.timestamp
    kwargs = message.extra.get("additional_kwargs")
    for place in (message.extra, kwargs if isinstance(kwargs, dict) else {}):
        for name in _TIMES:
            if place.get(name) is not None:
                return to_datetime(place[name]) or place[name]
    return None
