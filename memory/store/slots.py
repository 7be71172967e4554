"""Facts by what they say something about; see `indexing.slot_of`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from recall_loop.memory.store.indexing import slot_of
from recall_loop.state.records import RECORD_ADAPTER, Fact

if TYPE_CHECKING:
    from recall_loop.memory.store.sidecar import Sidecar

_IN_SLOTS = """SELECT r.slot, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.slot IN (SELECT value FROM json_each(?)) ORDER BY r.rowid"""


def slot(fact: Fact) -> str | None:
    """Return a fact's slot; None where it doesn't name subject and type."""
    return slot_of({**fact.model_dump(exclude={"kind"}), "kind": fact.kind})


def facts_in(sidecar: Sidecar, tenant: str, slots: Iterable[str]) -> dict[str, list[Fact]]:
    """Return all facts of a tenant in the given slots, also superseded ones, in the order in which they were written.

    Raises:
        StoreUnavailableError: SQLite fails.
    """
    found: dict[str, list[Fact]] = {}
    with sidecar.reading() as connection:
        for name, body in connection.execute(_IN_SLOTS, (tenant, json.dumps(list(slots)))):
            record = RECORD_ADAPTER.validate_json(body)
            if isinstance(record, Fact):
                found.setdefault(name, []).append(record)
    return found
