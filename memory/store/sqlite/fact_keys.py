"""Facts by what they say something about, and by what superseded them; see `indexing.slot_of`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from recall_loop.memory.store.encoding.indexing import supersession_key_of
from recall_loop.memory.store.sqlite.predicate import compile_predicate
from recall_loop.state.records.records import RECORD_ADAPTER, Fact

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
    from recall_loop.state.scope import Scope

# All facts that some facts superseded, themselves or through others.
_SOURCES = """WITH RECURSIVE chain (root, id, row) AS (
  SELECT r.superseded_by, r.id, r.rowid FROM records r
    WHERE {where} AND r.superseded_by IN (SELECT value FROM json_each(?))
  UNION SELECT c.root, r.id, r.rowid FROM chain c JOIN records r ON r.tenant = ? AND r.superseded_by = c.id
    WHERE {where}
)
SELECT s.value, c.root, json_extract(b.record, '$.valid_until')
FROM chain c JOIN bodies b ON b.rowid = c.row, json_each(b.record, '$.source_ids') s ORDER BY 3"""
_IN_SLOTS = """SELECT r.slot, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.slot IN (SELECT value FROM json_each(?)) ORDER BY r.rowid"""


def supersession_key(fact: Fact) -> str | None:
    """Return a fact's slot; None where it doesn't name subject and type."""
    return supersession_key_of({**fact.model_dump(exclude={"kind"}), "kind": fact.kind})


def facts_by_supersession_key(sidecar: SqliteDatabase, tenant: str, slots: Iterable[str]) -> dict[str, list[Fact]]:
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


def superseded_sources(sidecar: SqliteDatabase, scope: Scope, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the records that superseded facts of a scope were drawn from, each with what superseded them and when.

    Only what the facts `ids` superseded counts, directly or through others: the value is one of `ids`, and the time
    from which what the record says doesn't hold any more.

    Raises:
        StoreUnavailableError: SQLite fails.
    """
    predicate = compile_predicate(scope)
    query = _SOURCES.format(where=predicate.where)
    params = (*predicate.params, json.dumps(list(ids)), predicate.tenant, *predicate.params)
    with sidecar.reading() as connection:
        return {source: (by, until) for source, by, until in connection.execute(query, params)}
