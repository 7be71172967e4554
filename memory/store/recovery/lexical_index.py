"""The lexical index as a whole: checked, and rebuilt from the records when it is damaged (SEARCH-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.memory.store.sqlite.schema import DDL
from recall_loop.memory.store.sqlite.sqlite_store import LexicalIndexError
from recall_loop.memory.store.write.commits import bump_tenant_version
from recall_loop.memory.store.write.context_windows import reindex

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

_CHUNK = 256
_CHECK = "INSERT INTO fts(fts, rank) VALUES ('integrity-check', 1)"
_SHADOWS = ("data", "idx", "content", "docsize", "config")
_TABLE = next(line for line in DDL.splitlines() if line.startswith("CREATE VIRTUAL TABLE fts "))
_UNEQUAL = """SELECT (SELECT count(*) FROM records WHERE rowid NOT IN (SELECT id FROM fts_docsize)),
(SELECT count(*) FROM fts_docsize WHERE id NOT IN (SELECT rowid FROM records))"""


def check_lexical_index(database: SqliteDatabase) -> str | None:
    """Return what is wrong with the lexical index, or None. Takes SQLite's write lock, and changes nothing.

    Raises:
        StoreUnavailableError: SQLite fails otherwise.
    """
    try:
        with database.transaction() as connection:
            connection.execute(_CHECK)
            missing, extra = connection.execute(_UNEQUAL).fetchone()
    except LexicalIndexError as error:
        return str(error)
    return f"{missing} rows are missing, {extra} too many" if missing or extra else None


def rebuild_lexical_index(database: SqliteDatabase) -> None:
    """Throw the lexical index away and rebuild it, in one transaction; rows become pending for Chroma.

    A broken full-text table can't even be dropped, so it is taken out of the schema first.

    Raises:
        StoreUnavailableError: SQLite fails; the index is as before.
    """
    with database.transaction() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = 'fts'")
        connection.execute("PRAGMA writable_schema = RESET")
        for name in _SHADOWS:
            connection.execute(f"DROP TABLE IF EXISTS fts_{name}")
        connection.execute(_TABLE)
        rowids = [row[0] for row in connection.execute("SELECT rowid FROM records ORDER BY rowid")]
        for start in range(0, len(rowids), _CHUNK):
            reindex(connection, rowids[start : start + _CHUNK], ())
        for (tenant,) in connection.execute("SELECT tenant FROM tenants").fetchall():
            bump_tenant_version(connection, tenant)
    database.lexical_damage = None
