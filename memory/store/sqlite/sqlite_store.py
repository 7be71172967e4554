"""The SQLite sidecar: reads, transactions, damage and the generation marker.

It is the commit point of every write and the source of every read; Chroma follows it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from typing_extensions import override

from recall_loop.memory.store.files import store_files
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.files.store_files import SUSPECT_FILE, SUSPECT_TEXTS
from recall_loop.memory.store.sqlite import sqlite_dialect
from recall_loop.memory.store.sqlite.sqlite_connection import (
    SqliteConnection,
    is_damage,
    is_lexical,
    open_connection,
    reads_lexical,
)
from recall_loop.memory.store.sqlite.sqlite_schema import DDL, UPGRADES
from recall_loop.memory.store.tables.database import Database, DatabaseDamagedError, LexicalIndexError
from recall_loop.memory.store.tables.upgrades import read_generation
from recall_loop.state.errors import RecallError, StoreReadOnlyError, StoreUnavailableError, StoreUnusableError

# Raised when a row isn't the one that was written; undecodable text is a ValueError too.
_ROW_ERRORS = (KeyError, TypeError, ValueError)
# A file that a crash left empty has no tables.
_MADE = "SELECT 1 FROM sqlite_master WHERE name = 'meta'"


class SqliteDatabase(Database):
    """One sidecar file (or memory), safe for several threads.

    A file has one connection for writing and one for reading per thread; readers see the last
    committed state and never wait. In memory there is a single connection behind a lock.

    Raises:
        DatabaseDamagedError: the file is not a database, or malformed.
        StoreUnavailableError: the file can't be opened.
    """

    dialect = sqlite_dialect
    remedy = (
        "the sidecar: `recall-loop store rebuild` takes it from Chroma where it is sound there; else write it again or "
        "delete it"
    )
    upgrades = UPGRADES

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        self.file = file
        self.read_only = read_only
        self._local = threading.local()
        self._lock = ProcessLock()
        self._readers: list[tuple[threading.Thread, SqliteConnection]] = []
        self._writer: SqliteConnection | None = None
        self._closed = False
        try:
            if read_only:
                self._reader().execute(_MADE)
            else:
                self._writer = self._connect()
                if not self._writer.execute(_MADE).fetchone():
                    self._writer.executescript(f"BEGIN IMMEDIATE;{DDL}COMMIT;")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise self.wrap_error(error, f"{file}: the sidecar can't be opened") from error

    def _connect(self) -> SqliteConnection:
        reads = self.read_only or self._writer is not None
        return open_connection(self.file, read_only=self.read_only, reads=reads)

    @override
    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        self._lock.check_process()
        with self._lock if self.file is None else nullcontext():
            connection = self._open_writer() if self.file is None else self._reader()
            with self._typed_errors(connection, "the sidecar can't be read"):
                yield connection

    def _reader(self) -> SqliteConnection:
        if self._closed:
            raise StoreUnusableError("the store is closed")
        connection: SqliteConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            with self._lock:
                for thread, unused in self._readers:
                    if not thread.is_alive():
                        unused.close()
                self._readers = [entry for entry in self._readers if entry[0].is_alive()]
                self._readers.append((threading.current_thread(), connection))
            self._local.connection = connection
        return connection

    def _open_writer(self) -> SqliteConnection:
        if self._closed:
            raise StoreUnusableError("the store is closed")
        if self._writer is None:
            raise StoreReadOnlyError("the store is open for reading only")
        return self._writer

    @override
    @contextmanager
    def transaction(self) -> Iterator[SqliteConnection]:
        with self._lock:
            connection = self._open_writer()
            with self._typed_errors(connection, "the sidecar can't be written"):
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def _typed_errors(self, connection: SqliteConnection, words: str) -> Iterator[None]:
        """Give SQLite's errors a type, and look for damage behind those of Python's, met while rows are worked with."""
        try:
            yield
        except (sqlite3.Error, MemoryError) as error:
            raise self.wrap_error(error, words, connection) from error
        except _ROW_ERRORS as error:
            found = None if isinstance(error, RecallError) else store_files.structural_damage(connection, texts=True)
            if found is not None:
                self.mark_suspect()
                raise DatabaseDamagedError(f"the sidecar is damaged: {found}") from error
            raise

    def wrap_error(
        self,
        error: sqlite3.Error | MemoryError | UnicodeDecodeError,
        words: str,
        connection: SqliteConnection | None = None,
    ) -> StoreUnavailableError:
        """Return the typed error for one of SQLite's, and note damage for the next open.

        A damaged full-text table may name sizes that no machine has: SQLite then reports a lack of memory.

        Raises:
            MemoryError: the one given, where the full-text table of `connection` isn't the cause.
        """
        if isinstance(error, MemoryError):
            if connection is None or reads_lexical(connection):
                raise error
            error = sqlite3.DatabaseError("it names sizes that no machine has")
            lexical = True
        else:
            lexical = is_lexical(error)
        text = f"{words}: {error}"
        if lexical:
            self.lexical_damage = f"the lexical index is damaged: {error}"
            self.mark_suspect(texts=False)
            return LexicalIndexError(text)
        if is_damage(error):
            self.mark_suspect()
            return DatabaseDamagedError(f"{text}; `recall-loop store rebuild` repairs it from Chroma")
        return StoreUnavailableError(text)

    def mark_suspect(self, *, texts: bool = True) -> None:
        """Note damage in the file or in texts: the next open for writing looks for it, and repairs it."""
        if self.file is not None and os.access(self.file.parent, os.W_OK):
            with self.file.with_name(SUSPECT_FILE).open("a", encoding="utf-8") as note:
                if texts and note.tell() == 0:
                    note.write(SUSPECT_TEXTS)

    @override
    def generation(self) -> str:
        return read_generation(self, self.file)

    def meta(self) -> dict[str, str]:
        """Return the store's notes; none if no table was made yet."""
        return super().meta() if self.fetch(_MADE) else {}

    def compact(self) -> None:
        """Rebuild the lexical index, give free pages back and empty the write-ahead file (STORE-6).

        Raises:
            StoreUnavailableError: SQLite fails, or a reader is at work and keeps the old pages alive.
        """
        with self._lock:
            connection = self._open_writer()
            with self._typed_errors(connection, "the sidecar can't be compacted"):
                connection.execute("INSERT INTO fts(fts) VALUES ('rebuild')")
                connection.execute("VACUUM")
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailableError(
                "compacted, but a reader keeps the old write-ahead file alive: erased words are gone from the disk "
                "once the readers have ended and compaction is repeated"
            )

    def close(self) -> None:
        """Close every connection; the last one to a file folds its write-ahead file in. Nothing in a forked child."""
        if self._lock.is_foreign:
            return
        with self._lock:
            self._closed = True
            for _, connection in self._readers:
                connection.close()
            self._readers.clear()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
