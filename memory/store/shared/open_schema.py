"""The open schema of a shared store; what `OpenStoreFiles` is for a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.memory.store.chroma.chroma_index import COLLECTION_NAME
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_meta
from recall_loop.memory.store.shared.restored_copy import is_restored_copy

if TYPE_CHECKING:
    from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase

_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'"""


def collections_of(marker: Mapping[str, str]) -> str:
    """Return how the names of a store's collections begin, of whatever generation."""
    return f"{COLLECTION_NAME}-{marker['store'][:16]}-"


@dataclass
class OpenSchema:
    """An open schema.

    Attributes:
        database: the tables.
        read_only: whether it was opened for reading only.
        api_key: key of the Chroma server.
        repairs: repairs that were made, in words.
    """

    database: PostgresDatabase
    read_only: bool = False
    api_key: str | None = None
    repairs: list[str] = field(default_factory=list)
    path: Path | None = None

    @cached_property
    def _is_copy(self) -> bool:
        return is_restored_copy(self.database)

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
        known = None if self.read_only and self._is_copy else server_from_meta(meta)
        if known is None or "generation" not in meta:
            return known
        return replace(known, api_key=self.api_key, collection=f"{collections_of(meta)}{meta['generation'][:16]}")

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
