"""The tables of a store in PostgreSQL: connections, transactions and locks (HOST-1, HOST-2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.memory.store.files.process_lock import ProcessLock
from recall_loop.memory.store.postgres.postgres_connection import (
    PostgresConnection,
    lock_key,
    require_driver,
    typed_errors,
)
from recall_loop.memory.store.postgres.postgres_dialect import PostgresDialect
from recall_loop.memory.store.postgres.postgres_schema import ALL_TENANTS, DDL, TENANT_SETTING
from recall_loop.memory.store.tables.database import DatabaseDamagedError, set_meta
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

    from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
    from recall_loop.memory.store.tables.database import Parameters

# Searches of one process that read at the same time; the rest wait their turn.
_MOST_READERS = 8
_CONNECT_SECONDS = 10
# A chunk of a thousand long records is embedded under its tenant's lock.
_LOCK_SECONDS = 120
# A process whose machine has vanished gives its locks back after about a minute.
_KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
# A request asks for versions dozens of times; others' writes are seen within this time, its own at once.
_FRESH_SECONDS = 0.05
_MOST_VERSIONS = 10_000
_VERSION = "SELECT version FROM tenants WHERE tenant = ?"
_LOG = logging.getLogger(__name__)


class NoStoreError(StoreUnavailableError):
    """PostgreSQL answers, and the schema holds no store."""


@dataclass
class _State:
    """What a store's tables and those of its tenants share, and what changes."""

    writer: psycopg.Connection[tuple[Any, ...]] | None = None
    held: int = 0
    closed: bool = False
    writes: int = 0
    tables: set[str] = field(default_factory=set)
    versions: dict[str, tuple[float, int]] = field(default_factory=dict)
    generation: tuple[float, str] = (0.0, "")


class PostgresDatabase:
    """The schema of one store, safe for several threads and processes.

    A process has one connection for writing, which its threads take in turns, and several for reading. A commit is
    the acknowledgement of a write. Processes hold a tenant's lock while they write it, so that what they have read of
    it stays true.

    Args:
        address: the schema.
        create: whether to make it if there is none.
        read_only: whether it is opened for reading only.

    Raises:
        StoreUnavailableError: PostgreSQL can't be reached, or there is no store.
        UnsupportedOptionError: the driver isn't installed.
    """

    dialect = PostgresDialect()
    file: Path | None = None

    def __init__(self, address: PostgresAddress, *, create: bool = True, read_only: bool = False) -> None:
        require_driver()
        import psycopg

        self.address, self.read_only = address, read_only
        self.other_side: Callable[[int], str | None] | None = None
        self.lexical_damage: str | None = None
        self._lock = ProcessLock()
        self._state = _State()
        self._tenant: str | None = None
        self._pool = self._make_pool()
        try:
            with typed_errors(f"{address}: PostgreSQL can't be reached"):
                psycopg.connect(self.address.url, **self._options()).close()  # fails at once, with the reason
                self._pool.open(wait=True, timeout=_CONNECT_SECONDS)
            self._make_tables(create=create)
        except BaseException:
            self.close()
            raise

    def _options(self) -> dict[str, Any]:
        read_only = "-c default_transaction_read_only=on" if self.read_only else ""
        search = f"-c search_path={self.address.schema},public -c lock_timeout={_LOCK_SECONDS}s"
        search = f"{search} -c {TENANT_SETTING}={ALL_TENANTS}"
        from psycopg.conninfo import conninfo_to_dict

        given = conninfo_to_dict(self.address.url)
        options = " ".join(filter(None, [str(given.get("options") or ""), search, _KEEPALIVE, read_only]))
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "recall-loop"}
        chosen = {name: value for name, value in defaults.items() if name not in given}
        return {**chosen, "options": options, "autocommit": True}

    def _make_pool(self) -> ConnectionPool[psycopg.Connection[tuple[Any, ...]]]:
        from psycopg_pool import ConnectionPool

        return ConnectionPool(
            self.address.url,
            kwargs=self._options(),
            min_size=1,
            max_size=_MOST_READERS,
            open=False,
            name="recall-loop",
            timeout=_CONNECT_SECONDS,
            reconnect_timeout=_CONNECT_SECONDS,
        )

    def _make_tables(self, *, create: bool) -> None:
        if self.has_table("meta"):
            return
        if self.read_only or not create:
            raise NoStoreError(f"{self.address}: no store there")
        with self.exclusive(None), self.transaction() as connection:
            if not self.has_table("meta"):  # another process may have made it
                known = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
                if not connection.execute(known, (self.address.schema,)).fetchone():
                    connection.raw.execute(f'CREATE SCHEMA "{self.address.schema}"')
                connection.raw.execute(DDL.encode())

    @contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """Give a connection that sees committed rows, of all tenants or of the one that this is for.

        Raises:
            StoreUnavailableError: the store is closed, or PostgreSQL fails.
        """
        self._lock.check_process()
        if self._state.closed:
            raise StoreUnavailableError("the store is closed")
        with typed_errors("PostgreSQL can't be read"), self._pool.connection() as raw:
            connection = PostgresConnection(raw)
            connection.see(self._tenant)
            yield connection

    def fetch(self, query: str, params: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, as of the last commit; once more where connections turn out to be broken.

        Raises:
            StoreUnavailableError: the store is closed, or PostgreSQL fails.
        """
        try:
            with self.reading() as connection:
                return connection.execute(query, params).fetchall()
        except StoreUnavailableError as error:
            if self._state.closed or not _is_broken(error):
                raise
            _LOG.warning("a connection to PostgreSQL was lost; trying again: %s", error)
        self._pool.check()
        with self.reading() as connection:
            return connection.execute(query, params).fetchall()

    def _open_writer(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return the writing connection; a new one where the last one was lost and held no lock.

        Raises:
            StoreUnavailableError: the store is closed, or the connection was lost together with its locks.
            StoreReadOnlyError: the store is open for reading only.
        """
        import psycopg

        self._lock.check_process()
        if self._state.closed:
            raise StoreUnavailableError("the store is closed")
        if self.read_only:
            raise StoreReadOnlyError("the store is open for reading only")
        if self._state.writer is not None and self._state.writer.closed:
            self._state.writer = None
        if self._state.writer is None and self._state.held:  # until the last lock that it had is given up
            raise StoreUnavailableError("the connection to PostgreSQL was lost during a write; nothing was written")
        if self._state.writer is None:
            self._state.writer = psycopg.connect(self.address.url, **self._options())
        return self._state.writer

    def _ready_writer(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a writing connection that answers, where no lock depends on the one that there was."""
        import psycopg

        writer = self._open_writer()
        if not self._state.held:
            try:
                writer.execute("SELECT 1")
            except psycopg.OperationalError:
                writer.close()
                writer = self._open_writer()
        return writer

    @contextmanager
    def transaction(self) -> Iterator[PostgresConnection]:
        """Give the writing connection inside a transaction: all of it is committed, or nothing.

        Raises:
            StoreUnavailableError: the store is closed, or PostgreSQL fails.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock, typed_errors("PostgreSQL can't be written"):
            writer = self._ready_writer()
            connection = PostgresConnection(writer)
            connection.see(self._tenant)
            with writer.transaction():
                yield connection
            self._forget_versions()

    def _forget_versions(self) -> None:
        """Ask for versions and the generation again from now on."""
        self._state.writes += 1
        self._state.versions.clear()
        self._state.generation = (0.0, "")

    @contextmanager
    def side_transaction(self) -> Iterator[PostgresConnection]:
        """Give a transaction on a connection of its own, beside what this process writes.

        Raises:
            StoreUnavailableError: the store is closed, or PostgreSQL fails.
        """
        with self.reading() as connection, connection.raw.transaction():
            yield connection

    @contextmanager
    def exclusive(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold off what other processes write of some tenants, or of all (None), until the context is left.

        A process that dies gives its locks back. Whoever locks all waits for those that lock some.

        Raises:
            StoreUnavailableError: PostgreSQL fails, or another process holds a lock for two minutes.
            StoreReadOnlyError: the store is open for reading only.
        """
        schema = self.address.schema
        keys = [] if tenants is None else sorted({tuple(lock_key(schema, "tenant", name)) for name in tenants})
        with self._lock:
            kind, taken = "" if tenants is None else "_shared", list[tuple[int, ...]]()
            with typed_errors("PostgreSQL can't be written"):
                writer = self._ready_writer()
                writer.execute(f"SELECT pg_advisory_lock{kind}(%s, %s)".encode(), lock_key(schema))
                try:
                    for key in keys:
                        writer.execute("SELECT pg_advisory_lock(%s, %s)", key)
                        taken.append(key)
                except BaseException:
                    self._release(writer, kind, taken)
                    raise
            self._state.held += 1
            self._forget_versions()
            try:
                yield
            finally:
                self._state.held -= 1
                self._release(writer, kind, keys)

    def _release(self, writer: psycopg.Connection[tuple[Any, ...]], kind: str, keys: Iterable[tuple[int, ...]]) -> None:
        """Give locks back; a connection that fails at it is closed, which gives all of its locks back."""
        import psycopg

        try:
            for key in keys:
                writer.execute("SELECT pg_advisory_unlock(%s, %s)", key)
            writer.execute(f"SELECT pg_advisory_unlock{kind}(%s, %s)".encode(), lock_key(self.address.schema))
        except psycopg.Error as error:
            _LOG.warning("a lock in PostgreSQL was given back by closing the connection: %s", error)
            writer.close()

    def for_tenant(self, tenant: str) -> PostgresDatabase:
        """Return the tables as one tenant may see them: PostgreSQL itself holds back all other rows (HOST-5)."""
        seen = copy(self)
        seen._tenant = tenant
        return seen

    def tenant_version(self, tenant: str) -> int:
        """Return the version of a tenant's data; what another process wrote shows within 50 milliseconds."""
        now, writes = time.monotonic(), self._state.writes
        known, version = self._state.versions.get(tenant, (0.0, 0))
        if now >= known:
            found = self.fetch(_VERSION, (tenant,))
            version = int(found[0][0]) if found else 0
            if len(self._state.versions) >= _MOST_VERSIONS:
                self._state.versions.clear()
            if writes == self._state.writes:  # else it may be from before this process's last commit
                self._state.versions[tenant] = (now + _FRESH_SECONDS, version)
        return version

    def generation(self) -> str:
        """Return the id of the index generation; another process may have begun one 50 milliseconds ago."""
        now, writes = time.monotonic(), self._state.writes
        known, generation = self._state.generation
        if now >= known:
            generation = str(self.fetch("SELECT value FROM meta WHERE key = 'generation'")[0][0])
            if writes == self._state.writes:
                self._state.generation = (now + _FRESH_SECONDS, generation)
        return generation

    def has_table(self, name: str) -> bool:
        """Return whether the schema has a table."""
        if name not in self._state.tables:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
            self._state.tables = {table for (table,) in self.fetch(query, (self.address.schema,))}
        return name in self._state.tables

    def meta(self) -> dict[str, str]:
        """Return the generation marker and the other notes of the store about itself."""
        return dict(self.fetch("SELECT key, value FROM meta"))

    def set_meta(self, values: dict[str, str]) -> None:
        """Write notes of the store about itself; errors as `transaction`."""
        with self.transaction() as connection:
            set_meta(connection, values)

    def sound_body(self, rowid: int, body: str, checksum: int | None) -> str:
        """Return a record's JSON as it was written.

        Raises:
            DatabaseDamagedError: it is damaged; PostgreSQL has its own means to prevent and mend that.
        """
        if checksum is None or body_checksum(body) == checksum:
            return body
        found = None if self.other_side is None else self.other_side(rowid)
        if found is None:
            raise DatabaseDamagedError(f"the record of row {rowid} is damaged in PostgreSQL: restore it from a backup")
        return found

    def mark_suspect(self, *, texts: bool = True) -> None:
        """Log that damage was met: no process opens the store alone, so that none repairs it at its opening."""
        _LOG.error("damage was met in %s (%s)", self.address, "texts" if texts else "tables")

    def compact(self) -> None:
        """Have PostgreSQL give the space of deleted rows back to its tables.

        Raises:
            StoreUnavailableError: PostgreSQL fails.
        """
        with self._lock, typed_errors("PostgreSQL can't compact the tables"):
            self._ready_writer().execute("VACUUM (ANALYZE)")

    def close(self) -> None:
        """Close every connection. Nothing in a forked child."""
        if self._lock.is_foreign:
            return
        with self._lock:
            self._state.closed = True
            self._pool.close()
            if self._state.writer is not None:
                self._state.writer.close()
                self._state.writer = None


def _is_broken(error: StoreUnavailableError) -> bool:
    """Return whether an error is of a connection that was lost, rather than of a statement."""
    import psycopg
    from psycopg_pool import PoolTimeout

    cause = error.__cause__
    if isinstance(cause, PoolTimeout):  # waited for long enough
        return False
    return isinstance(cause, psycopg.OperationalError) and cause.sqlstate in (None, "57P01", "57P02", "57P03")
