"""The tables that a move copies, page by page in the order of their keys, their checksums, and the last numbers given.

Tables and columns that are named nowhere here belong to one backend or follow from the others: triggers keep
`memberships` and the values of attributes, and whether Chroma has a row, and at which revision, is the target's own
concern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from recall_loop.memory.store.postgres.postgres_connection import without_nul
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import COMMIT_META_KEY, last_commit
from recall_loop.memory.store.tables.database import Connection, Database, set_meta

# Rows with token vectors have some 10 kB, long ones more.
PAGE = 500
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of a store: all columns that both backends have. Where triggers fill it, it is only compared."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    by_triggers: bool = False

    def page(self, database: Database, after: Sequence[Any] | None) -> list[tuple[Any, ...]]:
        """Return the next rows behind a key; None = the first ones. None are left where it is empty."""
        key, marks = ", ".join(self.key), ", ".join("?" * len(self.key))
        behind = "" if after is None else f"WHERE ({key}) > ({marks})"
        query = f"SELECT {_names(self.columns)} FROM {self.name} {behind} ORDER BY {key} LIMIT {PAGE}"
        return database.fetch(query, tuple(after or ()))

    def key_of(self, row: Sequence[Any]) -> list[Any]:
        """Return the key of a row."""
        return [row[self.columns.index(name)] for name in self.key]

    def insert(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows into the target."""
        marks = ", ".join("?" * len(self.columns))
        connection.executemany(f"INSERT INTO {self.name} ({_names(self.columns)}) VALUES ({marks})", rows)


def _names(columns: Sequence[str]) -> str:
    return ", ".join('"window"' if name == "window" else name for name in columns)


_RECORDS = """rowid tenant id key kind agent_id group_id user_id conversation_id session position role label fact_type
created_at place thread order_key valid_until superseded_by slot terms window_terms changed expires_at acts
commit_number checksum"""
TABLES = tuple(
    CopiedTable(name, tuple(key.split()), tuple(columns.split()), by_triggers=name == "memberships")
    for name, key, columns in (
        ("tenants", "tenant", "tenant version horizon"),
        ("records", "rowid", _RECORDS),
        ("bodies", "rowid", "rowid record terms window"),
        ("vectors", "rowid", "rowid own context"),
        ("tokens", "rowid", "rowid vectors"),
        ("pieces", "rowid", "rowid vectors"),
        ("record_tags", "tag record", "record tag"),
        ("fts", "rowid", "rowid facets window"),
        ("versions", "rowid", "rowid tenant id number changed_at actor action before after"),
        ("recalls", "rowid", "rowid times last_at"),
        ("tombstones", "key", "key commit_number"),
        ("deleted", "tenant version rowid", "tenant version rowid"),
        ("memberships", "tenant agent_id group_id", "tenant agent_id group_id records"),
    )
)


@dataclass(frozen=True, slots=True)
class TableSum:
    """The rows of a table, counted and summed up; the same in both backends, whatever order they are read in."""

    rows: int
    checksum: str


def sum_table(database: Database, table: CopiedTable) -> TableSum:
    """Read a table and sum it up."""
    rows, total = 0, 0
    for row in _every_row(database, table):
        rows += 1
        total += _row_sum(row)
    return TableSum(rows, f"{total % _MODULUS:016x}")


def _every_row(database: Database, table: CopiedTable) -> Iterator[tuple[Any, ...]]:
    after: list[Any] | None = None
    while found := table.page(database, after):
        yield from found
        after = table.key_of(found[-1])


def _row_sum(row: Sequence[Any]) -> int:
    digest = blake2b(digest_size=8)
    for value in row:
        kind, data = _bytes(value)
        digest.update(b"%s%d:" % (kind, len(data)))
        digest.update(data)
    return int.from_bytes(digest.digest(), "big")


def _bytes(value: Any) -> tuple[bytes, bytes]:
    """Return a value's kind and bytes, the same for both backends: PostgreSQL's texts can't hold a NUL character."""
    if value is None:
        return b"n", b""
    if isinstance(value, str):
        return b"t", without_nul(value).encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return b"i", str(value).encode()
    return b"b", bytes(value)


_LAST_ROW = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'records'"
_LAST_GIVEN = """SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowids),
(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM commits)"""
_LAST_VERSION = """SELECT setval(pg_get_serial_sequence('versions', 'rowid'), greatest(max(rowid), 1), max(rowid) > 0)
FROM (SELECT coalesce(max(rowid), 0) AS rowid FROM versions) v"""


def last_numbers(database: Database) -> tuple[int, int]:
    """Return the highest rowid and number of a commit that were given, and never are again; 0 where none was."""
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
