"""A memory of mem0 as a record's fields, and what its history file adds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from recall_loop.memory.intake.formats.source_items import epoch_time
from recall_loop.memory.intake.imports.external_memory import (
    DefaultOwner,
    ImportItem,
    SourceError,
    is_past,
    stable_id,
    to_identifier,
    to_json_checked,
    to_json_text,
)
from recall_loop.memory.intake.imports.external_sqlite import column_names, iter_rows, open_readonly
from recall_loop.memory.parsing.foreign_json import known_role
from recall_loop.state.types import ContentType

HISTORY_ATTRIBUTE = "mem0_history"
_MAPPED_FIELDS = ("data", "user_id", "agent_id", "run_id", "actor_id", "role", "created_at", "updated_at")
# mem0 derives these from the text; they are useless without mem0.
_DERIVED_FIELDS = ("hash", "text_lemmatized")
_PROCEDURAL = "procedural_memory"
_EVENT_COLUMNS = ["memory_id", "old_memory", "event", "created_at", "updated_at", "actor_id", "role"]
_MESSAGE_COLUMNS = ["id", "session_scope", "role", "content", "name", "created_at"]
HistoryEvent = dict[str, Any]


def memory_item(
    location: str,
    memory_id: str,
    payload: Mapping[str, Any],
    owner: DefaultOwner,
    events: list[HistoryEvent],
    *,
    expired: bool,
) -> ImportItem:
    """Return one memory as an item; with `expired` also one whose time is over."""
    try:
        clean = to_json_checked(payload)
    except ValueError as error:  # it can't be shown either
        return ImportItem(location, reason=f"payload: {error}")
    raw = to_json_text({"id": memory_id, "payload": clean})
    if not expired and is_past(clean.get("expiration_date"), day=True):
        return ImportItem(location, raw, left_out="expired")
    return ImportItem(location, raw, fields=owner.fill(_fields(memory_id, clean, events)))


def _fields(memory_id: str, payload: Mapping[str, Any], events: list[HistoryEvent]) -> dict[str, Any]:
    procedural = payload.get("memory_type") == _PROCEDURAL
    first = events[0] if events else {}
    attributes = {key: value for key, value in payload.items() if key not in (*_MAPPED_FIELDS, *_DERIVED_FIELDS)}
    role = payload.get("role") or first.get("role")
    if role is not None and known_role(role) is None:
        attributes["role"] = role
    updates = [one for one in events if one.get("event") == "UPDATE" and isinstance(one.get("old_memory"), str)]
    if earlier := [{"text": event["old_memory"], "until": event.get("updated_at")} for event in updates]:
        attributes[HISTORY_ATTRIBUTE] = earlier
    return {
        "id": memory_id,
        "kind": ContentType.ARCHIVAL if procedural else ContentType.FACT,
        "label": "Procedural memory" if procedural else None,
        "text": payload.get("data"),
        "author": to_identifier(payload.get("actor_id") or first.get("actor_id")),
        "role": known_role(role),
        "user_id": to_identifier(payload.get("user_id")),
        "agent_id": to_identifier(payload.get("agent_id")),
        "conversation_id": to_identifier(payload.get("run_id")),
        "created_at": _time(payload.get("created_at") or first.get("created_at")),
        "updated_at": _time(payload.get("updated_at") or (events[-1].get("updated_at") if events else None)),
        "attributes": attributes,
    }


def _time(value: Any) -> Any:
    """Return a time in the format of records; an invalid one unchanged, for the store to report."""
    return epoch_time(value) or value


def point_record_id(point_id: str | int) -> str:
    """Return the id of a point as a record's id: UUIDs as they are, numbers with a word before them."""
    return point_id if isinstance(point_id, str) else f"mem0-{point_id}"


class Mem0History:
    """mem0's history file, of former wordings and kept messages; raises `SourceError` where it can't be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: dict[str, list[HistoryEvent]] = defaultdict(list)
        with open_readonly(path) as connection:
            if not {"memory_id", "event"} <= set(column_names(connection, "history")):
                raise SourceError(f"{path}: not a history file of mem0")
            for _, event in iter_rows(connection, "history", _EVENT_COLUMNS):
                self._events[str(event["memory_id"])].append(event)

    def events_of(self, memory_id: str) -> list[HistoryEvent]:
        """Return the events of a memory, oldest first; none if the file doesn't know it."""
        return self._events.get(memory_id, [])

    def messages(self, owner: DefaultOwner) -> Iterator[ImportItem]:
        """Yield the messages that mem0 keeps to understand the next ones: the last ten of each scope."""
        with open_readonly(self.path) as connection:
            for number, row in iter_rows(connection, "messages", _MESSAGE_COLUMNS):
                scope = _scope(str(row.get("session_scope") or ""))
                fields: dict[str, Any] = {
                    "id": stable_id("mem0-message", str(row.get("id"))),
                    "kind": ContentType.MESSAGE,
                    "text": row.get("content"),
                    "role": known_role(row.get("role")),
                    "author": to_identifier(row.get("name")),
                    "user_id": scope.get("user_id"),
                    "agent_id": scope.get("agent_id"),
                    "conversation_id": scope.get("run_id") or to_identifier(row.get("session_scope")),
                    "created_at": _time(row.get("created_at")),
                }
                yield ImportItem(f"{self.path.name}, message {number}", to_json_text(row), fields=owner.fill(fields))


def _scope(text: str) -> dict[str, str]:
    """Return the ids in `agent_id=…&run_id=…&user_id=…`."""
    pairs = (part.partition("=") for part in text.split("&"))
    return {key: unquote(value) for key, separator, value in pairs if separator and value}
