"""Taking over what Chroma has into the sidecar: its rows, its deletions, and the number of its last commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.memory.store.tables.changes import COMMIT_META_KEY
from recall_loop.memory.store.tables.database import (
    APPLIED,
    KNOWN_KEYS,
    KNOWN_ROWS,
    PENDING,
    Connection,
    Database,
    set_meta,
)
from recall_loop.memory.store.tables.prepared_records import PreparedRecord, prepare_record
from recall_loop.memory.store.write.commits import write_records
from recall_loop.state.records.records import RECORD_ADAPTER

_BURY = f"""INSERT INTO tombstones VALUES (?, ?, {APPLIED})
ON CONFLICT (key) DO UPDATE SET commit_number = excluded.commit_number
WHERE excluded.commit_number > tombstones.commit_number"""
_UNITE = f"""UPDATE records SET state = {PENDING}, revision = max(revision, ?) + 1, commit_number = ?, checksum = ?
WHERE key = ?"""


def take_rows(database: Database, embedder: Embedder, rows: Sequence[ChromaRow], damaged: list[str]) -> int:
    """Write Chroma's rows to the sidecar, whatever stands there under their keys; return how many.

    Keys or ids of what is damaged are added to `damaged`.
    """
    drafts = prepare_rows(rows, damaged)
    keys = json.dumps([draft.key for draft in drafts])
    known = {key for (key,) in database.fetch(KNOWN_KEYS, (keys,))}
    wanted = json.dumps([draft.rowid for draft in drafts if draft.key not in known])
    occupied = {row for (row,) in database.fetch(KNOWN_ROWS, (wanted,))}
    moved = {draft.key for draft in drafts if draft.key not in known and draft.rowid in occupied}
    placed = [draft for draft in drafts if draft.key not in moved]
    displaced = [replace(draft, rowid=None) for draft in drafts if draft.key in moved]
    for part in (placed, displaced):
        write_records(database, embedder, embedder.dimension, part, rewrite=True)
    note_state(database, drafts, rows)
    return len(drafts)


def prepare_rows(rows: Iterable[ChromaRow], damaged: list[str]) -> list[PreparedRecord]:
    """Return Chroma's rows as drafts; those that hold no record are added to `damaged`, and so are unsound ones."""
    drafts = []
    for row in rows:
        try:
            record = RECORD_ADAPTER.validate_json(row.record)
            drafts.append(prepare_record(row.tenant, record, row.rowid))
        except ValueError:
            damaged.append(row.key)
        else:
            if not row.is_sound:
                damaged.append(record.id)
    return drafts


def note_state(database: Database, drafts: Sequence[PreparedRecord], rows: Sequence[ChromaRow]) -> None:
    """Let rows that were taken over stay pending at a revision that Chroma hasn't; damage stays known as damage."""
    found = {row.key: row for row in rows}
    with database.transaction() as connection:
        number = connection.next_commit()
        values = []
        for draft in drafts:
            row = found[draft.key]
            checksum = body_checksum(draft.body) if row.is_sound else row.checksum
            values.append((row.revision, number, checksum, draft.key))
        connection.executemany(_UNITE, values)


def bury(connection: Connection, deleted: Mapping[str, int]) -> None:
    """Note deletions, by key with the commit of each, unless a later one is known."""
    connection.executemany(_BURY, list(deleted.items()))


def set_commit(database: Database, number: int, deleted: Mapping[str, int]) -> None:
    """Begin a sidecar that is rebuilt from Chroma: with its deletions, and commits that follow Chroma's."""
    with database.transaction() as connection:
        bury(connection, deleted)
        set_meta(connection, {COMMIT_META_KEY: str(max([number, *deleted.values()]))})
