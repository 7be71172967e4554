"""Neighbours and windows in the sidecar (STORE-7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.encoding.indexing import (
    context_vectors,
    count_terms,
    encode_tokens,
    facet_token,
    kind_and_text,
)
from recall_loop.memory.store.tables.database import AMONG_ROWS, PENDING, Connection, ids_json
from recall_loop.memory.store.tables.record_queries import (
    ThreadLinks,
    context_links,
    neighbour_rowids,
    window_neighbours,
)

_PARTS = f"""SELECT r.rowid, r.tenant, r.key, r.revision, b.record, r.checksum, b.terms, b.window, v.own, v.context,
 r.commit_number, r.agent_id, r.user_id, r.conversation_id, r.session
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
WHERE r.rowid {AMONG_ROWS}"""

# The version at the end of the transaction, which raises it.
_VERSION = "coalesce((SELECT t.version FROM tenants t WHERE t.tenant = records.tenant), 0) + 1"
_BODIES = """INSERT INTO bodies VALUES (?, ?, ?, ?) ON CONFLICT (rowid)
DO UPDATE SET record = excluded.record, terms = excluded.terms, "window" = excluded."window" """
_VECTORS = """INSERT INTO vectors VALUES (?, ?, ?)
ON CONFLICT (rowid) DO UPDATE SET own = excluded.own, context = excluded.context"""
_INDEXED = "UPDATE records SET window_terms = ?, commit_number = ?, checksum = ? WHERE rowid = ?"
_NOTE = f"UPDATE records SET revision = ?, state = {PENDING}, changed = {_VERSION} WHERE rowid = ?"


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A row as far as windows need it.

    Attributes:
        revision: of the row as it stands; 0 for a row that wasn't there before.
        checksum: of `body`, as it was when it was written; None in a store from before there were any.
        text: index text.
        terms: its stems, joined by blanks.
        own: own vector, as it is stored.
        commit_number: of the commit that wrote the record; 0 where this transaction does.
        window: window as it is stored; None if the record itself was written in this transaction.
        context: context vector as it is stored.
    """

    tenant: str
    key: str
    revision: int
    body: str
    checksum: int | None
    text: str
    terms: str
    own: NDArray[np.float16]
    facets: str
    commit_number: int = 0
    window: str | None = None
    context: bytes = b""


@dataclass(frozen=True, slots=True)
class _Indexed:
    rowid: int
    part: WindowRow
    window: str
    context: bytes
    tokens: str


def facet_tokens(tenant: str, owners: Sequence[str | None]) -> str:
    """Return the lexical index's tokens for tenant, agent, user, conversation and session."""
    named = zip("taucs", (tenant, *owners), strict=True)
    return " ".join(facet_token(name, value) for name, value in named if value is not None)


def reindex(
    connection: Connection,
    changed: Collection[int],
    touched: Collection[int],
    written: Mapping[int, WindowRow] | None = None,
    *,
    context_windows: bool = True,
) -> list[ChromaRow]:
    """Bring windows, context vectors and lexical index up to date, within a transaction; return the rows now pending.

    Args:
        connection: the one that writes.
        changed: rows whose own record or vector was written; always indexed again.
        touched: rows that may have got other neighbours; with the rows beside `changed`, indexed again if their window
            has changed.
        context_windows: whether a window holds the neighbours; else each record is its own.
        written: rows of `changed` whose bodies and vectors are still to be written: done here.
    """
    known = dict(written or {})
    beside = window_neighbours(connection, changed) if context_windows else set()
    others = {*touched, *beside}.difference(changed)
    affected = others.union(changed)
    links = context_links(connection, affected) if context_windows else {}
    parts = _load(connection, (affected | neighbour_rowids(links)) - known.keys()) | known
    stale = _stale(sorted(affected & parts.keys()), links, parts, changed)
    number = connection.next_commit() if written else 0
    _save(connection, stale, number)
    return [
        ChromaRow(
            row.part.key,
            row.part.tenant,
            row.rowid,
            row.part.revision + 1,
            row.part.body,
            np.frombuffer(row.context, dtype=np.float16).astype(np.float32),
            row.part.commit_number or number,
            row.part.checksum,
        )
        for row in stale
    ]


def _load(connection: Connection, rowids: Iterable[int]) -> dict[int, WindowRow]:
    found: dict[int, WindowRow] = {}
    for row in connection.execute(_PARTS, (ids_json(rowids),)):
        rowid, tenant, key, revision, body, checksum, terms, window, own, context, commit, *owners = row
        text, vector = kind_and_text(body)[1], np.frombuffer(own, dtype=np.float16)
        facets = facet_tokens(tenant, owners)
        found[rowid] = WindowRow(
            tenant, key, revision, body, checksum, text, terms, vector, facets, commit, window, context
        )
    return found


def _stale(
    rowids: Sequence[int], links: ThreadLinks, parts: Mapping[int, WindowRow], changed: Collection[int]
) -> list[_Indexed]:
    """Compute rows again; return those that differ from the stored ones."""
    halves = _contexts(rowids, links, parts)
    always, found = set(changed), []
    for number, rowid in enumerate(rowids):
        before, after = links.get(rowid, (None, None))
        part = parts[rowid]
        beside_it = parts[before] if before is not None else None, parts[after] if after is not None else None
        around = (beside_it[0], part, beside_it[1])
        window, context = "\n".join(each.text for each in around if each), halves[number].tobytes()
        if rowid in always or window != part.window or context != part.context:
            tokens = _tokens(part, *beside_it)
            found.append(_Indexed(rowid, part, window, context, tokens))
    return found


def _tokens(part: WindowRow, before: WindowRow | None, after: WindowRow | None) -> str:
    """Return the encoded stems of a window; where there are others, the record's own count twice."""
    own = encode_tokens(part.terms)
    if before is None and after is None:
        return own
    sides = [encode_tokens(side.terms) if side else "" for side in (before, after)]
    return " ".join(filter(None, (sides[0], own, own, sides[1])))


def _contexts(rowids: Sequence[int], links: ThreadLinks, parts: Mapping[int, WindowRow]) -> NDArray[np.float16]:
    """Return the rows' context vectors as they are stored."""
    if not rowids:
        return np.empty((0, 0), dtype=np.float16)
    place = {rowid: number for number, rowid in enumerate(parts)}
    own = np.stack([part.own for part in parts.values()]).astype(np.float32)
    sides = [[place[side] if side is not None else -1 for side in links.get(rowid, (None, None))] for rowid in rowids]
    chosen = np.array([place[rowid] for rowid in rowids])
    return context_vectors(own, chosen, np.array(sides)).astype(np.float16)


def _save(connection: Connection, rows: Sequence[_Indexed], number: int) -> None:
    """Write what was worked out, new records as commit `number`; the index's old entry goes where there was one."""
    whole = [row for row in rows if row.part.window is None]
    rest = [row for row in rows if row.part.window is not None]
    connection.executemany(_BODIES, [(row.rowid, row.part.body, row.part.terms, row.window) for row in whole])
    connection.executemany(_VECTORS, [(row.rowid, row.part.own.tobytes(), row.context) for row in whole])
    connection.executemany('UPDATE bodies SET "window" = ? WHERE rowid = ?', [(row.window, row.rowid) for row in rest])
    connection.executemany("UPDATE vectors SET context = ? WHERE rowid = ?", [(row.context, row.rowid) for row in rest])
    connection.executemany("DELETE FROM fts WHERE rowid = ?", [(row.rowid,) for row in rows if row.part.revision])
    connection.executemany(
        'INSERT INTO fts (rowid, facets, "window") VALUES (?, ?, ?)',
        [(row.rowid, row.part.facets, row.tokens) for row in rows],
    )
    values = [(count_terms(row.tokens), row.part.commit_number or number, row.part.checksum, row.rowid) for row in rows]
    connection.executemany(_INDEXED, values)
    connection.executemany(_NOTE, [(row.part.revision + 1, row.rowid) for row in rows if row.part.revision])
