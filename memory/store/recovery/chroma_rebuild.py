"""Rebuilding Chroma from the sidecar, in a folder or on a server, once what only Chroma has is taken over (STORE-4)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import (
    COLLECTION_NAME,
    ChromaError,
    ChromaIndex,
    CollectionMissingError,
)
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation, ChromaServer
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.store_files import BUILDING_FOLDER, CHROMA_DATABASE
from recall_loop.memory.store.recovery import recovery
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles, record_repair
from recall_loop.memory.store.recovery.reconciling import may_lack_rows, merge_sides
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import Database

# A collection on a server that is being filled, and those that may be left over there.
_BUILDING = "chroma_building"


def unite(files: OpenStoreFiles, chroma: ChromaIndex, embedder: Embedder) -> None:
    """Take over what Chroma has and the sidecar lacks, and note that as a repair; see `merge_sides` for errors."""
    words = merge_sides(files.database, chroma, embedder).words()
    files.forget_suspicion()
    if words is not None:
        record_repair(files.repairs, f"{files.path}: the sidecar and Chroma differed: {words}")


def rebuild_chroma(
    files: OpenStoreFiles,
    embedder: Embedder,
    progress: recovery.ProgressCallback | None = None,
    *,
    why: str | None = None,
) -> ChromaIndex:
    """Rebuild Chroma from the sidecar, beside the old one, which it then replaces. No client may be open.

    A crash at any point leaves the old one, or the new one whole. What the old one has and the sidecar lacks is taken
    over first; where it can't be read, or is another store's, it is kept aside. `why` is the damage, for the note of a
    repair; None = it was requested.

    Raises:
        ChromaError: Chroma or the disk fails; the old one stays.
        StoreUnavailableError: what Chroma has can't be taken over; the old one stays.
    """
    keep = _take_over(files, embedder)
    location = files.chroma_location()
    if isinstance(location, ChromaServer):
        chroma = _rebuild_on_server(files, location, progress, keep=keep)
    elif files.path is None or location is None:
        return _filled(None, files.database, progress)
    else:
        chroma = _rebuild_folder(files, files.path, progress, keep=keep)
    if why is not None or keep is not None:
        kept = "" if keep is None else "; the old one is kept aside until the store is compacted"
        record_repair(
            files.repairs,
            f"{files.path}: Chroma {keep or why}, and was rebuilt from the sidecar with "
            f"{recovery.count_records(files.database)} records{kept}",
        )
    return chroma


def _take_over(files: OpenStoreFiles, embedder: Embedder) -> str | None:
    """Take over what only the present Chroma has; return why that is impossible, so that it has to be kept, or None."""
    location, database = files.chroma_location(), files.database
    if location is None or (isinstance(location, ChromaServer) and location.collection is None):
        return None
    if isinstance(location, Path) and not (location / CHROMA_DATABASE).exists():
        return None
    try:
        with readable_chroma(location, trusted=not (files.unclean_shutdown or files.files_changed)) as chroma:
            if not recovery.is_same_store(chroma.stored_marker(), marker_of(database)):
                return "was another store's" if chroma.count() else None
            lacking = may_lack_rows(database, chroma) or chroma.count() != recovery.count_records(database)
            if lacking or files.texts_are_suspect():
                unite(files, chroma, embedder)
    except CollectionMissingError:
        return None
    except ChromaError:
        if not isinstance(location, Path):
            raise
        return "could not be read"
    return None


@contextmanager
def readable_chroma(location: ChromaLocation, *, trusted: bool) -> Iterator[ChromaIndex]:
    """Give Chroma for reading rows, without vectors; of a folder that isn't trusted only a copy of its database.

    Vector files that are damaged end the process that reads them.
    """
    if trusted or not isinstance(location, Path):
        with closing(ChromaIndex(location, {}, create=False)) as chroma:
            yield chroma
        return
    try:
        copy = chroma_files.copy_database(location)
    except OSError as error:
        raise ChromaError(f"Chroma's files can't be copied: {error}") from error
    try:
        with readable_chroma(copy, trusted=True) as chroma:
            yield chroma
    finally:
        with suppress(OSError):
            chroma_files.remove_path(copy)


def _rebuild_folder(
    files: OpenStoreFiles, path: Path, progress: recovery.ProgressCallback | None, *, keep: str | None
) -> ChromaIndex:
    try:
        building = _filled(chroma_files.begin_rebuild(path), files.database, progress)
        building.ensure_index_files()
        building.close()
        chroma_files.zero_unused_space(path / BUILDING_FOLDER)
        chroma_files.swap_in_rebuilt(path, keep=keep is not None)
    except OSError as error:
        raise ChromaError(f"Chroma can't be rebuilt: {error}") from error
    finally:
        with suppress(OSError):
            chroma_files.remove_path(path / BUILDING_FOLDER)
    recovery.apply_all(files.database)
    return ChromaIndex(files.chroma_location(), marker_of(files.database), create=False)


def _filled(location: ChromaLocation, database: Database, progress: recovery.ProgressCallback | None) -> ChromaIndex:
    chroma = ChromaIndex(location, marker_of(database))
    try:
        recovery.fill_collection(database, chroma, progress)
        if location is None:
            recovery.apply_all(database)
    except BaseException:
        chroma.close()
        raise
    return chroma


def _rebuild_on_server(
    files: OpenStoreFiles, old: ChromaServer, progress: recovery.ProgressCallback | None, *, keep: str | None
) -> ChromaIndex:
    """Fill a new collection; the store's notes name it once it is whole, and then the old one goes, unless kept."""
    database = files.database
    new = replace(old, collection=f"{COLLECTION_NAME}-{uuid.uuid4().hex}")
    left = database.meta().get(_BUILDING, "")
    database.set_meta({_BUILDING: f"{left} {new.collection}".strip()})
    chroma = _filled(new, database, progress)
    gone = "" if keep is not None else old.collection or ""
    database.set_meta({**new.note(), _BUILDING: f"{left} {gone}".strip()})
    recovery.apply_all(database)
    try:
        if files.path is not None:
            new.write(files.path)
    except OSError as error:
        chroma.close()
        raise ChromaError(f"the server's address can't be recorded: {error}") from error
    _clear_server(database, new)
    return chroma


def _clear_server(database: Database, current: ChromaServer) -> None:
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
