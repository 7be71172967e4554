"""Connections to PostgreSQL, and the statements of the tables in its notation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

from recall_loop.memory.store.postgres.postgres_schema import ALL_TENANTS, ONE_TENANT, TENANT_SETTING
from recall_loop.memory.store.tables.database import AMONG, AMONG_ROWS, UNINDEXED, Parameters
from recall_loop.state.errors import (
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreUnusableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    import psycopg

# Literals and quoted names are unchanged; `::` is a cast, not the name of a mark.
_PARTS = re.compile(
    rf"(?P<literal>'(?:[^']|'')*'|\"[^\"]*\")|(?P<rows>(?:NOT )?{re.escape(AMONG_ROWS)})"
    rf"|(?P<texts>(?:NOT )?{re.escape(AMONG)})|(?P<mark>\?)|(?<!:):(?P<name>[a-z_]+)|(?P<percent>%)"
)
_BRACES = str.maketrans("[]", "{}")


@dataclass(frozen=True, slots=True)
class MarkedStatement:
    """A statement with psycopg's marks, and the places of the parameters that are sets of rowids, or of texts."""

    text: bytes
    rows: frozenset[int]
    texts: frozenset[int]

    def parameters(self, given: Parameters) -> Parameters:
        """Return parameters as PostgreSQL takes them: sets as arrays, texts without NUL characters."""
        if isinstance(given, Mapping):
            return {name: _storable(value) for name, value in given.items()}
        return [self._parameter(place, value) for place, value in enumerate(given)]

    def _parameter(self, place: int, value: Any) -> Any:
        if place in self.rows:
            return value.translate(_BRACES)
        if place in self.texts:
            return [text for text in json.loads(value) if "\x00" not in text and _is_encodable(text)]
        return _storable(value)


@lru_cache(maxsize=1024)
def with_marks(statement: str) -> MarkedStatement:
    """Return a statement whose marks `?` and `:name` are psycopg's, and whose sets of values are arrays.

    An array is looked up in an index; of a set that a function returns PostgreSQL doesn't know that it is small. What
    keeps SQLite from an index would keep PostgreSQL from its statistics.
    """
    places: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0]
        if kind in ("mark", "rows", "texts"):
            places.append(kind)
        if kind == "literal":
            return text.replace("%", "%%")
        if kind in ("rows", "texts"):
            return "<> ALL (%s)" if text.startswith("NOT") else "= ANY (%s)"
        return {"mark": "%s", "percent": "%%"}.get(kind) or f"%({found['name']})s"

    marked = _PARTS.sub(replaced, statement.replace(UNINDEXED, ""))
    sets = [frozenset(at for at, kind in enumerate(places) if kind == wanted) for wanted in ("rows", "texts")]
    return MarkedStatement(marked.encode(), *sets)


def without_nul(text: str) -> str:
    """Return a text with U+FFFD for each NUL character, which PostgreSQL's texts can't hold; JSON keeps it escaped."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def _is_encodable(text: str) -> bool:
    """Return whether PostgreSQL can store a text: otherwise it isn't any record's id."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _storable(value: Any) -> Any:
    return without_nul(value) if isinstance(value, str) else value


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
