"""The last numbers that a store has given to rows and commits: none is given again after a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import COMMIT_META_KEY, last_commit
from recall_loop.memory.store.tables.database import set_meta

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Connection, Database

_LAST_ROW = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'records'"
_LAST_GIVEN = """SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowids),
(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commits)"""
_LAST_VERSION = """SELECT setval(pg_get_serial_sequence('versions', 'rowid'), greatest(max(rowid), 1), max(rowid) > 0)
FROM (SELECT coalesce(max(rowid), 0) AS rowid FROM versions) v"""


def last_numbers(database: Database) -> tuple[int, int]:
    """Return the highest rowid and the highest number of a commit that were given; 0 where none was.

    Raises:
        StoreUnavailableError: they can't be read.
    """
    if isinstance(database, SqliteDatabase):
        return int(database.fetch(_LAST_ROW)[0][0]), last_commit(database)
    rowid, commit = database.fetch(_LAST_GIVEN)[0]
    return int(rowid), int(commit)


def set_last_numbers(database: Database, connection: Connection, rowid: int, commit: int) -> None:
    """Let the target go on behind these numbers; within a transaction."""
    if isinstance(database, SqliteDatabase):
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
        connection.execute("INSERT INTO sqlite_sequence VALUES ('records', ?)", (rowid,))
        set_meta(connection, {COMMIT_META_KEY: str(commit)})
        return
    for sequence, last in (("rowids", rowid), ("commits", commit)):
        connection.execute(f"SELECT setval('{sequence}', ?, ?)", (max(last, 1), last > 0))
    connection.execute(_LAST_VERSION)
