"""A tenant's records as JSON Lines that `read_records` reads back to equal records (STORE-2)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Scope


def export_line(record: Record) -> str:
    """Return a record as one line of JSON, without the fields that hold nothing."""
    fields = record.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({"id": record.id, "kind": record.kind} | fields, ensure_ascii=False)


def export_lines(store: MemoryStore, scope: Scope) -> Iterator[str]:
    """Yield the scope's records in the order in which they were written.

    Raises:
        StoreError: the store can't be read.
    """
    return (export_line(record) for record in store.scan(scope))
