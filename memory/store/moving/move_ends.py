"""Both ends of a move, each held alone until it ends: a folder by its lock, a schema by a lock in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from recall_loop.memory.store.files.store_files import SIDECAR_FILE, SUSPECT_FILE, WriterLock
from recall_loop.memory.store.files.store_place import is_within, make_folder
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.recovery import opening, reconciling, recovery
from recall_loop.memory.store.recovery.repair import is_rebuildable
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import MOVING_META_KEY, Database
from recall_loop.memory.store.tables.upgrades import is_current, refuse_newer
from recall_loop.state.errors import InvalidInputError, StoreReadOnlyError, StoreUnavailableError

# A folder isn't recognised as a store before its sidecar has its name.
MOVING_FILE = "sidecar.moving.sqlite3"
FRESH_PLACE = "a place without a store: a new folder, or an address with a schema of its own"


@contextmanager
def held_source(place: Path | str) -> Iterator[Database]:
    """Give the tables of the store that is moved; others' writes wait or are refused meanwhile."""
    if isinstance(place, Path):
        opening.check_path(place, create=False, read_only=True)
        with _lock(place), closing(SqliteDatabase(place / SIDECAR_FILE, read_only=True)) as database:
            _check_source(database, str(place), (place / SUSPECT_FILE).exists())
            yield database
        return
    address = PostgresAddress.parse(place)
    with closing(PostgresDatabase(address, create=False)) as schema, schema.exclusive(None):
        _check_source(schema, str(address), damaged=False)
        yield schema
        with schema.transaction():  # fails if the connection, and with it the lock, was lost
            pass


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    try:
        lock = WriterLock(path)
    except OSError as error:
        raise StoreReadOnlyError(f"{path}: the folder can't be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _check_source(database: Database, place: str, damaged: bool) -> None:
    if MOVING_META_KEY in database.meta():
        raise StoreUnavailableError(f"{place}: an earlier move to it is unfinished; finish that one first")
    marker = marker_of(database)
    if marker:
        refuse_newer(marker, place)
    if (
        not is_current(marker)
        or damaged
        or not recovery.has_current_words(database)
        or reconciling.is_under_way(database)
    ):
        made = "it has to be repaired or upgraded first"
        raise StoreUnavailableError(f"{place}: {made}: open it once for writing, as `recall-loop store sweep` does")


@contextmanager
def held_target(place: Path | str, source: Database) -> Iterator[Database]:
    """Give the tables of the target, whatever is in them; a new folder's file gets its name at the end."""
    if isinstance(place, Path):
        if source.file is not None and is_within(place, source.file.parent):
            raise InvalidInputError("target", str(place), f"{FRESH_PLACE}; not the moved store's folder, nor one in it")
        with _target_file(place) as file:
            with closing(SqliteDatabase(file, read_only=file.name == SIDECAR_FILE)) as database:
                yield database
            file.replace(place / SIDECAR_FILE)
        return
    address = PostgresAddress.parse(place)
    with closing(PostgresDatabase(address)) as schema:
        # Compared by id, since addresses may differ: locking would wait for the lock that the source holds here.
        if marker_of(schema).get("store") == marker_of(source)["store"]:
            raise InvalidInputError("target", str(address), FRESH_PLACE)
        with schema.exclusive(None):
            yield schema


@contextmanager
def _target_file(path: Path) -> Iterator[Path]:
    opening.check_path(path, create=True, read_only=False)
    with suppress(FileExistsError):
        try:
            make_folder(path)
        except PermissionError as error:
            raise StoreReadOnlyError(f"{path}: the folder can't be written: {error.strerror}") from error
    with _lock(path):
        if (path / SIDECAR_FILE).exists():
            yield path / SIDECAR_FILE
        elif is_rebuildable(path):
            raise InvalidInputError("target", str(path), FRESH_PLACE)
        else:
            yield path / MOVING_FILE
