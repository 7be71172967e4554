"""What an error of SQLite is about: the file, the full-text table, or neither."""

from __future__ import annotations

import sqlite3


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
