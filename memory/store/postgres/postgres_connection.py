"""Connections to PostgreSQL that take the statements of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

from recall_loop.memory.store.postgres.marks import with_marks, without_nul
from recall_loop.memory.store.postgres.postgres_schema import ALL_TENANTS, ONE_TENANT, TENANT_SETTING
from recall_loop.memory.store.tables.database import Parameters
from recall_loop.state.errors import (
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreUnusableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    import psycopg

# The tenant that each connection sees; connections that aren't here see all tenants, as they were opened.
_SEEN: WeakKeyDictionary[object, str] = WeakKeyDictionary()
_ROWIDS = "SELECT nextval('rowids') FROM generate_series(1, %s)"


def require_driver() -> None:
    """Raise `UnsupportedOptionError` where the driver isn't installed."""
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise UnsupportedOptionError(
            "path", "postgresql://…", 'a folder, or an address with the extra: pip install "recall-loop[postgres]"'
        ) from error


class PostgresConnection:
    """One connection; see `Connection`."""

    def __init__(self, raw: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.raw = raw

    def execute(self, statement: str, parameters: Parameters = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement."""
        marked = with_marks(statement)
        return self.raw.cursor(binary=True).execute(marked.text, marked.parameters(parameters))

    def executemany(self, statement: str, parameters: Iterable[Parameters], /) -> None:
        """Run a statement once for each set of parameters, all of them in one go."""
        marked = with_marks(statement)
        given = [marked.parameters(one) for one in parameters]
        if given:
            with self.raw.cursor() as cursor:
                cursor.executemany(marked.text, given)

    def see(self, tenant: str | None) -> None:
        """Let the connection see the rows of one tenant only, or of all (None), until it is told otherwise."""
        wanted = ALL_TENANTS if tenant is None else ONE_TENANT + without_nul(tenant)
        if _SEEN.get(self.raw, ALL_TENANTS) != wanted:
            self.raw.execute("SELECT set_config(%s, %s, false)", (TENANT_SETTING, wanted))
            _SEEN[self.raw] = wanted

    def new_rowids(self, count: int) -> list[int]:
        """Return rowids that no row has had, whichever process asks."""
        return [int(number) for (number,) in self.raw.execute(_ROWIDS, (count,))] if count else []

    def next_commit(self) -> int:
        """Return a number that no commit has had; commits of different tenants need not stand in their order."""
        return int(self.raw.execute("SELECT nextval('commits')").fetchone()[0])  # type: ignore[index]


@contextmanager
def typed_errors(words: str) -> Iterator[None]:
    """Turn the driver's errors into typed ones, which begin with `words`.

    Raises:
        StoreReadOnlyError: the connection, or the server, takes no writes.
        StoreUnavailableError: any other error of the driver.
    """
    import psycopg
    from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise StoreReadOnlyError(f"{words}: {_said(error)}") from error
    except PoolClosed as error:
        raise StoreUnusableError("the store is closed") from error
    except (psycopg.Error, PoolTimeout, TooManyRequests) as error:
        raise StoreUnavailableError(f"{words}: {_said(error)}", told=words) from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def lock_key(schema: str, *names: str) -> tuple[int, int]:
    """Return two signed 32-bit numbers for an advisory lock of a store, or of something in it."""
    first, second = (crc32(name.encode()) - (1 << 31) for name in (schema, "/".join(names)))
    return first, second
