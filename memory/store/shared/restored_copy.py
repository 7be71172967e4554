"""A schema that was restored beside its original: the same notes in another place (HOST-2).

A dump carries the identity of its store along, and with it the name of the collection in Chroma. A process that writes
the copy would therefore write into the original's collection. The store notes the place of its schema, which no dump
carries along: server, database and schema by PostgreSQL's own numbers. Physical copies of a whole server have the same
numbers, and can't be told from their original.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase

LOCATION_META_KEY = "schema_location"
_LOCATION = """SELECT concat_ws('/', s.system_identifier, d.oid, n.oid)
FROM pg_control_system() s, pg_database d, pg_namespace n WHERE d.datname = current_database() AND n.nspname = ?"""
_LOG = logging.getLogger(__name__)


def schema_location(database: PostgresDatabase) -> str:
    """Return where a schema is: numbers of the server, the database and the schema; raises as `fetch`."""
    return str(database.fetch(_LOCATION, (database.address.schema,))[0][0])


def notes_location(database: PostgresDatabase) -> bool:
    """Return whether a store notes the place where it is, so that nothing is to be done at its opening."""
    return database.meta().get(LOCATION_META_KEY) == schema_location(database)


def is_restored_copy(database: PostgresDatabase) -> bool:
    """Return whether a store notes another place than the one where it is."""
    noted = database.meta().get(LOCATION_META_KEY)
    return noted is not None and noted != schema_location(database)


def separate_restored_copy(database: PostgresDatabase) -> None:
    """Note where a store is; a restored copy becomes a store of its own, whose vectors go to a new collection.

    Raises:
        StoreUnavailableError: PostgreSQL fails.
    """
    if is_restored_copy(database):
        database.set_meta({"store": uuid.uuid4().hex, "generation": uuid.uuid4().hex})
        _LOG.warning("%s: restored from a dump; its vectors go to a collection of its own in Chroma", database.address)
    database.set_meta({LOCATION_META_KEY: schema_location(database)})
