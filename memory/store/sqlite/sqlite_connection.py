"""Connections to SQLite: how they are opened, how they number rows and commits, and what their errors are about."""

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

    `reads` says whether this connection only reads; in memory the one connection does both.

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


def _code(error: sqlite3.Error | UnicodeDecodeError) -> int:
    return int(getattr(error, "sqlite_errorcode", None) or 0)


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Return whether a file is no database or malformed, or holds text that is none; Python gives that no code."""
    code = _code(error) & 0xFF
    undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode")
    return undecodable or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_lexical(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Return whether only the full-text table is damaged: SQLite says so, or the table is missing."""
    text = str(error)
    missing = text.startswith("no such table: ") and text.rsplit(".", 1)[-1].removeprefix("no such table: ")
    return _code(error) == sqlite3.SQLITE_CORRUPT_VTAB or (bool(missing) and str(missing).startswith("fts"))


def reads_lexical(connection: sqlite3.Connection) -> bool:
    """Return whether the full-text table answers a small query."""
    try:
        connection.execute("SELECT count(*) FROM fts WHERE fts MATCH 'a'").fetchone()
    except (sqlite3.Error, MemoryError):
        return False
    return True
