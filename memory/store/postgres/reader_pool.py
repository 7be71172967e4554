"""Connections that read, and how long one is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.postgres.postgres_address import CONNECT_SECONDS
from recall_loop.state.run.patience import patience

if TYPE_CHECKING:
    import psycopg

    from recall_loop.memory.store.postgres.postgres_address import PostgresAddress

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


class ReaderPool:
    """A pool of connections for reading.

    Args:
        address: the schema.
        options: how to connect; see `connect_options`.
    """

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
