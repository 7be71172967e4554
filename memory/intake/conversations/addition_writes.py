"""Writing what a caller adds: ids that others have, and outcomes by the item's place in the call (API-1, API-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.tables.prepared_records import WriteOutcome, complete_record
from recall_loop.state.errors import RejectedRecordsError, Rejection, display_value
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.record_writer import OnReject
    from recall_loop.memory.store.store import MemoryStore

Placed = tuple[int, Any]
"""A record, or whatever was given in place of one, after the place of its item in the call."""
_OF_USER, _OF_TALK = ("user_id", "another user"), ("conversation_id", "another conversation")
# By whether it is a message, of what else a record with the same id is another one.
_APART = {False: (_OF_USER,), True: (_OF_USER, _OF_TALK)}


def taken_ids(store: MemoryStore, records: Sequence[Placed], tenant: str) -> list[tuple[Placed, Rejection]]:
    """Return the records that would replace one of another user, or as a message one of another conversation.

    Many a chat counts its messages, so that their ids are unique in one thread only.
    """
    # Anything else has no fields: the store reports it.
    told = [(one, one[1] if isinstance(one[1], Mapping) else getattr(one[1], "__dict__", {})) for one in records]
    stated = [given for _, fields in told if isinstance(given := fields.get("id"), str)]
    held = {one.id: one for one in store.get(stated, scope=Scope(tenant=tenant))} if stated else {}
    return [
        (one, Rejection(one[0], known.id, "id", display_value(known.id), f"one that no record of {owner} has"))
        for one, fields in told
        if isinstance(given := fields.get("id"), str) and (known := held.get(given)) is not None
        for name, owner in _APART[known.kind is ContentType.MESSAGE]
        if None not in (fields.get(name), getattr(known, name)) and fields[name] != getattr(known, name)
    ]


def write_placed(
    store: MemoryStore, records: Sequence[Placed], tenant: str, actor: str | None, on_reject: OnReject
) -> list[WriteOutcome]:
    """Write records as `MemoryStore.upsert` does; outcomes and errors name the places of their items in the call."""
    try:
        outcomes = store.upsert([record for _, record in records], tenant=tenant, actor=actor, on_reject=on_reject)
    except RejectedRecordsError as error:
        raise RejectedRecordsError([replace(one, index=records[one.index][0]) for one in error.rejections]) from error
    return [_placed(outcome, *records[outcome.index]) for outcome in outcomes]


def _placed(outcome: WriteOutcome, index: int, record: object) -> WriteOutcome:
    if outcome.status == "rejected" and outcome.index != index:  # its words name the place
        try:
            complete_record(record, index, datetime.now(UTC))
        except RejectedRecordsError as error:
            return replace(outcome, index=index, error=str(error))
    return replace(outcome, index=index)


def rejected_outcomes(rejections: Sequence[Rejection]) -> list[WriteOutcome]:
    """Return an outcome for each record that isn't written, with all of its reasons, which follow one another."""
    return [
        WriteOutcome(index, record_id, "rejected", "; ".join(map(str, reasons)))
        for (index, record_id), reasons in groupby(rejections, key=lambda one: (one.index, one.id))
    ]
