"""Documents of evaluation sets as records: one mapping in, one record out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recall_loop.memory.intake.files.identity import ABSENT_ID
from recall_loop.memory.parsing.values import known_role
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record, parse_record
from recall_loop.state.types import ContentType

_KINDS = {
    "message": ContentType.MESSAGE,
    "fact": ContentType.FACT,
    "session_summary": ContentType.ARCHIVAL,
    "event": ContentType.ARCHIVAL,
    "archival": ContentType.ARCHIVAL,
    "trajectory": ContentType.TRAJECTORY,
}


def record_from_document(doc: Mapping[str, Any]) -> Record:
    """Return a document `{id, collection, kind, session, timestamp, speaker, role, text, title, source_ids}`.

    The collection becomes the conversation. A speaker is the author of a message and the subject of a
    fact or event. A role that chat APIs don't know is left out. Summaries, events and titled passages
    become archival entries with a label. Turn numbers are not taken over: times and the order of the
    file give the order of turns.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
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
