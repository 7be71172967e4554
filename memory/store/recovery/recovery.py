"""Keeping both sides equal: pending writes, repair at open, and rebuilding Chroma from the sidecar (STORE-4).

The sidecar is the commit point. What it holds as pending or as a tombstone may or may not have
reached Chroma; sending it again is harmless, so that repair is simply the rest of the write.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import (
    COLLECTION_NAME,
    ChromaError,
    ChromaIndex,
    ChromaRow,
    CollectionMissingError,
)
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation, ChromaServer
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.files.store_files import BUILDING_FOLDER
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.sqlite.schema import APPLIED, METRIC, PENDING, SCHEMA_VERSION
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.write.group_commit import mark_applied
from recall_loop.text.words.tokens import WORDS_VERSION

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.embedders import Embedder

ProgressCallback = Callable[[int, int], None]
CHUNK = 256
# The version of the stems in a sidecar, which is no concern of Chroma's.
WORDS = "words"
MARKER_FIELDS = ("generation", "schema", "embedder", "fingerprint", "dimension", "metric")

_PENDING_ROWS = """SELECT r.rowid, r.key, r.tenant, r.revision, b.record, v.context FROM records r
JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
WHERE r.state = 1 LIMIT ?"""
_BACK = "SELECT t.key FROM tombstones t JOIN records r ON r.key = t.key"
# A collection on a server that is being filled, and those that may be left over there.
_BUILDING = "chroma_building"


def new_marker(embedder: Embedder) -> dict[str, str]:
    """Return the generation marker of a store that `embedder` fills from now on."""
    return {
        "generation": uuid.uuid4().hex,
        "schema": str(SCHEMA_VERSION),
        "embedder": embedder.name,
        "fingerprint": embedder.fingerprint,
        "dimension": str(embedder.dimension),
        "metric": METRIC,
        WORDS: str(WORDS_VERSION),
    }


def has_current_words(database: SqliteDatabase) -> bool:
    """Tell whether the stems of a sidecar's records are those of this version."""
    return database.meta().get(WORDS) == str(WORDS_VERSION)


def flush_pending(database: SqliteDatabase, chroma: ChromaIndex | None) -> None:
    """Send everything pending to Chroma, then note it as applied. Without Chroma just note it.

    Raises:
        ChromaError: Chroma fails; what was not sent stays pending.
    """
    while True:
        with database.reading() as connection:
            gone = [row[0] for row in connection.execute("SELECT key FROM tombstones LIMIT ?", (CHUNK,))]
            rows = [_chroma_row(row) for row in connection.execute(_PENDING_ROWS, (CHUNK,))]
            back = {row[0] for row in connection.execute(_BACK)}
        if not gone and not rows:
            return
        if chroma is not None:
            chroma.delete([key for key in gone if key not in back])
            chroma.upsert(rows)
        mark_applied(database, rows, deleted=gone)


def _chroma_row(row: Sequence[Any]) -> ChromaRow:
    rowid, key, tenant, revision, body, context = row
    vector = np.frombuffer(context, dtype=np.float16).astype(np.float32)
    return ChromaRow(key, tenant, rowid, revision, body, vector)


def marker_of(database: SqliteDatabase) -> dict[str, str]:
    """Return the generation marker of a sidecar; empty if it was never finished."""
    meta = database.meta()
    return {name: meta[name] for name in MARKER_FIELDS} if "generation" in meta else {}


def count_records(database: SqliteDatabase) -> int:
    """Return the number of records of all tenants."""
    return int(database.fetch("SELECT count(*) FROM records")[0][0])


def data_version(database: SqliteDatabase) -> int:
    """Return a number that every write of any tenant raises."""
    return int(database.fetch("SELECT total(version) FROM tenants")[0][0])


def open_chroma(files: OpenStoreFiles, *, may_rebuild: bool = True) -> ChromaIndex:
    """Open Chroma for writing, and repair it: finish pending writes, or rebuild it.

    Files that weren't closed are tried in another process first, and rebuilt if that one dies.

    Args:
        files: the open files of the store.
        may_rebuild: whether Chroma may be rebuilt, which takes long.

    Raises:
        ChromaError: Chroma can't be opened or written, or would have to be rebuilt and may not be.
    """
    location, broken = files.chroma_location(), files.files_changed
    if isinstance(location, ChromaServer) and location.collection is None:
        return rebuild_chroma(files)
    if isinstance(location, Path) and location.is_dir():
        broken = broken or (files.unclean_shutdown and not _tried(location))
    try:
        found = None if broken else _opened(location, files.sqlite)
    except CollectionMissingError:
        found = None
    except ChromaError:
        if not isinstance(location, Path) or not chroma_files.is_database_damaged(location):
            raise
        found = None
    if found is not None:
        return found
    if not may_rebuild:
        raise ChromaError("Chroma must be rebuilt: the next write does so, or `recall-loop store rebuild`")
    return rebuild_chroma(files)


def _tried(folder: Path) -> bool:
    """Return whether files that were not closed can be read, and clear what their writer couldn't."""
    if not vector_files_readable(folder):
        return False
    try:
        chroma_files.zero_unused_space(folder)
    except OSError as error:
        raise ChromaError(f"Chroma's files can't be written: {error}") from error
    return True


def _opened(location: ChromaLocation, database: SqliteDatabase) -> ChromaIndex | None:
    """Return Chroma with every row in it, or None if it isn't the sidecar's other half."""
    marker = marker_of(database)
    chroma = ChromaIndex(location, marker, create=not isinstance(location, ChromaServer))
    try:
        found = chroma.marker()
        if found | {"schema": marker["schema"]} == marker:
            if found != marker:  # an upgrade of the sidecar leaves Chroma's rows as they are
                chroma.mark_complete(marker)
            flush_pending(database, chroma)
            if chroma.count() == count_records(database):
                return chroma
        elif location is None or (isinstance(location, Path) and chroma.count() == count_records(database) == 0):
            fill_collection(database, chroma)
            _apply_all(database)
            return chroma
    except BaseException:
        chroma.close()
        raise
    chroma.close()
    return None


def rebuild_chroma(files: OpenStoreFiles, progress: ProgressCallback | None = None) -> ChromaIndex:
    """Rebuild Chroma from the sidecar, beside the old one, which it then replaces. No client may be open.

    A crash at any point leaves the old one, or the new one whole.

    Raises:
        ChromaError: Chroma or the disk fails; the old one stays.
    """
    location, path, database = files.chroma_location(), files.path, files.sqlite
    if isinstance(location, ChromaServer):
        return _rebuild_on_server(files, location, progress)
    if path is None or location is None:
        return _filled(None, database, progress)
    try:
        building = _filled(chroma_files.begin_rebuild(path), database, progress)
        building.ensure_index_files()
        building.close()
        chroma_files.zero_unused_space(path / BUILDING_FOLDER)
        chroma_files.swap_in_rebuilt(path)
    except OSError as error:
        raise ChromaError(f"Chroma can't be rebuilt: {error}") from error
    finally:
        with suppress(OSError):
            chroma_files.remove_path(path / BUILDING_FOLDER)
    _apply_all(database)
    return ChromaIndex(location, marker_of(database), create=False)


def _filled(location: ChromaLocation, database: SqliteDatabase, progress: ProgressCallback | None) -> ChromaIndex:
    chroma = ChromaIndex(location, marker_of(database))
    try:
        fill_collection(database, chroma, progress)
        if location is None:
            _apply_all(database)
    except BaseException:
        chroma.close()
        raise
    return chroma


def _rebuild_on_server(files: OpenStoreFiles, old: ChromaServer, progress: ProgressCallback | None) -> ChromaIndex:
    """Fill a new collection; the store's notes name it once it is whole, and then the old one goes."""
    database = files.sqlite
    new = replace(old, collection=f"{COLLECTION_NAME}-{uuid.uuid4().hex}")
    left = database.meta().get(_BUILDING, "")
    database.set_meta({_BUILDING: f"{left} {new.collection}".strip()})
    chroma = _filled(new, database, progress)
    database.set_meta({**new.note(), _BUILDING: f"{left} {old.collection or ''}".strip()})
    _apply_all(database)
    try:
        if files.path is not None:
            new.write(files.path)
    except OSError as error:
        chroma.close()
        raise ChromaError(f"the server's address can't be recorded: {error}") from error
    _clear_server(database, new)
    return chroma


def _clear_server(database: SqliteDatabase, current: ChromaServer) -> None:
    """Delete collections that are no longer used. Those that can't be deleted are tried again the next time."""
    for name in database.meta().get(_BUILDING, "").split():
        try:
            unused = ChromaIndex(replace(current, collection=name), {}, create=False)
        except CollectionMissingError:
            continue
        except ChromaError:
            return
        with suppress(ChromaError):
            unused.drop()
        unused.close()
    database.set_meta({_BUILDING: ""})


def fill_collection(database: SqliteDatabase, chroma: ChromaIndex, progress: ProgressCallback | None = None) -> None:
    """Write every row of the sidecar to an empty collection and mark it complete."""
    query = _PENDING_ROWS.replace("r.state = 1", "r.rowid > ? ORDER BY r.rowid")
    total, done, last = count_records(database), 0, 0
    while True:
        with database.reading() as connection:
            rows = [_chroma_row(row) for row in connection.execute(query, (last, CHUNK))]
        if not rows:
            break
        chroma.upsert(rows)
        last, done = rows[-1].rowid, done + len(rows)
        if progress is not None:
            progress(done, total)
    chroma.mark_complete(marker_of(database))


def _apply_all(database: SqliteDatabase) -> None:
    """Note that nothing is pending: a rebuilt Chroma has taken its place."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM tombstones")
        connection.execute("UPDATE records SET state = ? WHERE state = ?", (APPLIED, PENDING))
