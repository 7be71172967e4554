"""The connections of a process to PostgreSQL: one that writes, with the locks it holds, and a pool to read (HOST-2)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.postgres.postgres_address import CONNECT_SECONDS, PostgresAddress
from recall_loop.memory.store.postgres.postgres_connection import PostgresConnection, lock_key, typed_errors
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError, StoreUnusableError
from recall_loop.state.run.patience import patience

if TYPE_CHECKING:
    import psycopg

_LOG = logging.getLogger(__name__)
# Concurrent searches of one process; the rest wait their turn.
_MAX_READERS = 8
# PostgreSQL restarts faster than this. An address with a `connect_timeout` sets another time.
AWAY_SECONDS = 3.0
# After one caller has waited in vain, the next ones need not wait as long.
_SECONDS_WHILE_AWAY = 0.5
# At this interval a waiting caller makes the pool connect, which by itself would pause longer and longer.
_TRY_SECONDS = 1.0
# For this long, the pool keeps trying by itself.
_RECONNECT_SECONDS = 0.25


class PostgresWriter:
    """One connection, which a process's threads take in turns; made when needed, and again when it is lost."""

    def __init__(self, address: PostgresAddress, options: Mapping[str, Any], *, read_only: bool) -> None:
        self._address, self._options, self._read_only = address, options, read_only
        self._lock = ProcessLock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._held = 0
        self._closed = False

    def _opened(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return the connection; a new one where the last one was lost and held no lock."""
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


class ReaderPool:
    """A pool of connections for reading."""

    def __init__(self, address: PostgresAddress, options: dict[str, Any]) -> None:
        from psycopg.conninfo import conninfo_to_dict
        from psycopg_pool import ConnectionPool

        # libpq takes 0 for "as long as it takes".
        given = float(conninfo_to_dict(address.url).get("connect_timeout") or 0)
        self._while_away = self._longest_away = given if given > 0 else AWAY_SECONDS
        self._held = 0
        self._counting = threading.Lock()
        self._pool = ConnectionPool(
            address.url,
            kwargs=options,
            min_size=1,
            max_size=_MAX_READERS,
            open=False,
            name="recall-loop",
            reconnect_timeout=_RECONNECT_SECONDS,
        )

    def open(self) -> None:
        """Connect; raises the pool's errors."""
        self._pool.open()
        with self.connection():
            pass

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Give a connection, maybe a broken one; raises the pool's errors where there is none in time."""
        with ExitStack() as held:
            raw = self._enter_one(held)
            self._count(1)
            held.callback(self._count, -1)
            yield raw

    def _enter_one(self, held: ExitStack) -> psycopg.Connection[tuple[Any, ...]]:
        """Wait for a connection: while others hold some longer than for a restart."""
        from psycopg_pool import PoolTimeout

        began = time.monotonic()
        away = began + patience(self._while_away)
        busy = max(away, began + patience(CONNECT_SECONDS))
        while True:
            left = (busy if self._held else away) - time.monotonic()
            try:
                raw = held.enter_context(self._pool.connection(timeout=min(_TRY_SECONDS, left)))
            except PoolTimeout:
                if (busy if self._held else away) > time.monotonic():
                    continue
                if not self._held:
                    self._while_away = min(_SECONDS_WHILE_AWAY, self._longest_away)
                raise
            self._while_away = self._longest_away
            return raw

    def _count(self, by: int) -> None:
        with self._counting:
            self._held += by

    def check(self) -> None:
        """Give up broken connections."""
        self._pool.check()

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
