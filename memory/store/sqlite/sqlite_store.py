"""The SQLite sidecar: reads, transactions, damage and the generation marker.

It is the commit point of every write and the source of every read; Chroma follows it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.memory.store.files import store_files
from recall_loop.memory.store.files.process_lock import ProcessLock
from recall_loop.memory.store.files.store_files import SUSPECT_FILE, SUSPECT_TEXTS
from recall_loop.memory.store.sqlite.sqlite_connection import SqliteConnection, open_connection, roll_back
from recall_loop.memory.store.sqlite.sqlite_dialect import SqliteDialect
from recall_loop.memory.store.sqlite.sqlite_errors import is_damage, is_lexical, reads_lexical
from recall_loop.memory.store.sqlite.sqlite_schema import DDL
from recall_loop.memory.store.sqlite.sqlite_upgrades import UPGRADES
from recall_loop.memory.store.tables.database import DatabaseDamagedError, LexicalIndexError, set_meta
from recall_loop.memory.store.tables.upgrades import read_generation
from recall_loop.state.errors import RecallError, StoreReadOnlyError, StoreUnavailableError, StoreUnusableError

# Raised by work with a row that isn't the one that was written; a text that can't be decoded is a ValueError too.
_ROW_ERRORS = (KeyError, TypeError, ValueError)


class SqliteDatabase:
    """One sidecar file (or memory), safe for several threads.

    A file has one connection for writing and one for reading per thread; readers see the last
    committed state and never wait. In memory there is a single connection behind a lock.

    Attributes:
        file: the database file; None in memory.
        read_only: whether it was opened for reading only.
        dialect: the SQL that only SQLite understands.
        other_side: gives a row's JSON as Chroma has it, or None; set by whoever knows Chroma.
        lexical_damage: the error that was met when the lexical index failed, until it is rebuilt.

    Raises:
        DatabaseDamagedError: the file is not a database, or malformed.
        StoreUnavailableError: the file can't be opened.
    """

    dialect = SqliteDialect()
    upgrades = UPGRADES

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        self.file = file
        self.read_only = read_only
        self.lexical_damage: str | None = None
        self.other_side: Callable[[int], str | None] | None = None
        self._local = threading.local()
        self._lock = ProcessLock()
        self._readers: list[tuple[threading.Thread, SqliteConnection]] = []
        self._writer: SqliteConnection | None = None
        self._closed = False
        try:
            if not read_only:
                self._writer = self._connect()
                if not self.has_table("meta"):
                    self._writer.executescript(f"BEGIN IMMEDIATE;{DDL}COMMIT;")
            else:
                self.has_table("meta")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise self.wrap_error(error, f"{file}: the sidecar can't be opened") from error

    def _connect(self) -> SqliteConnection:
        reads = self.read_only or self._writer is not None
        return open_connection(self.file, read_only=self.read_only, reads=reads)

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """Give a connection that sees committed rows.

        Raises:
            StoreUnavailableError: the store is closed, or SQLite fails.
        """
        self._lock.check_process()
        with self._lock if self.file is None else nullcontext():
            connection = self._open_writer() if self.file is None else self._reader()
            try:
                yield connection
            except (sqlite3.Error, MemoryError) as error:
                raise self.wrap_error(error, "the sidecar can't be read", connection) from error
            except _ROW_ERRORS as error:
                self._check_rows(error, connection)
                raise

    def fetch(self, query: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, as of the last commit.

        Raises:
            StoreUnavailableError: the store is closed, or SQLite fails.
        """
        with self.reading() as connection:
            return connection.execute(query, params).fetchall()

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

    @contextmanager
    def transaction(self) -> Iterator[SqliteConnection]:
        """Give the writing connection inside a transaction: all of it is committed, or nothing.

        Raises:
            StoreUnavailableError: the store is closed, or SQLite fails (a full disk, for one).
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock:
            connection = self._open_writer()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except (sqlite3.Error, MemoryError) as error:
                roll_back(connection)
                raise self.wrap_error(error, "the sidecar can't be written", connection) from error
            except _ROW_ERRORS as error:
                roll_back(connection)
                self._check_rows(error, connection)
                raise
            except BaseException:
                roll_back(connection)
                raise

    def exclusive(self, tenants: Iterable[str] | None) -> AbstractContextManager[object]:
        """Do nothing: a file has one writing process, which takes turns by the lock of its session."""
        del tenants
        return nullcontext()

    def _check_rows(self, error: Exception, connection: SqliteConnection) -> None:
        """Look for damage behind an error of Python's, met while rows were worked with.

        Raises:
            DatabaseDamagedError: there is some: the rows are not those that were written.
        """
        if not isinstance(error, RecallError) and (complaint := store_files.check_integrity(connection)) is not None:
            self.mark_suspect()
            raise DatabaseDamagedError(f"the sidecar is damaged: {complaint}") from error

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

    def sound_body(self, rowid: int, body: str, checksum: int | None) -> str:
        """Return a record's JSON as it was written: the one that was read, or the other side's (GUARD-6).

        Raises:
            DatabaseDamagedError: it is damaged, and the other side has no sound one.
        """
        if checksum is None or body_checksum(body) == checksum:
            return body
        self.mark_suspect()
        found = None if self.other_side is None else self.other_side(rowid)
        if found is None:
            raise DatabaseDamagedError(
                f"the record of row {rowid} is damaged in the sidecar: `recall-loop store rebuild` takes it from "
                "Chroma where it is sound there; else write it again or delete it"
            )
        return found

    def mark_suspect(self, *, texts: bool = True) -> None:
        """Note that damage was met, in the file or in texts: the next open for writing looks for it, and repairs it."""
        if self.file is not None and os.access(self.file.parent, os.W_OK):
            with self.file.with_name(SUSPECT_FILE).open("a", encoding="utf-8") as note:
                if texts and note.tell() == 0:
                    note.write(SUSPECT_TEXTS)

    def for_tenant(self, tenant: str) -> SqliteDatabase:
        """Return this database: SQLite knows no policies for rows, so that every statement names its tenant."""
        del tenant
        return self

    def tenant_version(self, tenant: str) -> int:
        """Return the version of a tenant's data; every write raises it."""
        versions = self.fetch("SELECT version FROM tenants WHERE tenant = ?", (tenant,))
        return int(versions[0][0]) if versions else 0

    def generation(self) -> str:
        """Return the id of the index generation.

        Raises:
            NewerSchemaError: a later version of the program has upgraded the tables since they were opened.
        """
        return read_generation(self, self.file)

    def has_table(self, name: str) -> bool:
        """Return whether a table exists; a file that a crash left empty has none."""
        with self._lock:
            connection = self._writer if self._writer is not None else self._reader()
            query = "SELECT 1 FROM sqlite_master WHERE name = ?"
            return connection.execute(query, (name,)).fetchone() is not None

    def meta(self) -> dict[str, str]:
        """Return the generation marker and the other notes of the store about itself; none if no table was made yet."""
        made = self.fetch("SELECT 1 FROM sqlite_master WHERE name = 'meta'")
        return dict(self.fetch("SELECT key, value FROM meta")) if made else {}

    def set_meta(self, values: dict[str, str]) -> None:
        """Write notes of the store about itself; errors as `transaction`."""
        with self.transaction() as connection:
            set_meta(connection, values)

    def compact(self) -> None:
        """Rebuild the lexical index, give free pages back and empty the write-ahead file (STORE-6).

        Raises:
            StoreUnavailableError: SQLite fails, or a reader is at work and keeps the old pages alive.
        """
        with self._lock:
            connection = self._open_writer()
            try:
                connection.execute("INSERT INTO fts(fts) VALUES ('rebuild')")
                connection.execute("VACUUM")
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except (sqlite3.Error, MemoryError) as error:
                raise self.wrap_error(error, "the sidecar can't be compacted", connection) from error
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
