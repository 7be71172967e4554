"""Connections that read, and how long one is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.postgres.postgres_address import CONNECT_SECONDS
from recall_loop.state.run.patience import patience

if TYPE_CHECKING:
    import psycopg

    from recall_loop.memory.store.postgres.postgres_address import PostgresAddress

# Searches of one process that read at the same time; the rest wait their turn.
_MOST_READERS = 8
# Once somebody has waited in vain, the next need not find out by waiting as long.
_SECONDS_WHILE_AWAY = 2.0


class ReaderPool:
    """A pool of connections for reading.

    Args:
        address: the schema.
        options: how to connect; see `connect_options`.
    """

    def __init__(self, address: PostgresAddress, options: dict[str, Any]) -> None:
        from psycopg_pool import ConnectionPool

        self._seconds: float = CONNECT_SECONDS
        self._pool = ConnectionPool(
            address.url,
            kwargs=options,
            min_size=1,
            max_size=_MOST_READERS,
            open=False,
            name="recall-loop",
            timeout=CONNECT_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
        )

    def open(self) -> None:
        """Connect; raises the pool's errors."""
        self._pool.open(wait=True, timeout=CONNECT_SECONDS)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Give a connection, maybe a broken one; raises the pool's errors where there is none in time."""
        from psycopg_pool import PoolTimeout

        with ExitStack() as held:
            try:
                raw = held.enter_context(self._pool.connection(timeout=patience(self._seconds)))
            except PoolTimeout:
                self._seconds = _SECONDS_WHILE_AWAY
                raise
            self._seconds = CONNECT_SECONDS
            yield raw

    def check(self) -> None:
        """Give up broken connections."""
        self._pool.check()

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
