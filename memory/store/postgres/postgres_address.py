"""Addresses of stores in PostgreSQL: `postgresql://user:password@host/database?schema=name`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from recall_loop.memory.store.files.store_place import login_of, shown_place
from recall_loop.memory.store.postgres.postgres_connection import require_driver
from recall_loop.memory.store.postgres.postgres_schema import ALL_TENANTS, TENANT_SETTING
from recall_loop.state.errors import InvalidInputError

DEFAULT_SCHEMA = "recall_loop"
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
# What both libpq and the readers' pool can parse.
_SECONDS = re.compile(r"[+-]?\d{1,9}(\.\d*)?")
_PORTS = re.compile(r"\d{0,5}(,\d{0,5})*")
_SCHEMA = "schema="
_ALLOWED = "postgresql://user:password@host:port/database, with options as libpq takes them, and ?schema=name"
_ENCODED = "in a user and a password @ as %40, ? as %3F, / as %2F, : as %3A and % as %25"
CONNECT_SECONDS = 10
# A chunk of a thousand long records is embedded under its tenant's lock.
LOCK_SECONDS = 120
# Locks of a process whose machine has vanished are released after about a minute.
_KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


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
            InvalidInputError: it is none, or `schema` is no name in lower case of up to 63 characters or two, or
                `connect_timeout` no number.
            UnsupportedOptionError: the driver isn't installed.
        """
        if re.search("[@?]", login_of(address)):  # libpq takes the rest of such a password for the host, and shows it
            raise InvalidInputError("path", shown_place(address), f"{_ALLOWED}; {_ENCODED}")
        base, _, query = address.partition("?")
        options = query.split("&") if query else []
        schemas = [unquote(option.removeprefix(_SCHEMA)) for option in options if option.startswith(_SCHEMA)]
        if len(schemas) > 1:
            raise InvalidInputError("schema", " and ".join(schemas), "one name: a store is in one schema")
        schema = schemas[0] if schemas else DEFAULT_SCHEMA
        if not _NAME.fullmatch(schema):
            raise InvalidInputError(
                "schema", schema, "a name of a-z, 0-9 and _ that begins with no digit nor pg_, of up to 63 characters"
            )
        rest = "&".join(option for option in options if not option.startswith(_SCHEMA))
        url = f"{base}?{rest}" if rest else base
        if not _is_understood(url):
            raise InvalidInputError("path", shown_place(address), _ALLOWED)
        return cls(url, schema, shown_place(address))

    def __str__(self) -> str:
        return self.shown

    @property
    def whole(self) -> str:
        """The address as it was given, for another process to open; has the password, if there is one."""
        return f"{self.url}{'&' if '?' in self.url else '?'}{_SCHEMA}{self.schema}"


def _is_understood(url: str) -> bool:
    """Return whether libpq can read an address, whose own messages may quote a password."""
    require_driver()
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = conninfo_to_dict(url)
    except psycopg.Error:
        return False
    seconds = str(options.get("connect_timeout", CONNECT_SECONDS))
    if not _SECONDS.fullmatch(seconds):
        raise InvalidInputError("connect_timeout", seconds, "a number of seconds, such as 5")
    return _PORTS.fullmatch(str(options.get("port", ""))) is not None


def connect_options(address: PostgresAddress, *, read_only: bool) -> dict[str, Any]:
    """Return how to connect to a schema; options of the address's own stand beside these."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(address.url)
    parts = [
        str(given.get("options") or ""),
        f"-c search_path={address.schema},public -c lock_timeout={LOCK_SECONDS}s",
        f"-c {TENANT_SETTING}={ALL_TENANTS}",
        _KEEPALIVE,
        "-c default_transaction_read_only=on" if read_only else "",
    ]
    defaults = {"connect_timeout": CONNECT_SECONDS, "application_name": "recall-loop"}
    chosen = {name: value for name, value in defaults.items() if name not in given}
    return {**chosen, "options": " ".join(filter(None, parts)), "autocommit": True}
