"""Keeping both sides equal: pending writes, repair at open, and rebuilding either side (STORE-4, STORE-5).

The sidecar is the commit point. What it holds as pending or as a tombstone may or may not have
reached Chroma; sending it again is harmless, so that repair is simply the rest of the write.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from recall_loop.memory.store.chroma_side import ChromaRow, ChromaSide
from recall_loop.memory.store.drafts import lay_out
from recall_loop.memory.store.indexing import index_text
from recall_loop.memory.store.probe import sound
from recall_loop.memory.store.reading import ids_json
from recall_loop.memory.store.rows import Row
from recall_loop.memory.store.schema import APPLIED, METRIC, PENDING, SCHEMA_VERSION
from recall_loop.memory.store.sidecar import Sidecar, set_meta
from recall_loop.memory.store.windows import reindex
from recall_loop.memory.store.writing import embed, touch_tenant, write
from recall_loop.state.records import RECORD_ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recall_loop.memory.store.embeddings import Embedder

Progress = Callable[[int, int], None]
CHUNK = 256
MARKER = ("generation", "schema", "embedder", "fingerprint", "dimension", "metric")
_T = TypeVar("_T")

_PENDING_ROWS = """SELECT r.rowid, r.key, r.tenant, r.revision, b.record, v.context FROM records r
JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
WHERE r.state = 1 LIMIT ?"""
_BACK = "SELECT t.key FROM tombstones t JOIN records r ON r.key = t.key"
_APPLY = "UPDATE records SET state = ? WHERE rowid IN (SELECT value FROM json_each(?))"
_EVERY = """SELECT r.rowid, r.kind, r.place, b.record, b.terms, '', ''
FROM records r JOIN bodies b ON b.rowid = r.rowid ORDER BY r.rowid"""


def new_marker(embedder: Embedder) -> dict[str, str]:
    """Return the generation marker of a store that `embedder` fills from now on."""
    return {
        "generation": uuid.uuid4().hex,
        "schema": str(SCHEMA_VERSION),
        "embedder": embedder.name,
        "fingerprint": embedder.fingerprint,
        "dimension": str(embedder.dimension),
        "metric": METRIC,
    }


def flush(sidecar: Sidecar, chroma: ChromaSide | None) -> None:
    """Send everything pending to Chroma, then note it as applied. Without Chroma just note it.

    Raises:
        ChromaError: Chroma fails; what was not sent stays pending.
    """
    while True:
        with sidecar.reading() as connection:
            gone = [row[0] for row in connection.execute("SELECT key FROM tombstones LIMIT ?", (CHUNK,))]
            rows = connection.execute(_PENDING_ROWS, (CHUNK,)).fetchall()
            back = {row[0] for row in connection.execute(_BACK)}
        if not gone and not rows:
            return
        if chroma is not None:
            chroma.delete([key for key in gone if key not in back])
            chroma.upsert([_chroma_row(row) for row in rows])
        with sidecar.transaction() as connection:
            connection.executemany("DELETE FROM tombstones WHERE key = ?", [(key,) for key in gone])
            connection.execute(_APPLY, (APPLIED, ids_json(row[0] for row in rows)))


def _chroma_row(row: tuple[int, str, str, int, str, bytes]) -> ChromaRow:
    rowid, key, tenant, revision, body, context = row
    vector = np.frombuffer(context, dtype=np.float16).astype(np.float32)
    return ChromaRow(key, tenant, rowid, revision, body, vector)


def marker_of(sidecar: Sidecar) -> dict[str, str]:
    """Return the generation marker of a sidecar; empty if it was never finished."""
    meta = sidecar.meta()
    return {name: meta[name] for name in MARKER} if "generation" in meta else {}


def size(sidecar: Sidecar) -> int:
    """Return the number of records of all tenants."""
    with sidecar.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])


def data_version(sidecar: Sidecar) -> int:
    """Return a number that every write of any tenant raises."""
    with sidecar.reading() as connection:
        return int(connection.execute("SELECT total(version) FROM tenants").fetchone()[0])


def open_chroma(folder: Path | None, sidecar: Sidecar, *, probe: bool = False) -> ChromaSide:
    """Open the Chroma side for writing, and repair it: finish pending writes, or fill it anew.

    With `probe` its files are tried in another process first, and written anew if that one dies.

    Raises:
        ChromaError: Chroma can't be opened or written.
    """
    if probe and folder is not None and folder.is_dir() and not sound(folder):
        return refill(folder, sidecar)
    marker = marker_of(sidecar)
    chroma = ChromaSide(folder, marker)
    try:
        if chroma.marker() == marker:
            flush(sidecar, chroma)
            if chroma.count() == size(sidecar):
                return chroma
        if chroma.count() == 0:
            fill(sidecar, chroma)
            return chroma
    except BaseException:
        chroma.close()
        raise
    chroma.close()
    return refill(folder, sidecar)


def refill(folder: Path | None, sidecar: Sidecar, progress: Progress | None = None) -> ChromaSide:
    """Throw Chroma's files away and write them anew from the sidecar. No client may be open.

    A crash in between leaves a collection that isn't marked complete: the next open starts again.
    """
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    chroma = ChromaSide(folder, marker_of(sidecar))
    try:
        fill(sidecar, chroma, progress)
    except BaseException:
        chroma.close()
        raise
    return chroma


def fill(sidecar: Sidecar, chroma: ChromaSide, progress: Progress | None = None) -> None:
    """Write every row of the sidecar to an empty collection and mark it complete."""
    query = _PENDING_ROWS.replace("r.state = 1", "r.rowid > ? ORDER BY r.rowid")
    total, done, last = size(sidecar), 0, 0
    while True:
        with sidecar.reading() as connection:
            rows = connection.execute(query, (last, CHUNK)).fetchall()
        if not rows:
            break
        chroma.upsert([_chroma_row(row) for row in rows])
        last, done = rows[-1][0], done + len(rows)
        if progress is not None:
            progress(done, total)
    with sidecar.transaction() as connection:
        connection.execute("DELETE FROM tombstones")
        connection.execute("UPDATE records SET state = ? WHERE state = ?", (APPLIED, PENDING))
    chroma.complete(marker_of(sidecar))


def re_embed(sidecar: Sidecar, embedder: Embedder, progress: Progress | None = None) -> None:
    """Embed every record anew and start a new generation, in one transaction (STORE-5).

    Raises:
        EmbedderError: the embedder fails; the store is as before.
    """
    dimension, total = embedder.dimension, size(sidecar)
    with sidecar.transaction() as connection:
        rows = [Row(*values) for values in connection.execute(_EVERY)]
        for done, part in _chunks(rows):
            texts = [index_text(row.record.model_dump(mode="json")) for row in part]
            vectors = embed(embedder, dimension, texts)
            values = [(vector, vector, row.rowid) for vector, row in zip(vectors, part, strict=True)]
            connection.executemany("UPDATE vectors SET own = ?, context = ? WHERE rowid = ?", values)
            if progress is not None:
                progress(done, total)
        for _, part in _chunks(rows):
            reindex(connection, {row.rowid for row in part}, ())
        for (tenant,) in connection.execute("SELECT tenant FROM tenants").fetchall():
            touch_tenant(connection, tenant)
        set_meta(connection, new_marker(embedder))


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    for start in range(0, len(items), CHUNK):
        part = items[start : start + CHUNK]
        yield start + len(part), part


def sidecar_from_chroma(file: Path, chroma: ChromaSide, marker: dict[str, str], embedder: Embedder) -> None:
    """Write a lost sidecar anew from what Chroma holds; own vectors are embedded again.

    It is built under another name and moved into place when whole. Its rows are left pending, and so
    are sent back to Chroma with their windows made anew.
    """
    building = file.with_name("sidecar.building.sqlite3")
    for leftover in file.parent.glob(f"{building.name}*"):
        leftover.unlink()
    sidecar = Sidecar(building)
    try:
        rows = sorted(chroma.rows(), key=lambda row: (row.tenant, row.rowid))
        dimension = int(marker["dimension"])
        for tenant, group in groupby(rows, key=lambda row: row.tenant):
            for _, part in _chunks(list(group)):
                records = [(RECORD_ADAPTER.validate_json(row.record), row.rowid) for row in part]
                drafts = [lay_out(tenant, record, rowid) for record, rowid in records]
                write(sidecar, embedder, dimension, tenant, drafts)
        with sidecar.transaction() as connection:
            set_meta(connection, marker)
    finally:
        sidecar.close()
    os.replace(building, file)
