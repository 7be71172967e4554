"""Opening Chroma; for writing, what the sidecar lost is taken over, pending rows are sent, or all rebuilt (STORE-4)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex, CollectionMissingError
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation, ChromaServer, read_server_file
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.store_files import CHROMA_DATABASE
from recall_loop.memory.store.recovery import recovery
from recall_loop.memory.store.recovery.chroma_rebuild import rebuild_chroma, unite
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles, record_repair
from recall_loop.memory.store.recovery.reconciling import may_lack_rows
from recall_loop.memory.store.tables.changes import marker_of

# The keys that make vectors comparable.
_OF_VECTORS = ("fingerprint", "dimension", "metric")


def open_chroma(files: OpenStoreFiles, embedder: Embedder, *, may_rebuild: bool = True) -> ChromaIndex:
    """Open Chroma for writing, and make both sides equal: merge them, finish pending writes, or rebuild Chroma.

    Files that weren't closed are tried in another process first, and rebuilt if that one dies. Records that are taken
    over from Chroma are embedded. Rebuilding, which takes long, is refused without `may_rebuild`.

    Raises:
        ChromaError: Chroma can't be opened or written, or would have to be rebuilt and may not be.
        StoreUnavailableError: the sidecar is damaged, or what Chroma has can't be taken over.
    """
    location = files.chroma_location()
    if isinstance(location, ChromaServer) and location.collection is None:
        return rebuild_chroma(files, embedder)
    why = _unfit(files, location)
    if why is None:
        try:
            found = _opened(location, files, embedder)
            if isinstance(found, ChromaIndex):
                return found
            why = found
        except CollectionMissingError:
            if _moved(files, location):
                return open_chroma(files, embedder, may_rebuild=may_rebuild)
            why = "had no collection of the store"
        except ChromaError:
            if not isinstance(location, Path) or not chroma_files.is_database_damaged(location):
                raise
            why = "had a damaged database"
    if not may_rebuild:
        raise ChromaError("Chroma must be rebuilt: the next write does so, or `recall-loop store rebuild`")
    return rebuild_chroma(files, embedder, why=why)


def _moved(files: OpenStoreFiles, location: ChromaLocation) -> bool:
    """Return whether the store's folder names another collection of the store, which an older sidecar can't know."""
    known = None if files.path is None else read_server_file(files.path)
    if not isinstance(location, ChromaServer) or known is None or known.collection in (None, location.collection):
        return False
    try:
        other = ChromaIndex(replace(location, collection=known.collection), {}, create=False)
    except CollectionMissingError:
        return False
    with closing(other):
        found = recovery.is_same_store(other.marker(), marker_of(files.database))
    if found:
        files.database.set_meta(replace(location, collection=known.collection).note())
    return found


def _unfit(files: OpenStoreFiles, location: ChromaLocation) -> str | None:
    """Return the damage of Chroma's files, before they are opened, or None."""
    if not isinstance(location, Path):
        return None
    if not location.is_dir() or not (location / CHROMA_DATABASE).exists():
        return "was missing" if recovery.count_records(files.database) else None
    if files.files_changed:
        return "had vector files that are not as they were left"
    if files.unclean_shutdown and not _tried(location):
        return "had damaged vector files"
    return None


def _tried(folder: Path) -> bool:
    """Return whether files that were not closed can be read, and clear what their writer couldn't."""
    if not vector_files_readable(folder):
        return False
    try:
        chroma_files.zero_unused_space(folder)
    except OSError as error:
        raise ChromaError(f"Chroma's files can't be written: {error}") from error
    return True


def _opened(location: ChromaLocation, files: OpenStoreFiles, embedder: Embedder) -> ChromaIndex | str:
    """Return Chroma with every row in it, or why it has to be rebuilt."""
    database = files.database
    marker = marker_of(database)
    chroma = ChromaIndex(location, marker, create=not isinstance(location, ChromaServer))
    try:
        found = chroma.marker()
        if not found and chroma.count() == 0 and (location is None or recovery.count_records(database) == 0):
            recovery.fill_collection(database, chroma)
            recovery.apply_all(database)
            return chroma
        why: str | None
        if not found:
            why = "was never completely filled"
        elif not recovery.is_same_store(found, marker):
            why = "was another store's"
        else:
            why = _united(files, chroma, embedder, found)
        if why is None:
            return chroma
    except BaseException:
        chroma.close()
        raise
    chroma.close()
    return why


def _united(files: OpenStoreFiles, chroma: ChromaIndex, embedder: Embedder, found: dict[str, str]) -> str | None:
    """Make both sides equal; return why that is impossible without rebuilding, or None."""
    database = files.database
    if files.texts_are_suspect() or may_lack_rows(database, chroma):
        unite(files, chroma, embedder)
    marker = marker_of(database)
    if any(found[name] != marker[name] for name in _OF_VECTORS):
        return "had vectors of another embedder"
    recovery.flush_pending(database, chroma)
    if not recovery.is_equal(database, chroma):
        unite(files, chroma, embedder)
        recovery.flush_pending(database, chroma)
    if not recovery.is_equal(database, chroma):
        return "had other records than the sidecar"
    if found != marker:  # an upgrade of the sidecar, or an interrupted compaction, leaves Chroma's rows unchanged
        chroma.mark_complete(marker)
    if found["generation"] != marker["generation"]:
        record_repair(files.repairs, f"{files.path}: a compaction was cut off: compact the store again")
    return None


def open_reader_chroma(files: OpenStoreFiles, location: ChromaLocation, marker: Mapping[str, str]) -> ChromaIndex:
    """Open Chroma for a reader, which never makes or repairs anything.

    Raises:
        ChromaError: it is missing, damaged, can't be reached, or belongs to another generation.
    """
    if isinstance(location, Path):
        _check_files(files, location)
    chroma = ChromaIndex(location, marker, create=False)
    if chroma.marker() != dict(marker):
        chroma.close()
        raise ChromaError("Chroma has another generation than the sidecar; open the store once for writing")
    return chroma


def _check_files(files: OpenStoreFiles, folder: Path) -> None:
    if not (folder / CHROMA_DATABASE).exists():
        raise ChromaError("Chroma's files are missing; open the store once for writing")
    state = files.chroma_files_state()
    # Checking once is enough: files opened since by a writer were checked by it.
    if state == "changed" or (state == "open" and not files.unclean_shutdown and not vector_files_readable(folder)):
        raise ChromaError("Chroma's files are damaged; open the store once for writing")
    files.unclean_shutdown = files.unclean_shutdown or state == "open"
