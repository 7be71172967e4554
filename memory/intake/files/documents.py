"""Records from documents of data sets and plain lines, with derived ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from recall_loop.memory.parsing.foreign_json import known_role
from recall_loop.memory.store.encoding.indexing import text_hash
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record, parse_record
from recall_loop.state.types import ContentType

ABSENT_ID = "-"
_DIGEST_BYTES = 12


class FileIdTracker:
    """Keeps track of the ids of one file; holds about 250 bytes per line, never its text.

    A derived id is a hash of kind, text, author, conversation, session, created_at and of how many
    equal lines came before it in the file. So the same file always gives the same ids, and a
    "Thanks!" said twice in one conversation is two records. An `owner` that the file doesn't name is part of the hash.
    """

    def __init__(self, owner: tuple[str, ...] = ()) -> None:
        self._owner = owner
        self._occurrences: Counter[bytes] = Counter()
        self._lines: dict[bytes, int] = {}

    def derive(self, record: Record) -> str:
        """Return the id of the next record with this content."""
        created = record.created_at.isoformat() if record.created_at else None
        parts = [record.kind, record.text, record.author, record.conversation_id, record.session, created, *self._owner]
        key = text_hash(json.dumps(parts), _DIGEST_BYTES)
        self._occurrences[key] += 1
        return f"auto-{text_hash(f'{key.hex()}:{self._occurrences[key] - 1}', _DIGEST_BYTES).hex()}"

    def earlier_line(self, record_id: str, line: int) -> int | None:
        """Return the earlier line that gave this id, if any, and remember `line` for it."""
        key = text_hash(record_id, _DIGEST_BYTES)
        earlier = self._lines.get(key)
        self._lines[key] = line
        return earlier


_KINDS = {
    "message": ContentType.MESSAGE,
    "fact": ContentType.FACT,
    "session_summary": ContentType.ARCHIVAL,
    "event": ContentType.ARCHIVAL,
    "note": ContentType.ARCHIVAL,
    "archival": ContentType.ARCHIVAL,
    "trajectory": ContentType.TRAJECTORY,
}


def record_from_document(doc: Mapping[str, Any]) -> Record:
    """Return a document `{id, collection, kind, session, timestamp, speaker, role, text, title, source_ids}`.

    The collection becomes the conversation. A speaker is the author of a message and the subject of a
    fact or event. A role that chat APIs don't know is left out. Notes, summaries, events and titled passages
    become archival entries with a label. Turn numbers are not taken over: times and the order of the
    file give the order of turns. A wrong field raises `InvalidInputError`.
    """
    kind = doc.get("kind")
    content_type = _KINDS.get(kind) if isinstance(kind, str) else None
    if content_type is None:
        raise InvalidInputError("kind", kind, f"one of {', '.join(_KINDS)}")
    if doc.get("text") is None:
        raise InvalidInputError("text", None, "text that is not blank")
    label = _label(doc)
    if label is not None and content_type is ContentType.FACT:
        content_type = ContentType.ARCHIVAL
    fields: dict[str, Any] = {
        "id": doc.get("id") or ABSENT_ID,
        "kind": content_type,
        "text": doc["text"],
        "author" if content_type is ContentType.MESSAGE else "subject": doc.get("speaker"),
        "role": known_role(doc.get("role")),
        "conversation_id": doc.get("collection"),
        "session": None if doc.get("session") is None else str(doc["session"]),
        "label": label,
        "source_ids": doc.get("source_ids") or (),
        "created_at": doc.get("timestamp"),
    }
    return parse_record(fields)


def _label(doc: Mapping[str, Any]) -> Any:
    """Return a label that says what the entry is; None for messages and plain facts."""
    kind = doc["kind"]
    if kind == "session_summary":
        return doc.get("title") or f"Summary of session {doc.get('session')}"
    if kind == "event":
        return doc.get("title") or ", ".join(str(doc[key]) for key in ("speaker", "date") if doc.get(key))
    return doc.get("title") or doc.get("label")
