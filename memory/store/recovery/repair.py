"""Opening the sidecar for writing: it is created, examined, repaired, or rebuilt from Chroma (STORE-4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recall_loop.memory.store.chroma import chroma_server
from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation, ChromaServer
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.embed.embedders import Embedder, embedder_of_version
from recall_loop.memory.store.files import store_files
from recall_loop.memory.store.files.store_files import (
    CHROMA_DATABASE,
    CHROMA_FOLDER,
    OLD_FOLDER,
    SERVER_FILE,
    SIDECAR_FILE,
    SUSPECT_FILE,
)
from recall_loop.memory.store.recovery import rebuilding, recovery
from recall_loop.memory.store.recovery.chroma_rebuild import readable_chroma
from recall_loop.memory.store.recovery.open_files import record_repair
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import DatabaseDamagedError
from recall_loop.state.errors import EmbedderMismatchError, StoreUnavailableError


def is_rebuildable(path: Path) -> bool:
    """Return whether a folder names or holds a Chroma from which a sidecar can be made."""
    databases = (path / folder / CHROMA_DATABASE for folder in (CHROMA_FOLDER, OLD_FOLDER))
    return any(database.exists() for database in databases) or (path / SERVER_FILE).exists()


def open_writable_sidecar(
    path: Path, embedder: Embedder, given: ChromaServer | None, repairs: list[str]
) -> SqliteDatabase:
    """Open, make, repair or rebuild the sidecar."""
    try:
        database = SqliteDatabase(path / SIDECAR_FILE)
        try:
            _examine(path, database, repairs)
            if marker_of(database):
                return database
            if not is_rebuildable(path) and (given is None or given.collection is None):
                database.set_meta({**recovery.new_marker(embedder), **(given.note() if given else {})})
                return database
        except BaseException:
            database.close()
            raise
        database.close()
        return _rebuilt(path, embedder, given, repairs, damage=None)
    except DatabaseDamagedError as error:
        return _rebuilt(path, embedder, given, repairs, damage=str(error))


def _examine(path: Path, database: SqliteDatabase, repairs: list[str]) -> None:
    """Examine a sidecar in which damage was found; rebuild its lexical index if nothing else is damaged."""
    if not (path / SUSPECT_FILE).exists():
        return
    with database.reading() as connection:
        found = store_files.structural_damage(connection)
    if found is not None:
        raise DatabaseDamagedError(f"{path / SIDECAR_FILE}: {found}")
    repair_lexical_index(path, database, repairs)


def repair_lexical_index(path: Path | None, database: SqliteDatabase, repairs: list[str]) -> None:
    """Rebuild the lexical index, if it is damaged; note that as a repair."""
    complaint = rebuilding.check_lexical_index(database)
    if complaint is not None:
        rebuilding.rebuild_lexical_index(database)
        record_repair(repairs, f"{path}: the lexical index was damaged ({complaint}) and was rebuilt")
    database.lexical_damage = None
    note = None if path is None else path / SUSPECT_FILE
    if note is not None and note.exists() and not note.read_text(encoding="utf-8"):
        note.unlink()


def _rebuilt(
    path: Path, embedder: Embedder, given: ChromaServer | None, repairs: list[str], damage: str | None
) -> SqliteDatabase:
    """Rebuild a missing or damaged sidecar from Chroma; the marker is Chroma's own."""
    file, state = path / SIDECAR_FILE, "missing" if damage is None else "damaged"
    location, notes = _location_without_sidecar(path, given)
    try:
        if isinstance(location, Path) and not (location / CHROMA_DATABASE).exists():
            raise ChromaError("Chroma's files are missing too")
        trusted = not isinstance(location, Path) or vector_files_readable(location)
        with readable_chroma(location, trusted=trusted) as chroma:
            found = chroma.marker() if damage else chroma.stored_marker()
            if damage and not found:
                raise ChromaError("Chroma was never completely filled")
            marker = {**recovery.new_marker(embedder), **found}
            embedder = check_embedder(path, marker, embedder)
            aside = f"; the old file is kept as {rebuilding.quarantine_sidecar(path)}" if damage else ""
            records, spoilt = rebuilding.rebuild_sidecar(file, chroma, marker, embedder, notes)
    except ChromaError as error:
        why = f" ({damage})" if damage else ""
        raise StoreUnavailableError(
            f"{path}: the sidecar is {state}{why} and can't be rebuilt from Chroma: {error}"
        ) from error
    record_repair(
        repairs,
        f"{path}: the sidecar was {state} and was rebuilt from Chroma with {records} records, "
        f"without the versions that `history` gives and the counts of recalls{aside}",
    )
    if spoilt:
        record_repair(repairs, f"{path}: records that are damaged in Chroma too: {', '.join(spoilt)}")
    return SqliteDatabase(file)


def _location_without_sidecar(path: Path, given: ChromaServer | None) -> tuple[ChromaLocation, dict[str, str]]:
    """Return where Chroma is when the sidecar can't say, and what the new sidecar has to note of it."""
    if given is not None and given.url is not None and given.collection is not None:
        return given, given.note()
    known = chroma_server.read_server_file(path)
    if known is None:
        return path / CHROMA_FOLDER, {}
    agreed = chroma_server.resolve_server(path, known, given, local=False)
    return agreed, known.note() | chroma_server.read_folder_note(path)


def check_embedder(place: Path | str, marker: Mapping[str, str], embedder: Embedder) -> Embedder:
    """Return the embedder that a store was made with: `embedder`, or an earlier version of it.

    Raises:
        EmbedderMismatchError: it wasn't; names the command that embeds everything again.
    """
    own = embedder_of_version(embedder, marker["fingerprint"])
    if own is None:
        raise EmbedderMismatchError(
            f"{place}: made with embedder {marker['fingerprint']} (dimension {marker['dimension']}), "
            f"opened with {embedder.fingerprint}. Open it with its own embedder, or embed everything again: "
            f"recall-loop store rebuild --store {place} --re-embed"
        )
    return own
