"""The tables of a store in PostgreSQL: connections, transactions and locks (HOST-1, HOST-2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.memory.store.files.process_lock import ProcessLock
from recall_loop.memory.store.files.store_place import NoStoreError
from recall_loop.memory.store.postgres.postgres_address import connect_options
from recall_loop.memory.store.postgres.postgres_connection import (
    PostgresConnection,
    require_driver,
    typed_errors,
)
from recall_loop.memory.store.postgres.postgres_dialect import PostgresDialect
from recall_loop.memory.store.postgres.postgres_schema import DDL, UPGRADE_6_TO_7
from recall_loop.memory.store.postgres.postgres_writer import PostgresWriter
from recall_loop.memory.store.postgres.reader_pool import ReaderPool
from recall_loop.memory.store.postgres.recent_answers import RecentAnswers
from recall_loop.memory.store.tables.database import Database, DatabaseDamagedError
from recall_loop.memory.store.tables.upgrades import note_recalls_since, read_generation
from recall_loop.state.errors import StoreUnavailableError

if TYPE_CHECKING:
    from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
    from recall_loop.memory.store.tables.database import Connection, Parameters
    from recall_loop.memory.store.tables.upgrades import Upgrade

# Other processes' writes are seen within this time, this process's own at once.
_FRESH_SECONDS = 0.05
_LOG = logging.getLogger(__name__)


def _add_recalls(connection: Connection) -> None:
    for statements in UPGRADE_6_TO_7:
        for statement in filter(str.strip, statements.split(";\n")):
            connection.execute(statement)
    note_recalls_since(connection)


class PostgresDatabase(Database):
    """The schema of one store, safe for several threads and processes.

    A process has one connection for writing, which its threads take in turns, and several for reading. A commit is
    the acknowledgement of a write. Processes hold a tenant's lock while they write it, so that what they have read of
    it stays true.

    Args:
        address: the schema.
        create: whether to make it if there is none.
        read_only: whether it is opened for reading only.

    Attributes:
        answered: called after each read that PostgreSQL has answered.

    Raises:
        StoreUnavailableError: PostgreSQL can't be reached, or there is no store.
        UnsupportedOptionError: the driver isn't installed.
    """

    dialect = PostgresDialect()
    # The first schema of this backend was 6.
    upgrades: Mapping[int, Upgrade] = MappingProxyType({6: _add_recalls})

    def __init__(self, address: PostgresAddress, *, create: bool = True, read_only: bool = False) -> None:
        require_driver()
        import psycopg

        self.address, self.read_only = address, read_only
        self.answered: Callable[[], None] | None = None
        self._tenant: str | None = None
        self._process = ProcessLock()
        self._tables: set[str] = set()
        self._versions = RecentAnswers[int](_FRESH_SECONDS)
        self._generations = RecentAnswers[str](_FRESH_SECONDS)
        options = connect_options(address, read_only=read_only)
        self._writer = PostgresWriter(address, options, read_only=read_only)
        self._pool = ReaderPool(address, options)
        try:
            with typed_errors(f"{address}: PostgreSQL can't be reached"):
                psycopg.connect(address.url, **options).close()  # fails at once, with the reason
                self._pool.open()
            self._make_tables(create=create)
        except BaseException:
            self.close()
            raise

    def _make_tables(self, *, create: bool) -> None:
        if self.has_table("meta"):
            return
        if self.read_only or not create:
            raise NoStoreError(f"{self.address}: no store there")
        with self.exclusive(None), self.transaction() as connection:
            if not self.has_table("meta"):  # another process may have created it
                known = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
                if not connection.execute(known, (self.address.schema,)).fetchone():
                    connection.raw.execute(f'CREATE SCHEMA "{self.address.schema}"')
                connection.raw.execute(DDL.encode())

    @contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """Give a connection that sees committed rows, of all tenants or of the one that this is for."""
        self._process.check_process()
        with typed_errors("PostgreSQL can't be read"), self._pool.connection() as raw:
            connection = PostgresConnection(raw)
            connection.see(self._tenant)
            yield connection
        if self.answered is not None:
            self.answered()

    def fetch(self, query: str, params: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, as of the last commit; once more where connections turn out to be broken."""
        try:
            return super().fetch(query, params)
        except StoreUnavailableError as error:
            if not _is_broken(error):
                raise
            _LOG.warning("a connection to PostgreSQL was lost; trying again: %s", error)
        self._pool.check()
        return super().fetch(query, params)

    @override
    @contextmanager
    def transaction(self) -> Iterator[PostgresConnection]:
        with self._writer.transaction(self._tenant) as connection:
            yield connection
        self._forget_answers()

    @contextmanager
    def exclusive(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold off what other processes write of some tenants, or of all (None), until the context is left.

        A process that dies gives its locks back. Whoever locks all waits for those that lock some.
        """
        with self._writer.exclusive(tenants):
            self._forget_answers()
            yield

    def _forget_answers(self) -> None:
        self._versions.forget()
        self._generations.forget()

    @contextmanager
    def side_transaction(self) -> Iterator[PostgresConnection]:
        """Give a transaction on a connection of its own, beside what this process writes.

        Raises:
            StoreUnavailableError: the store is closed, or PostgreSQL fails.
        """
        with self.reading() as connection, connection.raw.transaction():
            yield connection

    def for_tenant(self, tenant: str) -> PostgresDatabase:
        """Return the tables as one tenant may see them: PostgreSQL itself holds back all other rows (HOST-5)."""
        seen = copy(self)
        seen._tenant = tenant
        return seen

    def tenant_version(self, tenant: str) -> int:
        """Return the version of a tenant's data; what another process wrote shows within 50 milliseconds."""
        return self._versions.get(tenant, partial(super().tenant_version, tenant))

    def generation(self) -> str:
        """Return the id of the index generation; another process may have begun one 50 milliseconds ago."""
        return self._generations.get("", lambda: read_generation(self, self.address))

    def has_table(self, name: str) -> bool:
        """Return whether the schema has a table."""
        if name not in self._tables:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
            self._tables.update(table for (table,) in self.fetch(query, (self.address.schema,)))
        return name in self._tables

    @override
    def sound_body(self, rowid: int, body: str, checksum: int | None) -> str:
        if checksum is None or body_checksum(body) == checksum:
            return body
        found = None if self.other_side is None else self.other_side(rowid)
        if found is None:
            # PostgreSQL has its own means to prevent and repair that.
            raise DatabaseDamagedError(f"the record of row {rowid} is damaged in PostgreSQL: restore it from a backup")
        return found

    def mark_suspect(self, *, texts: bool = True) -> None:
        """Log that damage was found: no process opens the store alone, so that none repairs it at its opening."""
        _LOG.error("found damage in %s (%s)", self.address, "texts" if texts else "tables")

    def compact(self) -> None:
        """Have PostgreSQL give the space of deleted rows back to its tables."""
        self._writer.run("VACUUM (ANALYZE)")

    @override
    def close(self) -> None:
        if not self._process.is_foreign:
            self._pool.close()
            self._writer.close()


def _is_broken(error: StoreUnavailableError) -> bool:
    """Return whether an error is of a connection that was lost, rather than of a statement."""
    import psycopg
    from psycopg_pool import PoolClosed, PoolTimeout

    cause = error.__cause__
    if isinstance(cause, PoolClosed | PoolTimeout):  # closed for good, or waited long enough
        return False
    return isinstance(cause, psycopg.OperationalError) and cause.sqlstate in (None, "57P01", "57P02", "57P03")
