"""Rebuilding the sidecar: with another embedder, or from what Chroma holds (STORE-4, STORE-5)."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from recall_loop.memory.store.encoding.indexing import kind_and_text
from recall_loop.memory.store.files.file_names import (
    DATABASE_ENDINGS,
    SIDECAR_BUILDING_FILE,
    SIDECAR_FILE,
    SUSPECT_FILE,
    quarantine_name,
)
from recall_loop.memory.store.recovery.recovery import CHUNK, ProgressCallback, count_records, new_marker
from recall_loop.memory.store.sqlite.prepared_records import prepare_record
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase, set_meta
from recall_loop.memory.store.write.commits import bump_tenant_version, write_records
from recall_loop.memory.store.write.context_windows import reindex
from recall_loop.memory.store.write.stored_tokens import (
    active_codec,
    drop_stale_tokens,
    embed_with_tokens,
    write_token_rows,
)
from recall_loop.state.records.records import RECORD_ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
    from recall_loop.memory.store.embed.embedders import Embedder

_T = TypeVar("_T")


def re_embed(database: SqliteDatabase, embedder: Embedder, progress: ProgressCallback | None = None) -> None:
    """Embed every record again and start a new generation, in one transaction (STORE-5).

    Raises:
        EmbedderError: the embedder fails; the store is as before.
    """
    dimension, total, codec = embedder.dimension, count_records(database), active_codec(database, embedder)
    with database.transaction() as connection:
        drop_stale_tokens(connection, codec)
        rows = connection.execute("SELECT rowid, record FROM bodies ORDER BY rowid").fetchall()
        for done, part in _chunks(rows):
            rowids = [rowid for rowid, _ in part]
            texts = [kind_and_text(body) for _, body in part]
            made, packed = embed_with_tokens(embedder, codec, dimension, texts)
            write_token_rows(connection, dict(zip(rowids, packed, strict=True)))
            vectors = [vector.tobytes() for vector in made.astype(np.float16)]
            values = [(vector, vector, rowid) for vector, rowid in zip(vectors, rowids, strict=True)]
            connection.executemany("UPDATE vectors SET own = ?, context = ? WHERE rowid = ?", values)
            if progress is not None:
                progress(done, total)
        for _, part in _chunks(rows):
            reindex(connection, {rowid for rowid, _ in part}, ())
        for (tenant,) in connection.execute("SELECT tenant FROM tenants").fetchall():
            bump_tenant_version(connection, tenant)
        set_meta(connection, new_marker(embedder))


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    for start in range(0, len(items), CHUNK):
        part = items[start : start + CHUNK]
        yield start + len(part), part


def rebuild_sidecar(
    file: Path, chroma: ChromaIndex, marker: dict[str, str], embedder: Embedder, notes: Mapping[str, str]
) -> int:
    """Rebuild a lost sidecar from Chroma; return its number of records.

    Own vectors are embedded again. It is built under another name and moved into place when whole. Its
    rows are left pending, and so are sent back to Chroma with new windows. `notes` are the
    store's other notes about itself.
    """
    building = file.with_name(SIDECAR_BUILDING_FILE)
    remove_building(building)
    database = SqliteDatabase(building)
    try:
        rows = sorted(chroma.rows(), key=lambda row: (row.tenant, row.rowid))
        dimension = int(marker["dimension"])
        for tenant, group in groupby(rows, key=lambda row: row.tenant):
            for _, part in _chunks(list(group)):
                records = [(RECORD_ADAPTER.validate_json(row.record), row.rowid) for row in part]
                drafts = [prepare_record(tenant, record, rowid) for record, rowid in records]
                write_records(database, embedder, dimension, drafts)
        with database.transaction() as connection:
            set_meta(connection, {**marker, **notes})
    finally:
        database.close()
    os.replace(building, file)
    return len(rows)


def remove_building(building: Path) -> None:
    """Remove what a crash left of a sidecar that was being built."""
    for leftover in building.parent.glob(f"{building.name}*"):
        leftover.unlink()


def quarantine_sidecar(store: Path) -> str:
    """Move a damaged sidecar out of the way, with its write-ahead file; return its new name.

    Raises:
        OSError: it can't be renamed.
    """
    name = quarantine_name(store)
    for ending in DATABASE_ENDINGS:
        if (store / f"{SIDECAR_FILE}{ending}").exists():
            (store / f"{SIDECAR_FILE}{ending}").rename(store / f"{name}{ending}")
    (store / SUSPECT_FILE).unlink(missing_ok=True)
    return name
