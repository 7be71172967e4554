"""Connections to SQLite: how they are opened and set, and how they number rows and commits."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from recall_loop.memory.store.tables.changes import COMMIT_META_KEY

_BUSY_MS = 10_000
# Each reading thread has its own connection; pages beyond its cache come from the operating system's.
_READER_CACHE_KIB, _WRITER_CACHE_KIB = 4_000, 8_000
_NEXT_COMMIT = f"""INSERT INTO meta VALUES ('{COMMIT_META_KEY}', '1')
ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1 RETURNING value"""


class SqliteConnection(sqlite3.Connection):
    """A connection that knows how rows and commits are numbered in a file with one writer."""

    def new_rowids(self, count: int) -> range:
        """Return rowids that no row has had; see `Connection`."""
        last = self.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        first = int(last[0]) + 1 if last else 1
        return range(first, first + count)

    def next_commit(self) -> int:
        """Return the number of the commit that the current transaction leads to; every call takes one."""
        return int(self.execute(_NEXT_COMMIT).fetchone()[0])


def open_connection(file: Path | None, *, read_only: bool, reads: bool) -> SqliteConnection:
    """Open a connection to a file, or to a database in memory (None), that any thread may use.

    Args:
        file: the database file.
        read_only: whether the file was opened for reading only.
        reads: whether this connection only reads; in memory the one connection does both.

    Raises:
        sqlite3.Error: the file can't be opened, or is no database.
        UnicodeDecodeError: it holds text that is none.
    """
    target = ":memory:" if file is None else _uri(file, read_only=read_only)
    connection = sqlite3.connect(
        target, uri=True, isolation_level=None, check_same_thread=False, factory=SqliteConnection
    )
    try:
        _configure(connection, file, reads=reads and file is not None)
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def _uri(file: Path, *, read_only: bool) -> str:
    base = file.absolute().as_uri()
    if not read_only:
        return base
    # SQLite has to be told if a folder is read-only and has no write-ahead file.
    sealed = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
    return f"{base}?mode=ro" + ("&immutable=1" if sealed else "")


def _configure(connection: SqliteConnection, file: Path | None, *, reads: bool) -> None:
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB if reads else _WRITER_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    if reads:
        connection.execute("PRAGMA query_only = ON")
    elif file is not None:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL syncs the write-ahead file at every commit: a commit survives a power loss too.
        connection.execute("PRAGMA synchronous = FULL")


def roll_back(connection: SqliteConnection) -> None:
    """Undo the transaction that is open, if one is."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
