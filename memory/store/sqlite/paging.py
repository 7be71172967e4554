"""A store read page by page, by callers that hold nothing open in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.state.records.records import RECORD_ADAPTER, Record

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.predicate import Predicate
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

_MOST_CHARACTERS = 16 * 1024 * 1024
_BODY = "SELECT record FROM bodies WHERE rowid = ?"


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records by ascending id.

    Attributes:
        records: the records.
        after: where the next page begins, for `MemoryStore.page(after=…)`; None at the end.
    """

    records: tuple[Record, ...]
    after: str | None


def read_page(sidecar: SqliteDatabase, predicate: Predicate, after: str, limit: int) -> RecordPage:
    """Return the next page of what a predicate allows; see `MemoryStore.page`.

    Raises:
        StoreUnavailableError: SQLite fails.
    """
    # Bodies stay out of the statement that sorts: of a filtered scope SQLite may have to sort every row.
    query = f"SELECT r.rowid, r.id FROM records r WHERE {predicate.where} AND r.id > ? ORDER BY r.id LIMIT ?"
    records: list[Record] = []
    characters = 0
    with sidecar.reading() as connection:
        rows = connection.execute(query, (*predicate.params, after, limit + 1)).fetchall()
        for number, (rowid, record_id) in enumerate(rows[:limit], start=1):
            found = connection.execute(_BODY, (rowid,)).fetchone()
            if found is None:  # deleted since
                continue
            records.append(RECORD_ADAPTER.validate_json(found[0]))
            characters += len(found[0])
            if characters >= _MOST_CHARACTERS and number < len(rows):
                return RecordPage(tuple(records), record_id)
    return RecordPage(tuple(records), rows[limit - 1][1] if len(rows) > limit else None)
