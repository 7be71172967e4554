"""The connection of a process that writes to PostgreSQL, and the locks that it holds (HOST-2)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.files.process_lock import ProcessLock
from recall_loop.memory.store.postgres.postgres_connection import PostgresConnection, lock_key, typed_errors
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError, StoreUnusableError

if TYPE_CHECKING:
    import psycopg

    from recall_loop.memory.store.postgres.postgres_address import PostgresAddress

_LOG = logging.getLogger(__name__)


class PostgresWriter:
    """One connection, which the threads of a process take in turns; made when it is needed, and again when it is lost.

    Args:
        address: the schema.
        options: how to connect; see `connect_options`.
        read_only: whether nothing may be written.
    """

    def __init__(self, address: PostgresAddress, options: Mapping[str, Any], *, read_only: bool) -> None:
        self._address, self._options, self._read_only = address, options, read_only
        self._lock = ProcessLock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._held = 0
        self._closed = False

    def _opened(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return the connection; a new one where the last one was lost and held no lock.

        Raises:
            StoreUnavailableError: the store is closed, or the connection was lost together with its locks.
            StoreReadOnlyError: the store is open for reading only.
        """
        import psycopg

        self._lock.check_process()
        if self._closed:
            raise StoreUnusableError("the store is closed")
        if self._read_only:
            raise StoreReadOnlyError("the store is open for reading only")
        if self._connection is not None and self._connection.closed:
            self._connection = None
        if self._connection is None and self._held:  # until the last of its locks is released
            raise StoreUnavailableError("the connection to PostgreSQL was lost during a write; nothing was written")
        if self._connection is None:
            self._connection = psycopg.connect(self._address.url, **self._options)
        return self._connection

    def _answering(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a connection that answers, where no lock depends on the one that there was."""
        import psycopg

        connection = self._opened()
        if not self._held:
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                connection.close()
                connection = self._opened()
        return connection

    @contextmanager
    def transaction(self, tenant: str | None) -> Iterator[PostgresConnection]:
        """Give the connection inside a transaction that sees one tenant, or all; errors as `PostgresDatabase`."""
        with self._lock, typed_errors("PostgreSQL can't be written"):
            raw = self._answering()
            connection = PostgresConnection(raw)
            connection.see(tenant)
            with raw.transaction():
                yield connection

    @contextmanager
    def exclusive(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold the locks of some tenants, or of the whole schema; see `PostgresDatabase.exclusive`."""
        schema = self._address.schema
        keys = [] if tenants is None else sorted({lock_key(schema, "tenant", name) for name in tenants})
        with self._lock:
            kind, taken = "" if tenants is None else "_shared", list[tuple[int, int]]()
            with typed_errors("PostgreSQL can't be written"):
                connection = self._answering()
                connection.execute(f"SELECT pg_advisory_lock{kind}(%s, %s)".encode(), lock_key(schema))
                try:
                    for key in keys:
                        connection.execute("SELECT pg_advisory_lock(%s, %s)", key)
                        taken.append(key)
                except BaseException:
                    self._release(connection, kind, taken)
                    raise
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1
                self._release(connection, kind, keys)

    def _release(
        self, connection: psycopg.Connection[tuple[Any, ...]], kind: str, keys: Iterable[tuple[int, int]]
    ) -> None:
        """Release locks; a connection that fails at it is closed, which releases all of its locks."""
        import psycopg

        try:
            for key in keys:
                connection.execute("SELECT pg_advisory_unlock(%s, %s)", key)
            connection.execute(f"SELECT pg_advisory_unlock{kind}(%s, %s)".encode(), lock_key(self._address.schema))
        except psycopg.Error as error:
            _LOG.warning("a lock in PostgreSQL was released by closing the connection: %s", error)
            connection.close()

    def run(self, statement: str) -> None:
        """Run a statement outside any transaction."""
        with self._lock, typed_errors("PostgreSQL can't be written"):
            self._answering().execute(statement.encode())

    def close(self) -> None:
        """Close the connection for good."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
