"""Writes to the sidecar: each chunk is one transaction, which leaves its rows pending for Chroma."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.drafts import Draft, Status
from recall_loop.memory.store.embeddings import checked
from recall_loop.memory.store.indexing import index_text
from recall_loop.memory.store.schema import COLUMNS
from recall_loop.memory.store.windows import beside, neighbours, reindex

if TYPE_CHECKING:
    from recall_loop.memory.store.embeddings import Embedder
    from recall_loop.memory.store.sidecar import Sidecar

_MARKS = ",".join("?" for _ in COLUMNS)
_INSERT = f"INSERT INTO records (rowid, {','.join(COLUMNS)}, terms) VALUES (?, {_MARKS}, ?)"
_UPDATE = f"UPDATE records SET {','.join(f'{name} = ?' for name in COLUMNS)}, terms = ? WHERE rowid = ?"


@dataclass(frozen=True, slots=True)
class _Stored:
    rowid: int
    body: str
    own: bytes


def write(sidecar: Sidecar, embedder: Embedder, dimension: int, tenant: str, drafts: Sequence[Draft]) -> list[Status]:
    """Write drafts as if one after another; return what became of each.

    Of several drafts with one id the last is written. The same record again is left as it is, and a
    text is embedded again only if it has changed.

    Raises:
        EmbedderError: the embedder fails, or gives vectors of another length; nothing was written.
        StoreUnavailableError: SQLite fails; nothing was written.
    """
    stored = _stored(sidecar, tenant, [draft.id for draft in drafts])
    bodies = {record_id: old.body for record_id, old in stored.items()}
    statuses: list[Status] = []
    final: dict[str, Draft] = {}
    for draft in drafts:
        old = final[draft.id].body if draft.id in final else bodies.get(draft.id)
        statuses.append("created" if old is None else "unchanged" if old == draft.body else "replaced")
        final[draft.id] = draft
    changed = [draft for draft in final.values() if bodies.get(draft.id) != draft.body]
    if not changed:
        return statuses
    vectors = _own_vectors(embedder, dimension, changed, stored)
    with sidecar.transaction() as connection:
        moved = [stored[draft.id].rowid for draft in changed if draft.id in stored]
        touched = beside(neighbours(connection, moved))
        rowids = {
            _put(connection, draft, vector, stored.get(draft.id))
            for draft, vector in zip(changed, vectors, strict=True)
        }
        reindex(connection, rowids, touched)
        touch_tenant(connection, tenant)
    return statuses


def remove(sidecar: Sidecar, tenant: str, ids: Sequence[str]) -> int:
    """Delete records of a tenant; return how many there were.

    Raises:
        StoreUnavailableError: SQLite fails; nothing was deleted.
    """
    query = "SELECT rowid, key FROM records WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))"
    with sidecar.transaction() as connection:
        found = dict(connection.execute(query, (tenant, json.dumps(list(ids)))))
        if not found:
            return 0
        touched = beside(neighbours(connection, found)) - found.keys()
        connection.executemany("DELETE FROM records WHERE rowid = ?", [(rowid,) for rowid in found])
        keys = [(key,) for key in found.values()]
        connection.executemany("INSERT OR IGNORE INTO tombstones VALUES (?)", keys)
        reindex(connection, (), touched)
        touch_tenant(connection, tenant)
    return len(found)


def touch_tenant(connection: sqlite3.Connection, tenant: str) -> None:
    """Raise the version of a tenant's data, so that caches everywhere are dropped."""
    connection.execute("INSERT INTO tenants VALUES (?, 1) ON CONFLICT DO UPDATE SET version = version + 1", (tenant,))


def embed(embedder: Embedder, dimension: int, texts: Sequence[str]) -> list[bytes]:
    """Return one half-precision vector per text.

    Raises:
        EmbedderError: the embedder gives vectors of another length, none at all, or NaN.
    """
    vectors = checked(embedder, embedder.embed_documents(texts), len(texts), dimension)
    return [row.tobytes() for row in vectors.astype(np.float16)]


def _stored(sidecar: Sidecar, tenant: str, ids: Sequence[str]) -> dict[str, _Stored]:
    query = """SELECT r.id, r.rowid, b.record, v.own FROM records r
        JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
        WHERE r.tenant = ? AND r.id IN (SELECT value FROM json_each(?))"""
    with sidecar.reading() as connection:
        found = connection.execute(query, (tenant, json.dumps(list(ids)))).fetchall()
    return {row[0]: _Stored(*row[1:]) for row in found}


def _own_vectors(
    embedder: Embedder, dimension: int, drafts: Sequence[Draft], stored: dict[str, _Stored]
) -> list[bytes]:
    """Return own vectors, embedding only texts that the store doesn't hold for the same id."""
    known = {
        draft.id: stored[draft.id].own
        for draft in drafts
        if draft.id in stored and index_text(json.loads(stored[draft.id].body)) == draft.text
    }
    new = [draft for draft in drafts if draft.id not in known]
    if new:
        made = embed(embedder, dimension, [draft.text for draft in new])
        known |= {draft.id: vector for draft, vector in zip(new, made, strict=True)}
    return [known[draft.id] for draft in drafts]


def _put(connection: sqlite3.Connection, draft: Draft, vector: bytes, old: _Stored | None) -> int:
    """Insert or replace one record wholly; return its rowid."""
    length = len(draft.terms.split())
    if old is None:
        cursor = connection.execute(_INSERT, (draft.rowid, *draft.columns, length))
        rowid = int(cursor.lastrowid or 0)
    else:
        rowid = old.rowid
        connection.execute(_UPDATE, (*draft.columns, length, rowid))
        connection.execute("DELETE FROM record_tags WHERE record = ?", (rowid,))
    connection.execute("INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, '')", (rowid, draft.body, draft.terms))
    connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (rowid, vector, vector))
    connection.executemany("INSERT INTO record_tags VALUES (?, ?)", [(rowid, tag) for tag in draft.tags])
    return rowid
