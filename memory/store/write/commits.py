"""Writes to the sidecar: each chunk is one transaction, which leaves its rows pending for Chroma."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.token_vectors import TokenCodec
from recall_loop.memory.store.encoding.indexing import body_checksum, count_terms, kind_and_text, now_microseconds
from recall_loop.memory.store.tables.changes import next_version, record_deletions, undo_supersession
from recall_loop.memory.store.tables.database import AMONG, PENDING, Connection, Database
from recall_loop.memory.store.tables.prepared_records import PreparedRecord, WriteStatus
from recall_loop.memory.store.tables.record_queries import window_neighbours
from recall_loop.memory.store.tables.versions import RecordChange, forget_versions, record_versions
from recall_loop.memory.store.write.context_windows import WindowRow, facet_tokens, reindex
from recall_loop.memory.store.write.recall_counts import forget_recalls
from recall_loop.memory.store.write.settling import settle_drafts
from recall_loop.memory.store.write.staged_vectors import forget_staged
from recall_loop.memory.store.write.stored_tokens import (
    active_codec,
    drop_stale_tokens,
    write_piece_rows,
    write_token_rows,
)
from recall_loop.memory.store.write.text_embedding import embed_texts

_BURY = f"""INSERT INTO tombstones (key, commit_number) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET commit_number = excluded.commit_number, state = {PENDING}"""
_RAISE = """INSERT INTO tenants (tenant, version) VALUES (?, 1)
ON CONFLICT (tenant) DO UPDATE SET version = tenants.version + 1"""
_TENANT = attrgetter("tenant")
_OWNERS = ("agent_id", "user_id", "conversation_id", "session")


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The outcome of each draft, and the rows that are now pending for Chroma."""

    statuses: list[WriteStatus]
    pending: list[ChromaRow]


@dataclass(frozen=True, slots=True)
class _Stored:
    rowid: int
    revision: int
    body: str
    own: bytes
    expired: bool


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Own vectors by key, and packed token vectors and those of pieces of texts that were embedded now."""

    own: dict[str, NDArray[np.float16]]
    tokens: dict[str, bytes | None]
    pieces: dict[str, bytes]


def write_records(
    database: Database,
    embedder: Embedder,
    dimension: int,
    drafts: Sequence[PreparedRecord],
    *,
    context_windows: bool = True,
    keep_history: bool = False,
    rewrite: bool = False,
) -> ChunkResult:
    """Write drafts of any tenants in one transaction, as if one after another; return the outcome of each.

    Of several drafts with one id the last is written. The same record again is left as it is, and a
    text is embedded again only if it has changed. A record that has expired counts as none. Without `context_windows`
    every record stands alone; with `keep_history` each change of a record that was there is kept as a version. With
    `rewrite` every draft is written and embedded, whatever stands under its id.

    Raises:
        EmbedderError: the embedder fails, or gives vectors of another length; nothing was written.
    """
    stored = _stored(database, drafts)
    bodies = {key: old.body for key, old in stored.items() if not old.expired}
    forgotten = stored.keys() - bodies.keys()
    drafts = settle_drafts(database, drafts, bodies)
    statuses, history = _compared(drafts, bodies)
    final = {draft.key: draft for draft in drafts}
    changed = [draft for draft in final.values() if rewrite or bodies.get(draft.key) != draft.body]
    if not changed:
        return ChunkResult(statuses, [])
    codec = active_codec(database, embedder)
    made = _own_vectors(embedder, codec, dimension, changed, {} if rewrite else stored)
    pending: list[ChromaRow] = []
    with database.transaction() as connection:
        drop_stale_tokens(connection, codec)
        forget_versions(connection, [(draft.tenant, draft.id) for draft in changed if draft.key in forgotten])
        forget_recalls(connection, [stored[key].rowid for key in sorted(forgotten & final.keys())])
        for _, part in groupby(sorted(changed, key=_TENANT), _TENANT):
            pending += _write_tenant(connection, list(part), stored, made, context_windows=context_windows)
        if keep_history:
            record_versions(connection, history)
    return ChunkResult(statuses, pending)


def _compared(
    drafts: Sequence[PreparedRecord], bodies: Mapping[str, str]
) -> tuple[list[WriteStatus], list[RecordChange]]:
    """Return the outcome of each draft, and the changes of records that were there; `bodies` are those by key."""
    statuses: list[WriteStatus] = []
    changes: list[RecordChange] = []
    standing = dict(bodies)
    for draft in drafts:
        old = standing.get(draft.key)
        statuses.append("created" if old is None else "unchanged" if old == draft.body else "replaced")
        if old is not None and old != draft.body:
            changes.append(RecordChange(draft.tenant, draft.id, old, draft.body, draft.origin))
        standing[draft.key] = draft.body
    return statuses, changes


def _write_tenant(
    connection: Connection,
    drafts: Sequence[PreparedRecord],
    stored: Mapping[str, _Stored],
    made: _Vectors,
    *,
    context_windows: bool,
) -> list[ChromaRow]:
    """Write changed drafts of one tenant, within a transaction; return the rows that are now pending."""
    moved = [stored[draft.key].rowid for draft in drafts if draft.key in stored]
    touched = window_neighbours(connection, moved) if moved else set()
    rowids = _write_rows(connection, drafts, stored)
    parts = {
        rowid: _window_row(draft, made.own[draft.key], stored.get(draft.key))
        for rowid, draft in zip(rowids, drafts, strict=True)
    }
    pending = reindex(connection, parts.keys(), touched, parts, context_windows=context_windows)
    placed = zip(rowids, drafts, strict=True)
    embedded = [(rowid, draft.key) for rowid, draft in placed if draft.key in made.tokens]
    write_token_rows(connection, {rowid: made.tokens[key] for rowid, key in embedded})
    write_piece_rows(connection, {rowid: made.pieces[key] for rowid, key in embedded})
    bump_tenant_version(connection, drafts[0].tenant)
    return pending


def delete_records(database: Database, tenant: str, ids: Sequence[str], *, keep_history: bool = False) -> int:
    """Delete records of a tenant with all of their versions; return how many there were.

    Facts that a deleted fact had superseded are as without it; see `undo_supersession`.
    """
    query = f"SELECT rowid, key FROM records WHERE tenant = ? AND id {AMONG}"
    with database.transaction() as connection:
        found = dict(connection.execute(query, (tenant, json.dumps(list(ids)))))
        if not found:
            return 0
        touched = window_neighbours(connection, found) - found.keys()
        restored = undo_supersession(connection, tenant, found, keep_history=keep_history)
        connection.executemany("DELETE FROM records WHERE rowid = ?", [(rowid,) for rowid in sorted(found)])
        forget_staged(connection, found)
        number = connection.next_commit()
        keys = [(key, number) for key in found.values()]
        connection.executemany(_BURY, keys)
        reindex(connection, restored, touched)
        record_deletions(connection, tenant, found)
        bump_tenant_version(connection, tenant)
    return len(found)


def bump_tenant_version(connection: Connection, tenant: str) -> None:
    """Raise the version of a tenant's data, at the end of a transaction, so that caches everywhere follow."""
    connection.execute(_RAISE, (tenant,))


def _stored(database: Database, drafts: Sequence[PreparedRecord]) -> dict[str, _Stored]:
    query = f"""SELECT r.key, r.rowid, r.revision, b.record, v.own, r.expires_at IS NOT NULL AND r.expires_at <= ?
        FROM records r
        JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
        WHERE r.key {AMONG}"""
    found = database.fetch(query, (now_microseconds(), json.dumps([draft.key for draft in drafts])))
    return {key: _Stored(*rest) for key, *rest in found}


def _own_vectors(
    embedder: Embedder,
    codec: TokenCodec | None,
    dimension: int,
    drafts: Sequence[PreparedRecord],
    stored: Mapping[str, _Stored],
) -> _Vectors:
    """Return own vectors, embedding only texts that the store doesn't hold for the same id; of those also tokens."""
    own = {
        draft.key: np.frombuffer(stored[draft.key].own, dtype=np.float16)
        for draft in drafts
        if draft.key in stored and kind_and_text(stored[draft.key].body)[1] == draft.text
    }
    new = [draft for draft in drafts if draft.key not in own]
    if not new:
        return _Vectors(own, {}, {})
    texts = [(draft.kind, draft.text) for draft in new]
    made, keys = embed_texts(embedder, codec, dimension, texts), [draft.key for draft in new]
    own |= dict(zip(keys, made.vectors.astype(np.float16), strict=True))
    return _Vectors(own, dict(zip(keys, made.tokens, strict=True)), dict(zip(keys, made.pieces, strict=True)))


def _write_rows(connection: Connection, drafts: Sequence[PreparedRecord], stored: Mapping[str, _Stored]) -> list[int]:
    """Insert or replace the rows of records and their tags; return their rowids."""
    version = next_version(connection, drafts[0].tenant)
    rowids, new, old = [], [], []
    free = iter(connection.new_rowids(sum(draft.key not in stored and draft.rowid is None for draft in drafts)))
    for draft in drafts:
        length = count_terms(draft.terms)
        known = stored.get(draft.key)
        if known is not None:
            rowids.append(known.rowid)
            old.append({**draft.columns, "terms": length, "rowid": known.rowid})
        else:
            rowids.append(draft.rowid if draft.rowid is not None else next(free))
            new.append({**draft.columns, "terms": length, "rowid": rowids[-1], "changed": version})
    if new:
        names = new[0].keys()
        connection.executemany(f"INSERT INTO records ({','.join(names)}) VALUES (:{',:'.join(names)})", new)
    old.sort(key=itemgetter("rowid"))  # all writers of a shared store lock rows in this order
    if old:
        assigned = ",".join(f"{name} = :{name}" for name in old[0] if name != "rowid")
        connection.executemany(f"UPDATE records SET {assigned} WHERE rowid = :rowid", old)
    connection.executemany("DELETE FROM record_tags WHERE record = ?", [(row["rowid"],) for row in old])
    tags = [(rowid, tag) for rowid, draft in zip(rowids, drafts, strict=True) for tag in draft.tags]
    connection.executemany("INSERT INTO record_tags VALUES (?, ?)", tags)
    return rowids


def _window_row(draft: PreparedRecord, vector: NDArray[np.float16], old: _Stored | None) -> WindowRow:
    facets = facet_tokens(draft.tenant, [draft.columns[name] for name in _OWNERS])
    return WindowRow(
        draft.tenant,
        draft.key,
        old.revision if old is not None else 0,
        draft.body,
        body_checksum(draft.body),
        draft.text,
        draft.terms,
        vector,
        facets,
    )
