"""Addresses of stores in PostgreSQL: `postgresql://user:password@host/database?schema=name`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from typing import TypeGuard

DEFAULT_SCHEMA = "recall_loop"
_SCHEMES = ("postgresql://", "postgres://")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def is_address(path: object) -> TypeGuard[str]:
    """Return whether a store's place is named by an address rather than by a folder."""
    return isinstance(path, str) and path.startswith(_SCHEMES)


def shown_place(path: str | Path) -> str:
    """Return a store's place for a message: an address without its password."""
    if not is_address(path):
        return str(path)
    parts = urlsplit(path)
    if not parts.password:
        return path
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{_raw_password(parts.netloc)}@", ":***@", 1)))


def _raw_password(netloc: str) -> str:
    return netloc.rpartition("@")[0].partition(":")[2]


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The schema of a PostgreSQL database that holds a store.

    Attributes:
        url: address of the database, as libpq takes it; has the password, if there is one.
        schema: the schema; one store each.
        shown: the address for messages, without a password.
    """

    url: str = field(repr=False)
    schema: str
    shown: str

    @classmethod
    def parse(cls, address: str) -> PostgresAddress:
        """Read an address.

        Raises:
            InvalidInputError: it is none, or `schema` is no name in lower case of up to 63 characters.
        """
        try:
            parts = urlsplit(address)
            pairs = parse_qsl(parts.query, keep_blank_values=True)
            _ = parts.port
        except ValueError as error:
            raise InvalidInputError(
                "path", shown_place(address), "postgresql://user:password@host:port/database"
            ) from error
        schema = dict(pairs).get("schema", DEFAULT_SCHEMA)
        if not _NAME.fullmatch(schema):
            raise InvalidInputError(
                "schema", schema, "a name of a-z, 0-9 and _ that begins with no digit, of up to 63 characters"
            )
        rest = urlencode([pair for pair in pairs if pair[0] != "schema"], quote_via=quote)
        return cls(urlunsplit(parts._replace(query=rest)), schema, shown_place(address))

    def __str__(self) -> str:
        """Return the address for messages."""
        return self.shown
