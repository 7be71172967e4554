"""Rebuilding the sidecar and the lexical index, re-embedding, and compacting; files that fail raise `OSError`."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import closing
from itertools import count
from pathlib import Path

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from recall_loop.memory.store.chroma.chroma_tombstones import read_tombstones
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.encoding.indexing import index_terms
from recall_loop.memory.store.files.store_files import (
    ASIDE_FOLDER,
    CHROMA_FOLDER,
    DATABASE_ENDINGS,
    OLD_FOLDER,
    SIDECAR_BUILDING_FILE,
    SIDECAR_FILE,
    SUSPECT_FILE,
    quarantined_sidecars,
)
from recall_loop.memory.store.recovery import recovery
from recall_loop.memory.store.sqlite.sqlite_schema import DDL
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.database import (
    RECALLS_SINCE_META_KEY,
    Connection,
    Database,
    LexicalIndexError,
    chunks,
    set_meta,
)
from recall_loop.memory.store.write.commits import bump_tenant_version, write_records
from recall_loop.memory.store.write.context_windows import reindex
from recall_loop.memory.store.write.staged_vectors import StagedVectors, forget_unfit
from recall_loop.memory.store.write.taking_over import note_state, prepare_rows, set_commit
from recall_loop.text.words.tokens import WORDS_VERSION


def re_embed(database: Database, embedder: Embedder, progress: recovery.ProgressCallback | None = None) -> None:
    """Embed every record again, and start a new generation when all are there (STORE-5, OPEN-3).

    Chunks are committed as they come, beside the old vectors, which are replaced at the end, in one transaction. After
    a run that was cut off only those records are embedded that are new, have changed, or were not embedded yet.
    Others' writes are held off; for `progress` see `StagedVectors.fill`.

    Raises:
        EmbedderError: the embedder fails; the store is as before.
    """
    staged = StagedVectors(database, embedder)
    staged.fill(progress)
    with database.transaction() as connection:
        staged.take_over(connection)
        for (tenant,) in connection.execute("SELECT tenant FROM tenants").fetchall():
            bump_tenant_version(connection, tenant)
        changed = recovery.new_marker(embedder)
        del changed["store"], changed[RECALLS_SINCE_META_KEY]
        set_meta(connection, changed)


def rebuild_sidecar(
    file: Path, chroma: ChromaIndex, marker: dict[str, str], embedder: Embedder, notes: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Rebuild a lost sidecar from Chroma; return its number of records, and the ids of those that are damaged.

    Own vectors are embedded again. It is built under another name and moved into place when whole. Its rows are left
    pending, and so are sent back to Chroma with new windows. `notes` are the store's other notes about itself.
    """
    building = file.with_name(SIDECAR_BUILDING_FILE)
    remove_building(building)
    with closing(SqliteDatabase(building)) as database:
        deleted, damaged = read_tombstones(chroma), list[str]()
        living = (row for row in chroma.rows() if deleted.get(row.key, -1) <= row.commit_number)
        rows = sorted(living, key=lambda row: (row.tenant, row.rowid))
        set_commit(database, max((row.commit_number for row in rows), default=0), deleted)
        dimension = int(marker["dimension"])
        for part in chunks(rows, recovery.CHUNK):
            drafts = prepare_rows(part, damaged)
            write_records(database, embedder, dimension, drafts)
            note_state(database, drafts, part)
        database.set_meta({**marker, **notes, recovery.WORDS: str(WORDS_VERSION)})
        kept = recovery.count_records(database)
    os.replace(building, file)
    return kept, damaged


def remove_building(building: Path) -> None:
    """Remove what a crash left of a sidecar that was being built."""
    for leftover in building.parent.glob(f"{building.name}*"):
        leftover.unlink()


def quarantine_sidecar(store: Path) -> str:
    """Move a damaged sidecar out of the way, with its write-ahead file; return its new name."""
    free = next(number for number in count(1) if not any(store.glob(f"sidecar.damaged-{number}*")))
    name = f"sidecar.damaged-{free}.sqlite3"
    for ending in DATABASE_ENDINGS:
        if (store / f"{SIDECAR_FILE}{ending}").exists():
            (store / f"{SIDECAR_FILE}{ending}").rename(store / f"{name}{ending}")
    (store / SUSPECT_FILE).unlink(missing_ok=True)
    return name


_EMPTY = "tenant NOT IN (SELECT DISTINCT tenant FROM records)"


def start_new_generation(database: Database) -> None:
    """Start a new generation, and forget tenants that have no records.

    Their versions would start again from 1: a new generation makes the caches of other processes
    forget theirs.
    """
    with database.transaction() as connection:
        for table in ("tenants", "deleted", "memberships"):
            connection.execute(f"DELETE FROM {table} WHERE {_EMPTY}")
        forget_unfit(connection)
        set_meta(connection, {"generation": uuid.uuid4().hex})


def remove_leftovers(store: Path, *, on_server: bool) -> None:
    """Remove damaged sidecars that were kept aside, what crashes left, and Chroma's folder if a server took over."""
    for file in quarantined_sidecars(store):
        file.unlink()
    remove_building(store / SIDECAR_BUILDING_FILE)
    unused = (OLD_FOLDER, CHROMA_FOLDER) if on_server else (OLD_FOLDER,)
    for folder in (*(store / name for name in unused), *store.glob(f"{ASIDE_FOLDER}*")):
        chroma_files.remove_path(folder)


_CHECK = "INSERT INTO fts(fts, rank) VALUES ('integrity-check', 1)"
_SHADOWS = ("data", "idx", "content", "docsize", "config")
_TABLE = next(line for line in DDL.splitlines() if line.startswith("CREATE VIRTUAL TABLE fts "))
_UNEQUAL = """SELECT (SELECT count(*) FROM records WHERE rowid NOT IN (SELECT id FROM fts_docsize)),
(SELECT count(*) FROM fts_docsize WHERE id NOT IN (SELECT rowid FROM records))"""


def check_lexical_index(database: SqliteDatabase) -> str | None:
    """Return the damage of the lexical index, or None. Takes SQLite's write lock, and changes nothing."""
    try:
        with database.transaction() as connection:
            connection.execute(_CHECK)
            missing, extra = connection.execute(_UNEQUAL).fetchone()
    except LexicalIndexError as error:
        return str(error)
    return f"{missing} rows are missing, {extra} too many" if missing or extra else None


def rebuild_lexical_index(database: SqliteDatabase) -> None:
    """Throw the lexical index away and rebuild it, in one transaction; rows become pending for Chroma.

    A broken full-text table can't even be dropped, so it is taken out of the schema first.
    """
    with database.transaction() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = 'fts'")
        connection.execute("PRAGMA writable_schema = RESET")
        for name in _SHADOWS:
            connection.execute(f"DROP TABLE IF EXISTS fts_{name}")
        connection.execute(_TABLE)
        _index_all(connection)
    database.lexical_damage = None


def _index_all(connection: Connection) -> None:
    rowids = [row[0] for row in connection.execute("SELECT rowid FROM records ORDER BY rowid")]
    for part in chunks(rowids, recovery.CHUNK):
        reindex(connection, part, ())
    for (tenant,) in connection.execute("SELECT tenant FROM tenants").fetchall():
        bump_tenant_version(connection, tenant)


def update_words(database: Database) -> None:
    """Give every record the stems of this version, if an earlier one wrote it, and index it again (OPEN-4)."""
    if recovery.has_current_words(database):
        return
    with database.transaction() as connection:
        rows = connection.execute("SELECT rowid, record FROM bodies ORDER BY rowid").fetchall()
        for part in chunks(rows, recovery.CHUNK):
            made = [(index_terms(json.loads(body)), rowid) for rowid, body in part]
            texts = [(" ".join(terms), rowid) for terms, rowid in made]
            connection.executemany("UPDATE bodies SET terms = ? WHERE rowid = ?", texts)
            lengths = [(len(terms), rowid) for terms, rowid in made]
            connection.executemany("UPDATE records SET terms = ? WHERE rowid = ?", lengths)
        _index_all(connection)
        set_meta(connection, {recovery.WORDS: str(WORDS_VERSION)})
