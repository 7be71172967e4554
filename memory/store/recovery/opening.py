"""Opening a store's folder: paths, lock, sidecar, generation marker."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType

from recall_loop.memory.store.chroma import chroma_files, chroma_server
from recall_loop.memory.store.chroma.chroma_index import load_ahead
from recall_loop.memory.store.chroma.chroma_server import ChromaServer
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.store_files import HOW_TO_READ_ONLY, SIDECAR_FILE, WriterLock
from recall_loop.memory.store.files.store_place import NoStoreError, make_folder
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.recovery import rebuilding, recovery
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.recovery.repair import check_embedder, is_rebuildable, open_writable_sidecar
from recall_loop.memory.store.shared.open_schema import OpenSchema
from recall_loop.memory.store.shared.outbox import send_all_again
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.attribute_index import checked_paths, declare_paths, indexed_paths
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import MOVING_META_KEY
from recall_loop.memory.store.tables.upgrades import (
    HOW_TO_UPGRADE,
    check_schema,
    is_current,
    refuse_newer,
    upgrade_tables,
)
from recall_loop.memory.store.write.staged_vectors import StagedVectors
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError, display_value
from recall_loop.state.scope import RetentionRule


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a store is opened, as given; see `MemoryStore.open`."""

    server: ChromaServer | None
    create: bool
    read_only: bool
    re_embed: bool
    move: bool
    defer: bool
    attributes: Iterable[str] | None
    progress: recovery.ProgressCallback | None
    history_days: int | EllipsisType | None
    retention: tuple[RetentionRule, ...] | None
    wait_seconds: float = 0


def open_in_memory(embedder: Embedder, *, attributes: Iterable[str] | None = None) -> OpenStoreFiles:
    """Open a new store in memory; see `MemoryStore.in_memory`."""
    database = SqliteDatabase(None)
    database.set_meta(recovery.new_marker(embedder))
    files = OpenStoreFiles(None, database)
    with _closed_on_error(files):
        _declare_attributes(files, attributes)
    return files


def open_place(place: Path | str, embedder: Embedder, how: OpenOptions) -> OpenStoreFiles | OpenSchema:
    """Open a folder, or the schema at an address."""
    return _open_folder(place, embedder, how) if isinstance(place, Path) else _open_schema(place, embedder, how)


def _open_folder(path: Path, embedder: Embedder, how: OpenOptions) -> OpenStoreFiles:
    """Open a folder's sidecar, making or repairing it as needed."""
    given, read_only = how.server, how.read_only
    elsewhere = given is not None and given.collection is not None
    check_path(path, create=how.create, read_only=read_only, elsewhere=elsewhere)
    path = Path(os.path.realpath(path))  # it keeps this value, wherever the process or a link goes
    if read_only:
        files = OpenStoreFiles(path, SqliteDatabase(path / SIDECAR_FILE, read_only=True), read_only=True)
    else:
        if not how.defer:
            load_ahead()  # not with the lock in hand, for which others wait
        files = _open_locked(path, embedder, given)
    files.api_key = given.api_key if given else None
    with _closed_on_error(files):
        check_server(files, given, move=how.move and not read_only)
        if not read_only:
            _separate_copy(files)
        _check_marker(files, embedder, re_embed=how.re_embed and not read_only, progress=how.progress)
        if not read_only:
            files.mark_in_use()
        _declare_attributes(files, how.attributes)
    return files


def _open_schema(address: str, embedder: Embedder, how: OpenOptions) -> OpenSchema:
    """Open a schema of PostgreSQL, making it as needed.

    What changes all of it is done by one process while the others wait, who else neither wait nor are waited for.
    """
    database = PostgresDatabase(PostgresAddress.parse(address), create=how.create, read_only=how.read_only)
    files = OpenSchema(database, how.read_only, how.server.api_key if how.server else None)
    with _closed_on_error(files):
        _check_moved(files)
        wanted = None if how.attributes is None else checked_paths(how.attributes)
        if how.read_only or _is_ready(files, embedder, how, wanted):
            _check_marker(files, embedder, re_embed=False)
            return files
        if how.re_embed:
            _embed_beforehand(files, embedder, how.progress)
        with database.exclusive(None):
            if not marker_of(database):
                database.set_meta(recovery.new_marker(embedder))
            _note_server(files, how.server, move=how.move)
            before = marker_of(database)["generation"]
            _check_marker(files, embedder, re_embed=how.re_embed, progress=how.progress)
            files.separate_restored()
            if marker_of(database)["generation"] != before:
                with database.transaction() as connection:
                    send_all_again(connection)
            _declare_attributes(files, wanted)
    return files


def _is_ready(files: OpenSchema, embedder: Embedder, how: OpenOptions, attributes: Collection[str] | None) -> bool:
    """Return whether a schema can be opened for writing as it stands."""
    database, given = files.database, how.server
    marker = marker_of(database)
    if not is_current(marker) or not recovery.has_current_words(database) or not files.notes_location():
        return False
    known = chroma_server.server_from_meta(database.meta())
    if given is not None and given.url is not None and (known is None or how.move):
        return False
    chroma_server.resolve_server(files.place, known, given, local=False)
    same = attributes is None or set(attributes) == set(indexed_paths(database))
    return same and not (how.re_embed and marker["fingerprint"] != embedder.fingerprint)


def store_exists(place: Path | str) -> bool:
    """Return whether a folder or an address holds a store.

    Raises:
        StoreUnavailableError: the address can't be reached.
    """
    if isinstance(place, Path):
        return (place / SIDECAR_FILE).exists()
    try:
        PostgresDatabase(PostgresAddress.parse(place), create=False, read_only=True).close()
    except NoStoreError:
        return False
    return True


def _check_moved(files: OpenSchema) -> None:
    if MOVING_META_KEY in files.database.meta():
        made = "a store is being moved to it, or its move was cut off"
        raise StoreUnavailableError(f"{files.place}: {made}: `recall-loop store move` again finishes it")


def _note_server(files: OpenSchema, given: ChromaServer | None, *, move: bool) -> None:
    """Note the server that a schema's vectors go to from now on; a new one is sent all of them."""
    known = chroma_server.server_from_meta(files.database.meta())
    if given is None or given.url is None:
        return
    if known is not None and not move:
        chroma_server.resolve_server(files.place, known, given, local=False)
        return
    files.database.set_meta(replace(given, collection=None).note())
    with files.database.transaction() as connection:
        send_all_again(connection)


@contextmanager
def _closed_on_error(files: OpenStoreFiles | OpenSchema) -> Iterator[None]:
    try:
        yield
    except BaseException:
        files.close()
        raise


def _declare_attributes(files: OpenStoreFiles | OpenSchema, paths: Iterable[str] | None) -> None:
    wanted = None if paths is None else checked_paths(paths)
    if wanted is not None and not files.read_only:
        declare_paths(files.database, wanted)


def check_path(path: Path, *, create: bool, read_only: bool, elsewhere: bool = False) -> None:
    """Check that a folder holds a store, or may come to hold one.

    Raises:
        NoStoreError: it holds none.
        StoreUnavailableError: it is no folder, holds source code, or a store that has to be repaired first.
    """
    if "\x00" in str(path):
        raise StoreUnavailableError(f"{display_value(str(path))}: not a path; it holds a NUL character")
    try:
        is_file = path.exists() and not path.is_dir()
        found = (path / SIDECAR_FILE).exists()
        other_half = elsewhere or is_rebuildable(path)
    except OSError as error:
        raise StoreUnavailableError(f"{path}: the store can't be opened: {error.strerror}") from error
    if is_file:
        raise StoreUnavailableError(f"{path}: is a file; a store is a folder")
    if read_only and not found and other_half:
        raise StoreUnavailableError(f"{path}: the sidecar is missing; open it once for writing to rebuild it")
    if not found and not other_half and (read_only or not create):
        raise NoStoreError(f"{path}: no store there; `MemoryStore.open` and `recall-loop add` create one")
    if not found and not other_half and (path / "__init__.py").exists():
        # `--store ./memory` in a checkout would write into the sources.
        raise StoreUnavailableError(f"{path}: holds the source of a Python package; name another folder for the store")


def _open_locked(path: Path, embedder: Embedder, given: ChromaServer | None) -> OpenStoreFiles:
    try:
        make_folder(path)
        if path.exists() and not os.access(path, os.W_OK):
            raise StoreReadOnlyError(f"{path}: the folder can't be written; open it {HOW_TO_READ_ONLY}")
        lock = WriterLock(path)
    except PermissionError as error:
        raise StoreReadOnlyError(f"{path}: the folder can't be written: {error.strerror}") from error
    except OSError as error:
        raise StoreUnavailableError(f"{path}: the store can't be opened: {error.strerror}") from error
    repairs: list[str] = []
    try:
        chroma_files.finish_interrupted_swap(path)
        database = open_writable_sidecar(path, embedder, given, repairs)
        return OpenStoreFiles(path, database, lock=lock, repairs=repairs)
    except OSError as error:
        lock.release()
        raise StoreUnavailableError(f"{path}: the store can't be opened: {error}") from error
    except BaseException:
        lock.release()
        raise


def _separate_copy(files: OpenStoreFiles) -> None:
    try:
        files.separate_copy()
    except OSError as error:
        raise StoreUnavailableError(f"{files.place}: the store can't be opened: {error.strerror}") from error


def check_server(files: OpenStoreFiles, given: ChromaServer | None, *, move: bool = False) -> None:
    """Check the server that is named against a folder's own, or note it (`move`); errors as `resolve_server`."""
    known, path = chroma_server.server_from_meta(files.database.meta()), files.path
    if path is None or given is None:
        return
    if move and given.url is not None:
        moved = replace(given, collection=known.collection if known else None)
        files.database.set_meta(moved.note())
        return
    chroma_server.resolve_server(path, known, given, local=known is None)


def _embed_beforehand(files: OpenSchema, embedder: Embedder, progress: recovery.ProgressCallback | None) -> None:
    """Embed what another embedder has to embed while others may still write; what they change meanwhile comes later."""
    marker = marker_of(files.database)
    if is_current(marker) and marker["fingerprint"] != embedder.fingerprint:
        StagedVectors(files.database, embedder).fill(progress)


def _check_marker(
    files: OpenStoreFiles | OpenSchema,
    embedder: Embedder,
    *,
    re_embed: bool,
    progress: recovery.ProgressCallback | None = None,
) -> None:
    marker = marker_of(files.database)
    if not marker:
        lost = files.path is not None and is_rebuildable(files.path)
        kind = StoreUnavailableError if lost else NoStoreError  # a writer may be about to finish it
        raise kind(f"{files.place}: the store was never finished; open it once for writing")
    refuse_newer(marker, files.place)
    embeds = re_embed and marker["fingerprint"] != embedder.fingerprint
    if not embeds:  # before anything is upgraded: if this version can't open it, the right version still can
        check_embedder(files.place, marker, embedder)
    if not files.read_only:
        upgrade_tables(files.database)
    check_schema(files.database, marker_of(files.database), files.place)
    if not files.read_only:
        rebuilding.update_words(files.database)
    elif not recovery.has_current_words(files.database):
        raise StoreUnavailableError(f"{files.place}: indexed by an earlier version; {HOW_TO_UPGRADE}")
    if embeds:
        rebuilding.re_embed(files.database, embedder, progress)
