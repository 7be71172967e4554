"""Records on their way into the store: validated, and turned into columns and index data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from recall_loop.memory.store.encoding.derivation import CREATED_AT, POSITION, derive_fields
from recall_loop.memory.store.encoding.indexing import (
    acts_mask,
    has_thread,
    index_terms,
    index_text,
    order_key,
    record_key,
    session_key_of,
    supersession_key_of,
    to_microseconds,
)
from recall_loop.state.errors import RejectedRecordsError, Rejection, display_value, rejections_of, validate_model
from recall_loop.state.records.records import (
    RECORD_CLASSES,
    ArchivalEntry,
    ChangeAction,
    Fact,
    Message,
    Record,
    Trajectory,
)
from recall_loop.state.records.sizes import size_complaints
from recall_loop.state.types import Identifier, is_to_come

_NOTHING, _ONLY_TIME = frozenset[str](), frozenset({CREATED_AT})
_JSON = json.JSONEncoder(ensure_ascii=False)
_RECORD_CLASSES = frozenset({Fact, ArchivalEntry, Message, Trajectory})

_COPIED = ("agent_id", "group_id", "user_id", "conversation_id", "session", "position", "label", "fact_type")

WriteStatus = Literal["created", "replaced", "unchanged", "rejected"]


@dataclass(frozen=True, slots=True)
class ChangeOrigin:
    """Where a change comes from (API-3): who makes it, if that is known, and its kind."""

    actor: str | None = None
    action: ChangeAction = "replaced"


_UNSAID = ChangeOrigin()


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of one record of a batch (STORE-2).

    Attributes:
        index: its place in the batch, from 0.
        id: its id, as far as it could be read.
        status: created, replaced, unchanged (the very same record is there) or rejected.
        error: why it was rejected.
        warning: how what was written deviates from what was given.
    """

    index: int
    id: str | None
    status: WriteStatus
    error: str | None = None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """One valid record, ready to be written.

    Attributes:
        columns: values by column of `records`.
        body: the record as JSON without empty fields; equal records have equal bodies.
        text: index text.
        terms: its stems, joined by blanks.
        rowid: the row to be taken; None for the next free one.
        origin: who changes the record, and how.
        derived: the record with the time of writing, where it leaves that open: what is stored under its id has one.
        places: whether it is then a message of a session, too, which gets the next position there.
        warning: how it deviates from what was given.
    """

    id: str
    columns: dict[str, Any]
    body: str
    text: str
    terms: str
    tags: tuple[str, ...]
    rowid: int | None = None
    origin: ChangeOrigin = _UNSAID
    derived: Record | None = None
    places: bool = False
    warning: str | None = None

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


class _Actor(BaseModel):
    actor: Identifier | None = None


def change_origin(actor: str | None, action: ChangeAction = "replaced") -> ChangeOrigin:
    """Return where a change comes from; raises `InvalidInputError` where `actor` is no text of 1 to 512 characters."""
    return ChangeOrigin(validate_model(_Actor, {"actor": actor}).actor, action)


def validate_and_prepare(
    tenant: str, given: object, index: int, now: datetime, origin: ChangeOrigin = _UNSAID
) -> PreparedRecord:
    """Validate one record, derive what it leaves out, and prepare it; errors as `complete_record`."""
    complete, derived = complete_record(given, index, now)
    record, warning = _of_the_past(complete, now)
    derived |= _ONLY_TIME if record.created_at != complete.created_at else _NOTHING
    warnings = [one for one in (warning, _warning_of_expiry(record, now)) if one is not None]
    prepared = replace(prepare_record(tenant, record, origin=origin), warning="; ".join(warnings) or None)
    if CREATED_AT not in derived:
        return prepared
    places = record.position is None and prepared.columns["thread"] is not None
    return replace(prepared, derived=record, places=places)


def _warning_of_expiry(record: Record, now: datetime) -> str | None:
    """Return a warning where a record has expired already: it is taken, and found by nothing (LIVE-7)."""
    if record.expires_at is None or record.expires_at > now:
        return None
    return f"expires_at: got {record.expires_at.isoformat()}, which is past: no search or read returns the record"


def _of_the_past(record: Record, now: datetime) -> tuple[Record, str | None]:
    """Return a record without times to come, and a warning where it had one: they count as if it didn't state them.

    What was written in the year 9999 would be the newest for good (GUARD-5).
    """
    names = [name for name in (CREATED_AT, "updated_at") if is_to_come(getattr(record, name), now)]
    if not names:
        return record, None
    changes = {name: now if name == CREATED_AT else None for name in names}
    warning = "; ".join(
        f"{name}: got {getattr(record, name).isoformat()}, which is in the future: left out" for name in names
    )
    return record.model_copy(update=changes), warning


def settle_derived(draft: PreparedRecord, stored: Record | None, position: int | None) -> PreparedRecord:
    """Return a draft with the time and position of what stands under its id; else of now, and the given position."""
    record = draft.derived
    if record is None:
        return draft
    changes: dict[str, Any] = {CREATED_AT: stored.created_at} if stored is not None else {}
    if draft.places:
        changes[POSITION] = position if stored is None else stored.position
    if all(getattr(record, name) == value for name, value in changes.items()):
        return draft
    settled = record.model_copy(update=changes)
    if stored is not None and CREATED_AT not in stored.model_fields_set:
        settled.model_fields_set.discard(CREATED_AT)  # from an earlier version, which stored nothing for "unknown"
    return prepare_record(draft.tenant, settled, draft.rowid, draft.origin)


def prepare_record(
    tenant: str, record: Record, rowid: int | None = None, origin: ChangeOrigin = _UNSAID
) -> PreparedRecord:
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
        "expires_at": to_microseconds(record.expires_at),
        "acts": acts_mask(fields),
    }
    if record.created_at is None and CREATED_AT in record.model_fields_set:
        fields[CREATED_AT] = None  # stated as unknown: reading and rewriting keeps it so
    body = encode_body(fields)
    tags = tuple(dict.fromkeys(record.tags))
    return PreparedRecord(record.id, columns, body, text, " ".join(index_terms(fields)), tags, rowid, origin)


def encode_body(fields: Mapping[str, Any]) -> str:
    """Return a record's fields, without empty ones, as they are stored."""
    return _JSON.encode(fields)


def complete_record(given: object, index: int, now: datetime) -> tuple[Record, frozenset[str]]:
    """Return record `index` of a batch, whole and valid, and the names of the fields that were derived.

    Records of the four classes are valid as they are but for their size; mappings and others are validated.

    Raises:
        RejectedRecordsError: names each field that is wrong, its value and what is allowed.
    """
    record, derived = _validated(given, index, now)
    too_large = [Rejection(index, record.id, *complaint) for complaint in size_complaints(record)]
    if too_large:
        raise RejectedRecordsError(too_large)
    return record, derived


def _validated(given: object, index: int, now: datetime) -> tuple[Record, frozenset[str]]:
    if isinstance(given, Record):
        if type(given) in _RECORD_CLASSES:
            if CREATED_AT in given.model_fields_set:
                return given, _NOTHING
            return given.model_copy(update={CREATED_AT: now}), _ONLY_TIME
        given = {**given.model_dump(exclude_unset=True), "kind": given.kind}
    if not isinstance(given, Mapping):
        allowed = "a record or a mapping with its fields"
        raise RejectedRecordsError([Rejection(index, None, "", display_value(given), allowed)])
    derived = derive_fields(given, given, now)
    fields = {**given, **derived}
    kind = fields["kind"]
    model = RECORD_CLASSES.get(kind, Record) if isinstance(kind, str) else Record
    try:
        return model.model_validate(fields), frozenset(derived)
    except ValidationError as error:
        raise RejectedRecordsError(rejections_of(error, model, index, readable_id(given))) from error


def readable_id(given: object) -> str | None:
    """Return the id of a record that may be no record at all; None for one that is no text of Unicode's."""
    found = given.get("id") if isinstance(given, Mapping) else getattr(given, "id", None)
    if not isinstance(found, str):
        return None
    try:
        found.encode()
    except UnicodeEncodeError:  # lone surrogates: a report on the record couldn't be encoded
        return None
    return found
