"""Exports of Telegram Desktop in JSON: `result.json` of one chat, or of a whole account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from recall_loop.memory.intake.formats.source_items import (
    WITHOUT_TEXT,
    LeftOut,
    SourceItem,
    as_list,
    epoch_time,
    listed,
)
from recall_loop.memory.parsing.foreign_json import InvalidLine, as_mapping, raw_json, to_text
from recall_loop.state.types import MAX_TEXT_CHARS

_LISTS = ("chats", "left_chats")
_NOTICE = LeftOut("notices of Telegram (calls, joins and the like)")


def is_telegram(item: Mapping[str, Any]) -> bool:
    """Return whether an object is an export of a chat or of an account."""
    if any(isinstance(as_mapping(item.get(name)).get("list"), list) for name in _LISTS):
        return True
    first = as_mapping(next(iter(listed(item.get("messages"))), None))
    return "id" in item and first.get("type") in ("message", "service") and "date" in first


def read_telegram(document: Any) -> Iterator[SourceItem]:
    """Yield the messages of an export, chat by chat; a chat is a conversation, a day a session."""
    export = as_mapping(document)
    chats = [chat for name in _LISTS for chat in listed(as_mapping(export.get(name)).get("list"))]
    number = count(1)
    for chat in map(as_mapping, chats or [export]):
        for message in listed(chat.get("messages")):
            yield SourceItem(next(number), _outcome(chat, message), raw_json(message))


def _outcome(chat: Mapping[str, Any], message: Any) -> dict[str, Any] | LeftOut | InvalidLine:
    fields = as_mapping(message)
    created_at = epoch_time(fields.get("date_unixtime")) or epoch_time(fields.get("date"))
    if created_at is None or fields.get("id") is None:
        return InvalidLine("date: got nothing; allowed: a message of Telegram with its id and time", raw_json(message))
    if fields.get("type") != "message":
        return _NOTICE
    parts = as_list(fields.get("text"))
    texts = (one if isinstance(one, str) else as_mapping(one).get("text") for one in parts)
    text = "".join(one for one in texts if isinstance(one, str)).strip()
    if not text:
        return WITHOUT_TEXT
    attributes = {"title": to_text(chat.get("name")), "forwarded_from": to_text(fields.get("forwarded_from"))}
    conversation = f"telegram-{chat.get('id')}"
    return {
        "id": f"{conversation}-{fields['id']}",
        "kind": "message",
        "text": text[:MAX_TEXT_CHARS],
        "author": to_text(fields.get("from")) or to_text(fields.get("from_id")),
        "conversation_id": conversation,
        "session": str(fields.get("date"))[:10],
        "created_at": created_at,
        "attributes": {name: value for name, value in attributes.items() if value},
    }
