"""What a backend of the tables offers: connections, transactions, locks, and the SQL that only it understands (HOST-1).

Statements are written once, in what SQLite and PostgreSQL have in common: marks are `?` or `:name`, columns named
`window` are quoted, sets of values are JSON arrays read by `json_each`. `Dialect` has the rest.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.state.errors import StoreUnavailableError

_T = TypeVar("_T")
SCHEMA_VERSION = 7
METRIC = "cosine"
# A store's notes, in `meta` and in Chroma, that identify the store and its generation.
MARKER_FIELDS = ("store", "generation", "schema", "embedder", "fingerprint", "dimension", "metric")
APPLIED, PENDING = 0, 1
# Noted while a store is being moved to these tables: until the end of the move they aren't a store.
MOVING_META_KEY = "moving"
# Noted while a store is being embedded again: the new embedder. The table `reembedded` exists as long.
RE_EMBEDDING_META_KEY = "re_embedding"
# When counting of recalls began, in microseconds since 1970.
RECALLS_SINCE_META_KEY = "recalls_since"
Parameters = Sequence[Any] | Mapping[str, Any]
ORDER_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# After a column, if rows are named: keeps SQLite from using an index of that column, which would read many more.
UNINDEXED = " || ''"
# One parameter, a JSON array, for any number of values: texts, or rowids.
AMONG = "IN (SELECT value FROM json_each(?))"
AMONG_ROWS = "IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
KNOWN_KEYS = f"SELECT key FROM records WHERE key {AMONG}"
KNOWN_ROWS = f"SELECT rowid FROM records WHERE rowid {AMONG_ROWS}"
NOTE = "SELECT value FROM meta WHERE key = ?"


@dataclass(slots=True)
class Conditions:
    """Conditions in SQL, all of which must hold, with the values of their marks in the same order."""

    clauses: list[str] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)

    def add(self, clause: str, *params: Any) -> None:
        """Add a condition with the values of its marks."""
        self.clauses.append(clause)
        self.params += params

    @property
    def sql(self) -> str:
        """All of them as one condition."""
        return " AND ".join(self.clauses)


class DatabaseDamagedError(StoreUnavailableError):
    """The tables are malformed, or hold what was never written: they can be rebuilt from Chroma."""


class LexicalIndexError(StoreUnavailableError):
    """The lexical index is damaged, and nothing else: it can be rebuilt from the records."""


class Cursor(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""


class Connection(Protocol):
    """A connection, inside a transaction where it is for writing."""

    def execute(self, statement: str, parameters: Any = ..., /) -> Cursor:
        """Run a statement."""

    def executemany(self, statement: str, parameters: Iterable[Any], /) -> object:
        """Run a statement once for each set of parameters."""

    def new_rowids(self, count: int) -> Iterable[int]:
        """Return rowids that no row has had, ascending; they are used up by inserting them."""

    def next_commit(self) -> int:
        """Return the number of the commit that the current transaction leads to; every call takes one."""


class Dialect(Protocol):
    """SQL that the backends word differently. Where a record's JSON is read, `b` is the table `bodies`."""

    @property
    def staging(self) -> Sequence[str]:
        """Statements that make `reembedded`, which keeps new vectors aside while a store is embedded again."""

    def attribute_clauses(
        self, conditions: Mapping[str, object], tenant: str, numbers: Mapping[str, int]
    ) -> Conditions:
        """Return SQL over `records r` that holds for what the conditions of a tenant allow, given by path.

        `numbers` are those of the declared paths in `attribute_values`.
        """

    def index_attributes(
        self, connection: Connection, kept: Mapping[str, int], added: Mapping[str, int], dropped: Mapping[str, int]
    ) -> None:
        """Make and drop the indexes of attributes, given by path with their numbers, within a transaction."""

    def posting(self, facets: Sequence[str], token: str) -> tuple[str, str]:
        """Return a condition on `fts` for rows that have all facets and a token in their window, and its value."""

    @property
    def record_bytes(self) -> str:
        """SQL for the UTF-8 bytes of a record's JSON, sound or not."""

    def json_of_attribute(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Return SQL for an attribute as JSON, or for what holds it, with the names that lead to it from there."""


class Database(ABC):
    """The tables of one store, safe for several threads.

    Where the backend fails, its methods and all functions that are given one raise `StoreUnavailableError`: what they
    were to write in one transaction is then as before.

    Attributes:
        file: SQLite's file; None elsewhere.
        read_only: whether it was opened for reading only.
        dialect: the SQL that only this backend understands.
        remedy: name of the backend, and what to do where it has a damaged record that the other side hasn't.
        upgrades: steps from earlier schemas, each by the schema that it begins with; see `upgrades`.
        other_side: returns a row's JSON from Chroma, or None; set by the owner of the Chroma connection.
        lexical_damage: the error that was met when the lexical index failed, until it is rebuilt.
    """

    dialect: Dialect
    remedy: str
    upgrades: Mapping[int, Callable[[Connection], None]]
    file: Path | None = None
    read_only: bool
    other_side: Callable[[int], str | None] | None = None
    lexical_damage: str | None = None

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Give a connection that sees committed rows."""

    def fetch(self, query: str, params: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, as of the last commit; errors as `reading`."""
        with self.reading() as connection:
            return connection.execute(query, params).fetchall()

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """Give the writing connection inside a transaction: all of it is committed, or nothing.

        Raises:
            StoreUnavailableError: the store is closed, or the backend fails (a full disk, for one).
            StoreReadOnlyError: the store is open for reading only.
        """

    def exclusive(self, tenants: Iterable[str] | None) -> AbstractContextManager[object]:
        """Hold off what other processes write of some tenants, or of all (None), until the context is left.

        What this thread reads meanwhile stays true until it is written.

        Raises:
            StoreUnavailableError: PostgreSQL fails, or another process holds a lock for two minutes.
            StoreReadOnlyError: the store is open for reading only.
        """
        del tenants
        return nullcontext()  # a file has one writing process, which takes turns by the lock of its session

    def for_tenant(self, tenant: str) -> Database:
        """Return the tables as one tenant may see them: the backend itself holds back all other rows, where it can.

        SQLite knows no policies for rows, so that every statement names its tenant.
        """
        del tenant
        return self

    def tenant_version(self, tenant: str) -> int:
        """Return the version of a tenant's data; every write raises it."""
        found = self.fetch("SELECT version FROM tenants WHERE tenant = ?", (tenant,))
        return int(found[0][0]) if found else 0

    @abstractmethod
    def generation(self) -> str:
        """Return the id of the index generation; see `MemoryStore.generation`.

        Raises:
            NewerSchemaError: a later version of the program has upgraded the tables since they were opened.
        """

    def meta(self) -> dict[str, str]:
        """Return the generation marker and the other notes of the store about itself."""
        return dict(self.fetch("SELECT key, value FROM meta"))

    def set_meta(self, values: dict[str, str]) -> None:
        """Write notes of the store about itself; errors as `transaction`."""
        with self.transaction() as connection:
            set_meta(connection, values)

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
            raise DatabaseDamagedError(f"the record of row {rowid} is damaged in {self.remedy}")
        return found

    @abstractmethod
    def mark_suspect(self, *, texts: bool = True) -> None:
        """Note that damage was found, in the tables or in texts, for the next open for writing."""

    @abstractmethod
    def compact(self) -> None:
        """Give the space of deleted rows back (STORE-6); raises `StoreUnavailableError` where the backend fails."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection. Nothing in a forked child."""


def chunks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Yield up to `size` items at a time, in their order."""
    return (items[start : start + size] for start in range(0, len(items), size))


def ids_json(rowids: Iterable[int]) -> str:
    """Return rowids as the JSON array that `json_each` reads."""
    return json.dumps([int(rowid) for rowid in rowids])


def set_meta(connection: Connection, values: dict[str, str]) -> None:
    """Write notes of the store about itself, within a transaction."""
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", list(values.items())
    )
