"""Records as the lines of an export, for whoever writes one and needs none of the readers that `ingest` has."""

from __future__ import annotations

import json
from collections.abc import Iterator

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Filters, Scope


def export_line(record: Record) -> str:
    """Return a record as one line of JSON, without the fields that hold nothing; an unknown time is said."""
    fields = record.model_dump(mode="json", exclude_defaults=True)
    if record.created_at is None:  # otherwise, a line without a time would get the time at which it is read
        fields["created_at"] = None
    return json.dumps({"id": record.id, "kind": record.kind} | fields, ensure_ascii=False)


def export_lines(store: MemoryStore, scope: Scope, filters: Filters | None = None) -> Iterator[str]:
    """Yield the scope's records in the order in which they were written; with filters those that `scan` gives."""
    return (export_line(record) for record in store.scan(scope, filters))
