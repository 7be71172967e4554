"""The open schema of a shared store; what `OpenStoreFiles` is for a folder (HOST-2).

A dump carries the identity of its store along, and with it the name of the collection in Chroma: a process that writes
what was restored beside its original would write into the original's collection. So the store notes the place of its
schema, which no dump carries along: server, database and schema by PostgreSQL's own numbers. Physical copies of a whole
server have the same numbers, and can't be told from their original.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from recall_loop.memory.store.chroma.chroma_index import COLLECTION_NAME
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_meta
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase

LOCATION_META_KEY = "schema_location"
_LOCATION = """SELECT concat_ws('/', s.system_identifier, d.oid, n.oid)
FROM pg_control_system() s, pg_database d, pg_namespace n WHERE d.datname = current_database() AND n.nspname = ?"""
_LOG = logging.getLogger(__name__)
_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'"""


def collections_of(marker: Mapping[str, str]) -> str:
    """Return how the names of a store's collections begin, of whatever generation."""
    return f"{COLLECTION_NAME}-{marker['store'][:16]}-"


@dataclass
class OpenSchema:
    """An open schema; its attributes are those of `OpenStoreFiles`."""

    database: PostgresDatabase
    read_only: bool = False
    api_key: str | None = None
    repairs: list[str] = field(default_factory=list)
    path: Path | None = None

    def _schema_location(self) -> str:
        """Return where the schema is: numbers of the server, the database and the schema."""
        return str(self.database.fetch(_LOCATION, (self.database.address.schema,))[0][0])

    def notes_location(self) -> bool:
        """Return whether the store notes the place where it is, so that nothing is to be done at its opening."""
        return self.database.meta().get(LOCATION_META_KEY) == self._schema_location()

    @cached_property
    def _is_restored(self) -> bool:
        """Whether the store was opened noting another place than the one where it is."""
        return LOCATION_META_KEY in self.database.meta() and not self.notes_location()

    def separate_restored(self) -> None:
        """Note where the store is; a restored copy becomes a store of its own, whose vectors go to a new collection."""
        if self._is_restored:
            self.database.set_meta({"store": uuid.uuid4().hex, "generation": uuid.uuid4().hex})
            _LOG.warning("%s: restored from a dump; its vectors go to a collection of its own in Chroma", self.place)
        self.database.set_meta({LOCATION_META_KEY: self._schema_location()})

    @property
    def place(self) -> str:
        """The address, for messages; without a password."""
        return str(self.database.address)

    @property
    def location(self) -> str:
        """The address, as another process opens it; has the password, if there is one."""
        return self.database.address.whole

    def is_in_place(self) -> bool:
        """Return True: a schema that is dropped takes no writes."""
        return True

    def size(self) -> int:
        """Return the bytes of the schema's tables with their indexes, without the server's log; errors as `fetch`."""
        return int(self.database.fetch(_SIZE, (self.database.address.schema,))[0][0])

    def chroma_location(self) -> ChromaServer | None:
        """Return the Chroma server of the store, as its tables note it; None = vectors are compared one by one.

        Its collection is that of the store's generation. The one that a restored copy names is its original's: until
        the copy is opened for writing, it has none.
        """
        meta = self.database.meta()
        known = None if self.read_only and self._is_restored else server_from_meta(meta)
        if known is None or "generation" not in meta:
            return known
        return replace(known, api_key=self.api_key, collection=f"{collections_of(meta)}{meta['generation'][:16]}")

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
