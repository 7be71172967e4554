"""Comparing what the tables and Chroma hold, row by row (STORE-4, GUARD-6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import AMONG, Database

MEND = "repaired by opening the store for writing or `recall-loop store rebuild`"
_SHOWN = 3
_PAGE = 5_000
# Half precision and Chroma's normalisation rotate a vector by less than this.
_SAME = 0.999
_WAITING = "SELECT key FROM records WHERE state = 1 UNION SELECT key FROM tombstones WHERE state = 1"
_ROWS = f"""SELECT r.key, r.rowid, r.revision, r.id, v.context, r.checksum, {{bytes}}
FROM records r LEFT JOIN vectors v ON v.rowid = r.rowid LEFT JOIN bodies b ON b.rowid = r.rowid
WHERE r.key {AMONG}"""


@dataclass
class SideComparison:
    """What differs, a line each; how many rows Chroma has, if they are the store's; whether texts are damaged."""

    findings: list[str] = field(default_factory=list)
    rows: int | None = None
    damaged: bool = False


def compare_sides(database: Database, chroma: ChromaIndex) -> SideComparison:
    """Compare generation, ids, revisions and vectors of both sides; unsent rows are left out."""
    side = chroma.marker()
    if side != marker_of(database):
        words = f"generation {side['generation']}" if side else "never completely filled"
        return SideComparison([f"Chroma doesn't match the sidecar: {words}; `recall-loop store rebuild` fills it anew"])
    settled = database.fetch("SELECT count(*) FROM records WHERE state = 0")[0][0]
    rows, seen, wrong = _differences(database, chroma)
    missing = [f"records missing from Chroma: {settled - seen}"] if seen < settled else []
    told = [f"{words}: {named_ids(ids)}" for words, ids in wrong.items()]
    return SideComparison([*missing, *told], rows, any(MEND in words for words in wrong))


def named_ids(ids: Sequence[str]) -> str:
    """Return the number of ids, and the first of them."""
    return f"{len(ids)} ({', '.join(ids[:_SHOWN])}{', …' if len(ids) > _SHOWN else ''})"


def _differences(database: Database, chroma: ChromaIndex) -> tuple[int, int, dict[str, list[str]]]:
    """Return the number of Chroma's rows, how many of them the tables have too, and ids by what is wrong with them."""
    waiting = {row[0] for row in database.fetch(_WAITING)}
    query = _ROWS.format(bytes=database.dialect.record_bytes)
    count = seen = 0
    wrong: dict[str, list[str]] = {}
    every = chroma.rows(vectors=True)
    while rows := list(islice(every, _PAGE)):
        count += len(rows)
        stored = {key: row for key, *row in database.fetch(query, (json.dumps([row.key for row in rows]),))}
        for row in rows:
            if row.key in waiting:
                continue
            known = stored.get(row.key)
            seen += known is not None
            if (what := _difference(row, known)) is not None:
                wrong.setdefault(what, []).append(row.key if known is None else known[2])
    return count, seen, wrong


def _difference(row: ChromaRow, known: Sequence[Any] | None) -> str | None:
    if known is None:
        return "rows in Chroma that the sidecar doesn't have"
    rowid, revision, _, context, checksum, body = known
    if not row.is_sound:
        return f"texts that are damaged in Chroma, {MEND}"
    if (row.rowid, row.revision) != (rowid, revision):
        return "records of another revision in Chroma"
    if row.checksum != checksum and _without_expiry(row.record) != _without_expiry(body):
        return f"records with another text in Chroma, {MEND}"
    return None if context is None or _is_same_vector(row.vector, context) else "records with another vector in Chroma"


def _is_same_vector(vector: Any, context: bytes) -> bool:
    ours, theirs = np.frombuffer(context, dtype=np.float16).astype(np.float32), np.asarray(vector, dtype=np.float32)
    scale = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    return ours.shape == theirs.shape and (scale <= 0 or float(ours @ theirs) >= _SAME * scale)


def _without_expiry(body: str | bytes | None) -> object:
    """Return a record's fields but for its expiry, which only the sidecar prolongs; the body where it is no record."""
    try:
        fields = json.loads(body or "")
        fields.pop("expires_at", None)
    except (AttributeError, ValueError):
        return body
    return fields
