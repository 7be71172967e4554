"""The reads behind a view: each one statement over the sidecar, confined to a tenant or a predicate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.encoding.indexing import encode_tokens, facet_token
from recall_loop.memory.store.index.indexed_row import Row
from recall_loop.memory.store.index.piece_table import PieceTable
from recall_loop.memory.store.index.row_columns import IndexRow
from recall_loop.memory.store.index.vectors import RowVectors
from recall_loop.memory.store.tables.database import (
    AMONG,
    AMONG_ROWS,
    Database,
    DatabaseDamagedError,
    LexicalIndexError,
    chunks,
    ids_json,
)
from recall_loop.memory.store.tables.predicate import UNEXPIRED, Predicate
from recall_loop.memory.store.tables.record_queries import window_neighbours
from recall_loop.memory.store.tables.trajectory_predicate import score_sql, text_sql

_CHUNK = 2_000

_JOIN_WINDOW = " JOIN fts f ON f.rowid = r.rowid"
_ROWS = f"""SELECT r.rowid, r.checksum, r.kind, b.record, b.terms, b.window
FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant || '' = ? AND r.rowid {AMONG_ROWS}"""


# The share of a record's blocks that is not speech: reasoning, tool use and tool results (SEARCH-5).
_ASIDE = """CASE WHEN json_type(b.record, '$.blocks') IS NULL THEN 0.0 ELSE
 (SELECT coalesce(sum(CASE WHEN json_extract(p.value, '$.type') = 'text' THEN 0.0e0
   ELSE length(json_extract(p.value, '$.text')) END) / nullif(sum(length(json_extract(p.value, '$.text'))), 0), 0)
  FROM json_each(b.record, '$.blocks') p) END"""
# Columns for the filters of trajectories; for other records nothing is parsed.
_OF_RUNS = ", ".join(
    f"CASE WHEN r.kind = 'trajectory' THEN {part} END"
    for part in (
        *(text_sql("b.record", name) for name in ("execution_status", "task_category", "complexity_level")),
        score_sql("b.record"),
    )
)
_INDEX_ROWS = f"""SELECT r.rowid, coalesce(r.role = 'tool', FALSE), {_ASIDE}, r.created_at,
 CASE WHEN r.session IS NULL THEN NULL ELSE r.place END,
 coalesce(json_extract(b.record, '$.author'), json_extract(b.record, '$.subject')), r.kind, r.agent_id, r.user_id,
 r.conversation_id, r.session, r.role, r.label, r.fact_type, {_OF_RUNS}, r.superseded_by IS NOT NULL, r.valid_until,
 b.terms, f.window
FROM records r JOIN bodies b ON b.rowid = r.rowid{_JOIN_WINDOW}
WHERE r.tenant = ? AND {UNEXPIRED}"""

_VECTORS = "SELECT v.rowid, v.context, v.own FROM records r JOIN vectors v ON v.rowid = r.rowid WHERE r.tenant = ?"
_PIECES = """SELECT p.rowid, p.vectors FROM records r JOIN pieces p ON p.rowid = r.rowid
WHERE r.tenant = ? AND r.kind = 'trajectory'"""


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Size of a tenant's corpus: number of rows, mean number of own stems and of window stems."""

    rows: int
    mean_terms: float
    mean_window_terms: float


def expired_rowids(
    sidecar: Database, tenant: str, after: int, until: int, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the rows of a tenant that expire after one time, up to another (microseconds since 1970), ascending.

    Only those in `among`, if given.
    """
    query = "SELECT rowid FROM records WHERE tenant = ? AND expires_at > ? AND expires_at <= ?"
    return np.sort(_column(sidecar.fetch(*_narrowed(query, (tenant, after, until), "rowid", among))))


def next_expiry(sidecar: Database, tenant: str, moment: int) -> int | None:
    """Return when the next row of a tenant expires after `moment`; None where none does."""
    query = "SELECT min(expires_at) FROM records WHERE tenant = ? AND expires_at > ?"
    found = sidecar.fetch(query, (tenant, moment))[0][0]
    return None if found is None else int(found)


def read_window_neighbours(sidecar: Database, rowids: NDArray[np.int64]) -> set[int]:
    """Return the messages in whose windows some rows may stand."""
    if not len(rowids):
        return set()
    with sidecar.reading() as connection:
        return window_neighbours(connection, rowids)


def matching_rowids(
    sidecar: Database, predicate: Predicate, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the rowids that a predicate allows, ascending; only of those in `among`, if given."""
    query = f"SELECT r.rowid FROM records r WHERE {predicate.where}"
    return np.sort(_column(sidecar.fetch(*_narrowed(query, predicate.params, "r.rowid", among))))


def tagged_rowids(sidecar: Database, tag: str, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the rowids that have a tag, of any tenant; only of those in `among`, if given."""
    query = "SELECT record FROM record_tags WHERE tag = ?"
    return np.sort(_column(sidecar.fetch(*_narrowed(query, (tag,), "record", among))))


def tagged_rowids_if_few(sidecar: Database, tag: str, most: int) -> NDArray[np.int64] | None:
    """Return the rowids that have a tag, of any tenant; None if they are more than `most`."""
    rows = sidecar.fetch("SELECT record FROM record_tags WHERE tag = ? LIMIT ?", (tag, most + 1))
    return None if len(rows) > most else _column(rows)


def newest_rowids(sidecar: Database, predicate: Predicate, limit: int) -> list[int]:
    """Return the rowids that a predicate allows, latest time first."""
    query = f"""SELECT r.rowid FROM records r WHERE {predicate.where}
        ORDER BY r.created_at IS NULL, r.created_at DESC, r.rowid LIMIT ?"""
    return [rowid for (rowid,) in sidecar.fetch(query, (*predicate.params, limit))]


def read_index_rows(
    sidecar: Database, tenant: str, moment: int, among: NDArray[np.int64] | None = None
) -> list[IndexRow]:
    """Return a tenant's rows as the index in memory needs them, by ascending rowid; all, or those in `among`.

    Rows that have expired at `moment` (microseconds since 1970) are left out.

    While the full-text index is damaged, each row's own stems stand for its window (SEARCH-9).
    """
    query, params = _narrowed(_INDEX_ROWS, (tenant, moment), "r.rowid", among)
    try:
        found = sidecar.fetch(query, params)
    except LexicalIndexError:
        plain = query.replace("f.window", "b.terms").replace(_JOIN_WINDOW, "")
        found = [(*row[:-1], encode_tokens(row[-1])) for row in sidecar.fetch(plain, params)]
    return [IndexRow(*row) for row in sorted(found, key=lambda row: int(row[0]))]


def _narrowed(
    query: str, params: tuple[Any, ...], column: str, among: Iterable[int] | None
) -> tuple[str, tuple[Any, ...]]:
    """Return a statement, with its parameters, for those rows whose `column` is in `among`; None = all.

    `tenant || ''` keeps SQLite from an index of the tenant where rows are named: it would read all of the tenant's.
    """
    if among is None:
        return query, params
    unindexed = query.replace("tenant =", "tenant || '' =", 1)
    return f"{unindexed} AND {column} {AMONG_ROWS}", (*params, ids_json(among))


def _column(rows: list[tuple[int, ...]]) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows))


def count_rows(sidecar: Database, tenant: str) -> int:
    """Return the number of a tenant's rows."""
    return int(sidecar.fetch("SELECT count(*) FROM records WHERE tenant = ?", (tenant,))[0][0])


def corpus_statistics(sidecar: Database, tenant: str) -> CorpusStatistics:
    """Return size and mean lengths of a tenant's corpus."""
    query = """SELECT count(*), CAST(coalesce(sum(terms), 0) AS DOUBLE PRECISION),
        CAST(coalesce(sum(window_terms), 0) AS DOUBLE PRECISION) FROM records WHERE tenant = ?"""
    ((count, terms, window_terms),) = sidecar.fetch(query, (tenant,))
    return CorpusStatistics(count, terms / count, window_terms / count) if count else CorpusStatistics(0, 0.0, 0.0)


def window_frequency(sidecar: Database, tenant: str, token: str) -> int:
    """Return the number of a tenant's rows whose window contains an encoded stem."""
    condition, value = sidecar.dialect.posting([facet_token("t", tenant)], token)
    return int(sidecar.fetch(f"SELECT count(*) FROM fts WHERE {condition}", (value,))[0][0])


def read_vocabulary(sidecar: Database, tenant: str, moment: int) -> dict[str, int]:
    """Return a tenant's stems and how many rows, not expired at `moment`, have each in their own text."""
    query = f"SELECT b.terms FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.tenant = ? AND {UNEXPIRED}"
    found: Counter[str] = Counter()
    with sidecar.reading() as connection:
        for (terms,) in connection.execute(query, (tenant, moment)):
            found.update(set(terms.split()))
    return dict(found)


def read_posting(sidecar: Database, facets: Sequence[str], token: str) -> NDArray[np.int64]:
    """Return the rowids whose window has a token and whose facets match, ascending; none = of all tenants.

    The index's own ranking counts the rows of all tenants, so it isn't used: what a tenant finds would depend
    on what others keep (STORE-3).
    """
    condition, value = sidecar.dialect.posting(facets, token)
    return _column(sidecar.fetch(f"SELECT rowid FROM fts WHERE {condition} ORDER BY rowid", (value,)))


def has_own_stem(sidecar: Database, rowids: NDArray[np.int64], stem: str) -> bool:
    """Return whether one of some rows has a stem in its own text."""
    query = f"SELECT 1 FROM bodies WHERE rowid {AMONG_ROWS} AND instr(' ' || terms || ' ', ?) > 0 LIMIT 1"
    return bool(sidecar.fetch(query, (ids_json(rowids), f" {stem} ")))


def last_rowid(sidecar: Database) -> int:
    """Return the highest rowid: about the number of rows of all tenants."""
    return int(sidecar.fetch("SELECT coalesce(max(rowid), 0) FROM records")[0][0])


def read_rows(sidecar: Database, tenant: str, wanted: Sequence[int]) -> dict[int, Row]:
    """Return rows of a tenant by rowid."""
    found: dict[int, Row] = {}
    for part in chunks(wanted, _CHUNK):
        for rowid, checksum, kind, body, terms, window in sidecar.fetch(_ROWS, (tenant, ids_json(part))):
            found[rowid] = Row(rowid, kind, sidecar.sound_body(rowid, body, checksum), terms, window)
    return found


def read_vectors(
    sidecar: Database,
    tenant: str,
    dimension: int,
    wanted: NDArray[np.int64] | None = None,
    *,
    float16: bool = False,
) -> RowVectors:
    """Return vectors of a tenant's rows, or those `wanted`, by ascending rowid; own ones as stored with `float16`."""
    query, params = _narrowed(_VECTORS, (tenant,), "v.rowid", wanted)
    found = sidecar.fetch(f"{query} ORDER BY v.rowid", params)
    numbers = np.fromiter((row[0] for row in found), dtype=np.int64, count=len(found))
    context, own = ([row[place] for row in found] for place in (1, 2))
    if not float16:
        return RowVectors(numbers, _unpacked(own, dimension), _unpacked(context, dimension))
    kept = _float16_matrix(own, dimension)
    parts = (kept[start : start + _CHUNK].astype(np.float32) for start in range(0, len(kept), _CHUNK))
    lengths = [np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    return RowVectors(
        numbers, kept, _unpacked(context, dimension), np.concatenate([np.zeros((0, 1), np.float32), *lengths])
    )


def _float16_matrix(blobs: Sequence[bytes], dimension: int) -> NDArray[np.float16]:
    try:
        return np.frombuffer(b"".join(blobs), dtype=np.float16).reshape(len(blobs), dimension)
    except (TypeError, ValueError) as error:
        raise DatabaseDamagedError(f"the sidecar is damaged: vectors with a length other than {dimension}") from error


def _unpacked(blobs: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Return vectors of unit length, which float16 ones are a little off."""
    matrix = normalise_vectors(_float16_matrix(blobs, dimension).astype(np.float32))
    matrix.setflags(write=False)
    return matrix


def rowids_by_key(sidecar: Database, tenant: str, keys: Sequence[str]) -> dict[str, int]:
    """Return the rowids of Chroma's ids; another tenant's are left out."""
    query = f"SELECT key, rowid FROM records WHERE tenant || '' = ? AND key {AMONG}"
    return dict(sidecar.fetch(query, (tenant, json.dumps(list(keys)))))


def read_pieces(sidecar: Database, tenant: str, dimension: int, among: NDArray[np.int64] | None = None) -> PieceTable:
    """Return the pieces of a tenant's long records; all, or of those in `among`."""
    found = sidecar.fetch(*_narrowed(_PIECES, (tenant,), "p.rowid", among))
    rows = [(rowid, np.frombuffer(vectors, dtype=np.float16).reshape(-1, dimension)) for rowid, vectors in found]
    return PieceTable.from_rows([(row, normalise_vectors(part.astype(np.float32))) for row, part in rows], dimension)
