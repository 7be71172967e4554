"""Neighbours and windows in the sidecar (STORE-7)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.indexing import (
    context_vector,
    encode,
    facet,
    index_text,
    window_of,
    window_terms,
)
from recall_loop.memory.store.reading import ids_json
from recall_loop.memory.store.schema import PENDING

_LINKS = """SELECT r.rowid,
 (SELECT p.rowid FROM records p WHERE p.thread = r.thread
   AND (p.order_key, p.rowid) < (r.order_key, r.rowid) ORDER BY p.order_key DESC, p.rowid DESC LIMIT 1),
 (SELECT n.rowid FROM records n WHERE n.thread = r.thread
   AND (n.order_key, n.rowid) > (r.order_key, r.rowid) ORDER BY n.order_key, n.rowid LIMIT 1)
FROM records r WHERE r.rowid IN (SELECT value FROM json_each(?)) AND r.thread IS NOT NULL"""

_PARTS = """SELECT r.rowid, b.record, b.terms, b.window, v.own, v.context,
 r.tenant, r.agent_id, r.user_id, r.conversation_id, r.session
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
WHERE r.rowid IN (SELECT value FROM json_each(?))"""

Links = dict[int, tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A row as far as windows need it."""

    text: str
    terms: list[str]
    window: str
    own: NDArray[np.float32]
    context: bytes
    facets: str


def neighbours(connection: sqlite3.Connection, rowids: Iterable[int]) -> Links:
    """Return previous and next row of each message that has a thread."""
    found = connection.execute(_LINKS, (ids_json(rowids),))
    return {rowid: (before, after) for rowid, before, after in found}


def beside(links: Links) -> set[int]:
    """Return all rows that stand beside others."""
    return {rowid for pair in links.values() for rowid in pair if rowid is not None}


def reindex(connection: sqlite3.Connection, changed: Collection[int], touched: Collection[int]) -> None:
    """Bring windows, context vectors and lexical index up to date, within a transaction.

    Args:
        connection: the sidecar's writing connection.
        changed: rows whose own record was written; always indexed again.
        touched: rows that may have got other neighbours; with the rows beside `changed`, indexed
            again if their window has changed.
    """
    affected = {*changed, *touched, *beside(neighbours(connection, changed))}
    links = neighbours(connection, affected)
    parts = _load(connection, affected | beside(links))
    for rowid in sorted(affected & parts.keys()):
        before, after = links.get(rowid, (None, None))
        _index(
            connection,
            rowid,
            parts[rowid],
            parts[before] if before is not None else None,
            parts[after] if after is not None else None,
            always=rowid in changed,
        )


def _load(connection: sqlite3.Connection, rowids: Iterable[int]) -> dict[int, _Part]:
    found: dict[int, _Part] = {}
    for rowid, body, terms, window, own, context, *owners in connection.execute(_PARTS, (ids_json(rowids),)):
        named = zip("taucs", owners, strict=True)
        facets = " ".join(facet(name, value) for name, value in named if value is not None)
        vector = np.frombuffer(own, dtype=np.float16).astype(np.float32)
        found[rowid] = _Part(index_text(json.loads(body)), terms.split(), window, vector, context, facets)
    return found


def _index(
    connection: sqlite3.Connection,
    rowid: int,
    part: _Part,
    before: _Part | None,
    after: _Part | None,
    *,
    always: bool,
) -> None:
    window = window_of([before.text if before else None, part.text, after.text if after else None])
    vector = context_vector(part.own, before.own if before else None, after.own if after else None)
    context = vector.astype(np.float16).tobytes()
    if not always and window == part.window and context == part.context:
        return
    joined = before is not None or after is not None
    terms = part.terms
    if joined:
        terms = window_terms(before.terms if before else (), part.terms, after.terms if after else ())
    tokens = " ".join(encode(term) for term in terms)
    connection.execute("UPDATE bodies SET window = ? WHERE rowid = ?", (window, rowid))
    connection.execute("UPDATE vectors SET context = ? WHERE rowid = ?", (context, rowid))
    connection.execute("DELETE FROM fts WHERE rowid = ?", (rowid,))
    connection.execute("INSERT INTO fts (rowid, facets, window) VALUES (?, ?, ?)", (rowid, part.facets, tokens))
    connection.execute(
        "UPDATE records SET window_terms = ?, revision = revision + 1, state = ? WHERE rowid = ?",
        (len(terms), PENDING, rowid),
    )
