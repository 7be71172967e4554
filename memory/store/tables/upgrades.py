"""Bringing tables of an earlier schema to this version's, in either backend (STORE-4, HOST-2).

`SCHEMA_VERSION` is of both backends. Whoever changes a table raises it, changes the backend's DDL, and adds the step
that makes the change in tables that are there to the backend's `upgrades`; the other backend's step may do nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.tables.database import (
    METRIC,
    NOTE,
    RECALLS_SINCE_META_KEY,
    SCHEMA_VERSION,
    Connection,
    Database,
    set_meta,
)
from recall_loop.state.errors import StoreUnavailableError, StoreUnusableError

Upgrade = Callable[["Connection"], None]
"""Changes the tables of one schema to those of the next, within a transaction."""
HOW_TO_UPGRADE = "open it once for writing to upgrade it, as `recall-loop store sweep` does"
_SCHEMA_KEY = "schema"
_OPEN = "SELECT key, value FROM meta WHERE key IN ('generation', 'schema')"
_LOG = logging.getLogger(__name__)


class NewerSchemaError(StoreUnusableError):
    """A later version of the program has made or upgraded the tables: this one neither reads nor writes them."""


def upgrade_tables(database: Database) -> None:
    """Bring tables of an earlier schema, open for writing, to this one, all of it in one transaction.

    Other processes that write wait meanwhile, and find it done. Any other tables are left as they are.
    """
    if not _is_earlier(database, database.meta().get(_SCHEMA_KEY)):
        return
    with database.exclusive(None), database.transaction() as connection:
        ((found,),) = connection.execute(NOTE, (_SCHEMA_KEY,)).fetchall()
        for number in range(int(found), SCHEMA_VERSION):
            database.upgrades[number](connection)
        set_meta(connection, {_SCHEMA_KEY: str(SCHEMA_VERSION)})
    _LOG.info("the tables were upgraded", extra={"from": int(found), "to": SCHEMA_VERSION})


def note_recalls_since(connection: Connection) -> None:
    """Note that recalls are counted from now on, unless they were before."""
    values = (RECALLS_SINCE_META_KEY, str(now_microseconds()))
    connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO NOTHING", values)


def check_schema(database: Database, marker: Mapping[str, str], place: str) -> None:
    """Check that tables with this marker are of the schema that this version reads and writes.

    Raises:
        NewerSchemaError: they are of a later one.
        StoreUnavailableError: they are of an earlier one.
    """
    found = marker[_SCHEMA_KEY]
    if _is_earlier(database, found):
        raise StoreUnavailableError(f"{place}: made with schema {found}; {HOW_TO_UPGRADE}")
    refuse_newer(marker, place)
    if not is_current(marker):
        raise StoreUnavailableError(
            f"{place}: made with schema {found} and metric {marker['metric']}; "
            f"this version reads schema {SCHEMA_VERSION} and {METRIC}"
        )


def read_generation(database: Database, place: object) -> str:
    """Return the id of the index generation of open tables, or "" where none has begun; errors as `refuse_newer`."""
    found = dict(database.fetch(_OPEN))
    if _SCHEMA_KEY in found:
        refuse_newer(found, place)
    return str(found.get("generation", ""))


def refuse_newer(marker: Mapping[str, str], place: object) -> None:
    """Raise `NewerSchemaError` where tables with this marker are of a later version's schema."""
    if int(marker[_SCHEMA_KEY]) > SCHEMA_VERSION:
        made = (
            f"made with schema {marker[_SCHEMA_KEY]}; this version reads schema {SCHEMA_VERSION}: "
            "use the later version of Recall Loop that made or upgraded it"
        )
        raise NewerSchemaError(f"{place}: {made}", told=f"the store was {made}")


def is_current(marker: Mapping[str, str]) -> bool:
    """Return whether tables with this marker are of the schema that this version reads and writes."""
    return bool(marker) and marker[_SCHEMA_KEY] == str(SCHEMA_VERSION) and marker["metric"] == METRIC


def _is_earlier(database: Database, found: str | None) -> bool:
    return found is not None and int(found) in database.upgrades
