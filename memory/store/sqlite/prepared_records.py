"""Records on their way into the store: validated, and turned into columns and index data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from recall_loop.memory.store.encoding.indexing import (
    has_thread,
    index_text,
    order_key,
    record_key,
    session_key_of,
    supersession_key_of,
    to_microseconds,
)
from recall_loop.state.errors import InvalidInputError, invalid_input_from
from recall_loop.state.records.records import RECORD_ADAPTER, ArchivalEntry, Fact, Message, Record, Trajectory
from recall_loop.text.words.tokens import stems

_JSON = json.JSONEncoder(ensure_ascii=False)
_RECORD_CLASSES = frozenset({Fact, ArchivalEntry, Message, Trajectory})

_COPIED = ("agent_id", "group_id", "user_id", "conversation_id", "session", "position", "label", "fact_type")

WriteStatus = Literal["created", "replaced", "unchanged", "rejected"]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of one record of a batch (STORE-2).

    Attributes:
        index: its place in the batch, from 0.
        id: its id, as far as it could be read.
        status: created, replaced, unchanged (the very same record is there) or rejected.
        error: why it was rejected.
    """

    index: int
    id: str | None
    status: WriteStatus
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """One valid record, ready to be written.

    Attributes:
        columns: values by column of `records`.
        body: the record as JSON without empty fields; equal records have equal bodies.
        text: index text.
        terms: its stems, joined by blanks.
        tags: the record's tags, each once.
        rowid: the row to be taken; None for the next free one.
    """

    id: str
    columns: dict[str, Any]
    body: str
    text: str
    terms: str
    tags: tuple[str, ...]
    rowid: int | None = None

    @property
    def tenant(self) -> str:
        """The tenant."""
        return str(self.columns["tenant"])

    @property
    def kind(self) -> str:
        """The record's kind."""
        return str(self.columns["kind"])

    @property
    def key(self) -> str:
        """Key of tenant and id, under which Chroma holds the record."""
        return str(self.columns["key"])


def validate_and_prepare(tenant: str, given: object, index: int) -> PreparedRecord:
    """Validate one record and prepare it.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    return prepare_record(tenant, _validated(given, index))


def prepare_record(tenant: str, record: Record, rowid: int | None = None) -> PreparedRecord:
    """Turn a valid record into columns and index data."""
    dumped = record.model_dump(mode="json", exclude_defaults=True)
    fields = {"id": dumped.pop("id"), "kind": record.kind.value, **dumped}
    created = to_microseconds(record.created_at)
    text = index_text(fields)
    session_key = session_key_of(tenant, fields)
    columns = {
        "tenant": tenant,
        "id": record.id,
        "key": record_key(tenant, record.id),
        "kind": fields["kind"],
        **{name: getattr(record, name) for name in _COPIED},
        "role": fields.get("role"),
        "created_at": created,
        "place": session_key,
        "thread": session_key if has_thread(fields) else None,
        "order_key": order_key(record.position, created),
        "valid_until": to_microseconds(record.valid_until) if isinstance(record, Fact) else None,
        "superseded_by": record.superseded_by if isinstance(record, Fact) else None,
        "slot": supersession_key_of(fields),
    }
    body = encode_body(fields)
    tags = tuple(dict.fromkeys(record.tags))
    return PreparedRecord(record.id, columns, body, text, " ".join(stems(text)), tags, rowid)


def encode_body(fields: Mapping[str, Any]) -> str:
    """Return a record's fields, without empty ones, as they are stored."""
    return _JSON.encode(fields)


def _validated(given: object, index: int) -> Record:
    """Return record `index` of a batch: records of the four classes as they are, mappings and others validated.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    if isinstance(given, Record):
        if type(given) in _RECORD_CLASSES:
            return given
        given = {**given.model_dump(exclude_defaults=True), "kind": given.kind}
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"records.{index}", given, "a record or a mapping with its fields")
    try:
        return RECORD_ADAPTER.validate_python(dict(given))
    except ValidationError as error:
        raise invalid_input_from(error, f"records.{index}") from error


def readable_id(given: object) -> str | None:
    """Return the id of a record that may be no record at all; None for one that is no text of Unicode's."""
    found = given.get("id") if isinstance(given, Mapping) else getattr(given, "id", None)
    if not isinstance(found, str):
        return None
    try:
        found.encode()
    except UnicodeEncodeError:  # lone surrogates: whoever reports on the record couldn't write them down
        return None
    return found
