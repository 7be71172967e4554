"""The reads behind a view: each one statement over the sidecar, confined to a tenant or a predicate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.cache import Corpus, Vectors
from recall_loop.memory.store.embeddings import normalised
from recall_loop.memory.store.indexing import facet
from recall_loop.memory.store.rows import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.predicate import Predicate
    from recall_loop.memory.store.sidecar import Sidecar

# `json_each` takes any number of ids in one parameter, where a list of marks would not.
_AMONG = "IN (SELECT value FROM json_each(?))"
_CHUNK = 2_000

_ROWS = f"""SELECT r.rowid, r.kind, r.place, b.record, b.terms, b.window, f.window
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN fts f ON f.rowid = r.rowid
WHERE r.tenant = ? AND r.rowid {_AMONG}"""


def ids_json(rowids: Iterable[int]) -> str:
    """Return rowids as the JSON array that `json_each` reads."""
    return json.dumps([int(rowid) for rowid in rowids])


def version(sidecar: Sidecar, tenant: str) -> int:
    """Return the version of a tenant's data; every write raises it."""
    with sidecar.reading() as connection:
        found = connection.execute("SELECT version FROM tenants WHERE tenant = ?", (tenant,)).fetchone()
    return int(found[0]) if found else 0


def rowids(sidecar: Sidecar, predicate: Predicate) -> NDArray[np.int64]:
    """Return the rowids that a predicate allows, ascending."""
    query = f"SELECT r.rowid FROM records r WHERE {predicate.where}"
    with sidecar.reading() as connection:
        found = connection.execute(query, predicate.params).fetchall()
    return np.sort(np.fromiter((row[0] for row in found), dtype=np.int64, count=len(found)))


def rows_of(sidecar: Sidecar, tenant: str) -> int:
    """Return the number of a tenant's rows."""
    with sidecar.reading() as connection:
        found = connection.execute("SELECT count(*) FROM records WHERE tenant = ?", (tenant,)).fetchone()
    return int(found[0])


def corpus(sidecar: Sidecar, tenant: str) -> Corpus:
    """Return size and mean lengths of a tenant's corpus."""
    query = "SELECT count(*), total(terms), total(window_terms) FROM records WHERE tenant = ?"
    with sidecar.reading() as connection:
        count, terms, window_terms = connection.execute(query, (tenant,)).fetchone()
    return Corpus(count, terms / count, window_terms / count) if count else Corpus(0, 0.0, 0.0)


def frequency(sidecar: Sidecar, tenant: str, token: str) -> int:
    """Return the number of a tenant's rows whose window contains an encoded stem."""
    match = f'facets : "{facet("t", tenant)}" AND window : "{token}"'
    with sidecar.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM fts WHERE fts MATCH ?", (match,)).fetchone()[0])


def lexical(sidecar: Sidecar, predicate: Predicate, weights: Mapping[str, float], limit: int) -> list[int]:
    """Return rowids that a predicate allows and whose window has any token, the heaviest tokens first.

    The index's own ranking counts the rows of all tenants, so it isn't used: what a tenant finds would depend
    on what others keep (STORE-3).
    """
    one = "SELECT rowid, ? AS weight FROM fts WHERE fts MATCH ?"
    each = " UNION ALL ".join([one] * len(weights))
    query = f"""SELECT f.rowid FROM (SELECT rowid, sum(weight) AS total FROM ({each}) GROUP BY rowid) f
        CROSS JOIN records r ON r.rowid = f.rowid WHERE {predicate.where} ORDER BY f.total DESC, f.rowid LIMIT ?"""
    given = [
        part for token, weight in weights.items() for part in (weight, f'{predicate.facets} AND window : "{token}"')
    ]
    with sidecar.reading() as connection:
        return [row[0] for row in connection.execute(query, (*given, *predicate.params, limit))]


def rows(sidecar: Sidecar, tenant: str, wanted: Sequence[int]) -> dict[int, Row]:
    """Return rows of a tenant by rowid."""
    found: dict[int, Row] = {}
    with sidecar.reading() as connection:
        for start in range(0, len(wanted), _CHUNK):
            part = ids_json(wanted[start : start + _CHUNK])
            for values in connection.execute(_ROWS, (tenant, part)):
                found[values[0]] = Row(*values)
    return found


def vectors(sidecar: Sidecar, tenant: str, wanted: Sequence[int] | NDArray[np.int64], dimension: int) -> Vectors:
    """Return the vectors of some of a tenant's rows, by ascending rowid."""
    query = f"""SELECT v.rowid, v.own, v.context FROM vectors v JOIN records r ON r.rowid = v.rowid
        WHERE r.tenant = ? AND v.rowid {_AMONG} ORDER BY v.rowid"""
    with sidecar.reading() as connection:
        return _vectors(connection.execute(query, (tenant, ids_json(wanted))).fetchall(), dimension)


def tenant_vectors(sidecar: Sidecar, tenant: str, dimension: int) -> Vectors:
    """Return all vectors of a tenant, by ascending rowid."""
    query = """SELECT v.rowid, v.own, v.context FROM records r JOIN vectors v ON v.rowid = r.rowid
        WHERE r.tenant = ? ORDER BY v.rowid"""
    with sidecar.reading() as connection:
        return _vectors(connection.execute(query, (tenant,)).fetchall(), dimension)


def _vectors(found: list[tuple[int, bytes, bytes]], dimension: int) -> Vectors:
    """Unpack half-precision blobs; unit length is restored, since halves are a little off."""
    numbers = np.fromiter((row[0] for row in found), dtype=np.int64, count=len(found))
    unpacked = []
    for column in (1, 2):
        joined = b"".join(row[column] for row in found)  # type: ignore[misc]
        halves = np.frombuffer(joined, dtype=np.float16).reshape(len(found), dimension)
        matrix = normalised(halves.astype(np.float32))
        matrix.setflags(write=False)
        unpacked.append(matrix)
    return Vectors(numbers, unpacked[0], unpacked[1])


def keys_to_rowids(sidecar: Sidecar, tenant: str, keys: Sequence[str]) -> dict[str, int]:
    """Return the rowids of Chroma's ids; another tenant's are left out."""
    query = f"SELECT key, rowid FROM records WHERE tenant = ? AND key {_AMONG}"
    with sidecar.reading() as connection:
        return dict(connection.execute(query, (tenant, json.dumps(list(keys)))))
