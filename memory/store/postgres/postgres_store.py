"""The tables of a store in PostgreSQL: connections, transactions and locks (HOST-1, HOST-2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, cast

from typing_extensions import override

from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.files.store_place import NoStoreError
from recall_loop.memory.store.postgres import postgres_dialect
from recall_loop.memory.store.postgres.held_connections import PostgresWriter, ReaderPool
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress, connect_options
from recall_loop.memory.store.postgres.postgres_connection import PostgresConnection, require_driver, typed_errors
from recall_loop.memory.store.postgres.postgres_schema import DDL, UPGRADE_6_TO_7
from recall_loop.memory.store.tables.database import Connection, Database, Parameters
from recall_loop.memory.store.tables.upgrades import Upgrade, note_recalls_since, read_generation
from recall_loop.state.errors import StoreUnavailableError

# Other processes' writes are seen within this time, this process's own at once: a request asks dozens of times.
_FRESH_SECONDS, _MAX_ANSWERS = 0.05, 10_000
_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)


def _add_recalls(connection: Connection) -> None:
    for statements in UPGRADE_6_TO_7:
        for statement in filter(str.strip, statements.split(";\n")):
            connection.execute(statement)
    note_recalls_since(connection)


class _RecentAnswers:
    """Answers by name, each good for a moment, and none from before this process's last write."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Ask again from now on; an answer that is still awaited isn't kept."""
        self._known: dict[str | None, tuple[float, Any]] = {}

    def get(self, name: str | None, ask: Callable[[], _T]) -> _T:
        """Return the known answer, or the result of `ask`."""
        known, now = self._known, time.monotonic()
        until, answer = known.get(name, (now, None))
        if now >= until:
            answer = ask()
            if len(known) >= _MAX_ANSWERS:
                self.forget()
            known[name] = now + _FRESH_SECONDS, answer
        return cast("_T", answer)


class PostgresDatabase(Database):
    """The schema of one store, safe for several threads and processes.

    A process has one connection for writing, which its threads take in turns, and several for reading. A commit is
    the acknowledgement of a write. Processes hold a tenant's lock while they write it, so that what they have read of
    it stays true. `answered`, where it is set, is called after each read that PostgreSQL has answered.

    Raises:
        StoreUnavailableError: PostgreSQL can't be reached, or there is no store.
        UnsupportedOptionError: the driver isn't installed.
    """

    dialect = postgres_dialect
    remedy = "PostgreSQL: restore it from a backup"  # which has its own means to prevent and repair that
    # The first schema of this backend was 6.
    upgrades: Mapping[int, Upgrade] = MappingProxyType({6: _add_recalls})

    def __init__(self, address: PostgresAddress, *, create: bool = True, read_only: bool = False) -> None:
        require_driver()
        import psycopg

        self.address, self.read_only = address, read_only
        self.answered: Callable[[], None] | None = None
        self._tenant: str | None = None
        self._process = ProcessLock()
        self._answers = _RecentAnswers()
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
        schema = self.address.schema
        made = partial(self.fetch, "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'meta'", (schema,))
        if made():
            return
        if self.read_only or not create:
            raise NoStoreError(f"{self.address}: no store there")
        with self.exclusive(None), self.transaction() as connection:
            if not made():  # another process may have created it
                known = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
                if not connection.execute(known, (schema,)).fetchone():
                    connection.raw.execute(f'CREATE SCHEMA "{schema}"')
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
        self._answers.forget()

    @contextmanager
    def exclusive(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold off what others write of some tenants, or of all (None), who wait for those that lock some.

        A process that dies gives its locks back.
        """
        with self._writer.exclusive(tenants):
            self._answers.forget()
            yield

    @contextmanager
    def side_transaction(self) -> Iterator[PostgresConnection]:
        """Give a transaction on a connection of its own, beside what this process writes."""
        with self.reading() as connection, connection.raw.transaction():
            yield connection

    def for_tenant(self, tenant: str) -> PostgresDatabase:
        """Return the tables as one tenant may see them: PostgreSQL itself holds back all other rows (HOST-5)."""
        seen = copy(self)
        seen._tenant = tenant
        return seen

    def tenant_version(self, tenant: str) -> int:
        """Return the version of a tenant's data; what another process wrote shows within 50 milliseconds."""
        return self._answers.get(tenant, partial(super().tenant_version, tenant))

    def generation(self) -> str:
        """Return the id of the index generation; another process may have begun one 50 milliseconds ago."""
        return self._answers.get(None, partial(read_generation, self, self.address))

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
