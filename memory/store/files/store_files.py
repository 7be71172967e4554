"""Files of a store: their names, the writer's lock, atomic replacement, SQLite's integrity check."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO
from weakref import WeakSet

from recall_loop.state.errors import StoreLockedError
from recall_loop.state.records.records import RECORD_ADAPTER

SIDECAR_FILE = "sidecar.sqlite3"
SIDECAR_BUILDING_FILE = "sidecar.building.sqlite3"
# Marks a sidecar in which damage was found: the next open for writing examines it.
SUSPECT_FILE = "sidecar.suspect"
# Its content if a text was damaged: both sides have to be compared.
SUSPECT_TEXTS = "texts"
# For callers from Python, and for users of the command line.
HOW_TO_READ_ONLY = "with read_only=True (`recall-loop serve` and `mcp`: --read-only)"
REMOVED_MEANWHILE = "the folder was removed while it was being opened"
LOCK_FILE = "writer.lock"
SERVER_FILE = "server.json"
CHROMA_FOLDER, BUILDING_FOLDER, OLD_FOLDER = "chroma", "chroma.building", "chroma.old"
# A copy of Chroma's database that is being read, and the prefix of folders that are kept aside.
SALVAGE_FOLDER, ASIDE_FOLDER = "chroma.salvage", "chroma.aside-"
# How often and how long a writer waits for the lock: who only looks whether a folder is locked has it for a moment.
_TRIES, _PAUSE_SECONDS = 3, 0.01
CHROMA_DATABASE = "chroma.sqlite3"
# SQLite's files beside a database.
DATABASE_ENDINGS = ("-wal", "-shm", "")


def file_identity(file: Path) -> tuple[int, int] | None:
    """Return a mark of a file that changes when the file is replaced; None if it is missing.

    Raises:
        OSError: the file can't be looked at.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        found = os.stat(file)
        return found.st_dev, found.st_ino
    return None


def quarantined_sidecars(store: Path) -> list[Path]:
    """Return the files of damaged sidecars that were set aside."""
    return sorted(store.glob("sidecar.damaged-*"))


if sys.platform == "win32":
    import msvcrt

    def acquire(stream: BinaryIO) -> None:
        """Lock an open file for as long as it stays open; OSError at once where somebody else has it."""
        # Bytes far beyond the holder's process id, so that others can still read it.
        stream.seek(1 << 20)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)

    def is_taken(stream: BinaryIO) -> bool:
        """Return True: only taking the lock would tell."""
        return True

    def give_back(stream: BinaryIO) -> None:
        """Do nothing: closing the file unlocks it."""

else:
    import fcntl

    def acquire(stream: BinaryIO) -> None:
        """Lock an open file for as long as it stays open; OSError at once where somebody else has it."""
        # flock belongs to the open file: no other descriptor of this process can drop it.
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_taken(stream: BinaryIO) -> bool:
        """Return whether a file is locked."""
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(stream, fcntl.LOCK_UN)
        return False

    def give_back(stream: BinaryIO) -> None:
        """Unlock a file, also for forked children, which have it open too."""
        fcntl.flock(stream, fcntl.LOCK_UN)


def _acquire_soon(stream: BinaryIO) -> None:
    """Lock a file; wait some moments for somebody who only looks whether it is locked."""
    for _ in range(_TRIES):
        with suppress(OSError):
            acquire(stream)
            return
        time.sleep(_PAUSE_SECONDS)
    acquire(stream)


def has_writer(folder: Path) -> bool:
    """Return whether a writer is known to have a store open; one that can't be asked for counts as there."""
    try:
        with open(folder / LOCK_FILE, "rb") as stream:
            return is_taken(stream)
    except OSError:
        return True


class WriterLock:
    """Held from construction until `release`, or until the process ends, however it ends.

    Raises:
        StoreLockedError: somebody else writes this store; says which process, at once. Or the folder was just removed.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        try:
            self._stream: BinaryIO = open(self._path, "a+b", buffering=0)  # noqa: SIM115  # held for the store's life
        except FileNotFoundError as error:  # as by a restore: who waits tries the folder that comes in its place
            raise StoreLockedError(f"{folder}: {REMOVED_MEANWHILE}") from error
        try:
            _acquire_soon(self._stream)
            if not self.is_in_place():
                raise BlockingIOError(f"{self._path}: removed or replaced meanwhile")
        except OSError as error:
            self._stream.seek(0)
            holder = self._stream.read(20).decode("ascii", "replace").strip()
            self._stream.close()
            here = holder == str(os.getpid())
            process = f" (process {holder}{', this one' if here else ''})" if holder else ""
            through = "" if here else ", or write through that process if it serves"
            raise StoreLockedError(
                f"{folder}: another writer{process} has this store open; to write, wait until it closes{through}; "
                f"to read only, open the store {HOW_TO_READ_ONLY}"
            ) from error
        try:
            self._stream.truncate(0)
            self._stream.write(str(os.getpid()).encode())
        except BaseException:  # as on a full disk: whoever keeps the error mustn't keep the lock
            self.release()
            raise
        _HELD.add(self)

    def is_in_place(self) -> bool:
        """Return whether the folder's file is the one that is locked; another might have another writer."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._stream.fileno()), os.stat(self._path))
        return False

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would let two writers in."""
        give_back(self._stream)
        self._stream.close()


_HELD: WeakSet[WriterLock] = WeakSet()


def _leave_locks_of_parent() -> None:
    """In a forked child, let go of its parent's locks: with the child they would outlive a parent that is killed."""
    for lock in list(_HELD):
        lock._stream.close()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks_of_parent)


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o666) -> Iterator[IO[str]]:
    """Give a text file that takes the place of `path` when the context is left without an error; raises `OSError`.

    A crash leaves either the old file or the new one; on the disk when the context is left. `mode`: permissions of a
    new file, less those that the process masks.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with errors_naming(path, draft):
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with open(descriptor, "w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def errors_naming(path: Path, *drafts: Path) -> Iterator[None]:
    """Have an OSError that names no file, as that of a full disk, or one of its drafts, name `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, *map(str, drafts)):
            error.filename = str(path)
        raise


def write_atomically(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace the file with `text`; see `atomic_file`."""
    with atomic_file(path, mode=mode) as file:
        file.write(text)


_LINES = 3
# Each counts rows that no write leaves behind.
INCOMPLETE_ROWS = {
    "records without a body": "SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM bodies)",
    "records without vectors": "SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM vectors)",
}
SURPLUS_ROWS = {
    "bodies without a record": "SELECT count(*) FROM bodies WHERE rowid NOT IN (SELECT rowid FROM records)",
    "vectors without a record": "SELECT count(*) FROM vectors WHERE rowid NOT IN (SELECT rowid FROM records)",
}
_DAMAGED_VECTORS = """SELECT count(*) FROM vectors
WHERE typeof(own) != 'blob' OR typeof(context) != 'blob' OR length(own) != length(context)"""


def malformed_pages(connection: sqlite3.Connection) -> list[str]:
    """Return SQLite's own findings about the file, at most three; none if it is sound. Reads all of it."""
    found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_LINES})")]
    return [] if found == ["ok"] else found


def structural_damage(connection: sqlite3.Connection, *, texts: bool = False) -> str | None:
    """Return the damage of a sidecar's file or tables, and of its texts if asked for, or None.

    Reads all of it: seconds per 100,000 records.
    """
    try:
        if pages := malformed_pages(connection):
            return f"malformed: {'; '.join(pages)}"
        return _incomplete_rows(connection) or (_damaged_rows(connection) if texts else None)
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        return f"malformed: {error}"


def _incomplete_rows(connection: sqlite3.Connection) -> str | None:
    queries = {**INCOMPLETE_ROWS, **SURPLUS_ROWS, "damaged vectors": _DAMAGED_VECTORS}
    counts = {words: connection.execute(query).fetchone()[0] for words, query in queries.items()}
    return ", ".join(f"{words}: {count}" for words, count in counts.items() if count) or None


def _damaged_rows(connection: sqlite3.Connection) -> str | None:
    for rowid, body in connection.execute("SELECT rowid, record FROM bodies"):
        try:
            RECORD_ADAPTER.validate_json(body)
        except (TypeError, ValueError):
            return f"row {rowid} does not hold a record"
    return None
