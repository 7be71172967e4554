"""The Chroma side: one collection of context vectors, with everything needed to rebuild the sidecar.

Known traps that this module steps around: an upsert merges metadata (so every row always carries the
same keys), None and numpy values raise, batches are limited, text without a vector starts a download
(vectors always go with it), in-memory clients of one process share their collections, and a client
that couldn't start is handed out again for the same folder.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.chroma.chroma_clients import await_answer, http_sessions, open_client
from recall_loop.memory.store.chroma.chroma_files import DatabaseLockMonitor, database_identity
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow, join_row, split_row
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation, ChromaServer
from recall_loop.memory.store.tables.database import METRIC, chunks
from recall_loop.state.errors import RecallError, StoreError

COLLECTION_NAME = "recall-loop-records"
UPSERT_BATCH = 1000
# Candidates that a search of the graph keeps: recall .994 instead of .979 at 100,000 rows, for 1-2 ms.
_SEARCH_WIDTH = 400
_COMPLETE, _DELETIONS = "complete", "-deleted"
# A count is valid for this long, unless this process writes: other processes may write.
SIZE_SECONDS = 10.0
# Maximum results of one query on Chroma Cloud, unless a higher quota was agreed.
_CLOUD_RESULTS = 300
# Chroma walks over all rows before an offset: a thousand at a time, a million rows take most of an hour. So a
# folder's ids are read in long pages, and the rows by their ids.
_IDS = 100_000


class ChromaError(StoreError):
    """Chroma can't be opened, read or written."""


class CollectionMissingError(ChromaError):
    """Chroma is there, and the store's collection isn't."""


@contextmanager
def guard(action: str) -> Iterator[None]:
    """Turn whatever Chroma raises into `ChromaError`; panics of its core aren't even `Exception`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, RecallError):
        raise
    except BaseException as error:
        raise ChromaError(f"Chroma can't {action}: {type(error).__name__}: {error}") from error


def load_ahead() -> None:
    """Import Chroma, which takes seconds the first time; whoever opens a client meets what may be wrong with it."""
    with suppress(ChromaError), guard("be loaded"):
        import chromadb  # noqa: F401


class ChromaIndex:
    """An open client and its collection, which is made with `marker` if it is missing and `create` says so.

    In memory (`location` is None) it has a name of its own. Methods, and functions that are given one, raise
    `ChromaError` where Chroma fails.
    """

    def __init__(self, location: ChromaLocation, marker: Mapping[str, str], *, create: bool = True) -> None:
        self.location = location
        self._process = os.getpid()
        self._size: int | None = None
        self._size_until = 0.0
        self._companion: Any = None
        self._name = _collection_name(location)
        self._lock_monitor = DatabaseLockMonitor(location if isinstance(location, Path) else None)
        try:
            self._check_lock()
            if self._lock_monitor.has_unreadable_names():
                raise ChromaError("Chroma can't be opened: its database is malformed")
            with guard("be reached" if isinstance(location, ChromaServer) else "be opened"):
                self._client = open_client(location)
                self._batch = min(UPSERT_BATCH, self._client.get_max_batch_size())
        except BaseException:
            self._lock_monitor.close()
            raise
        self.identity = database_identity(location) if isinstance(location, Path) else None
        self._lock_monitor.attach()
        try:
            with guard("open its collection"):
                self.collection: Any = self._get_or_make(marker, create=create)
        except ChromaError:
            self._close_client()
            raise

    def _get_or_make(self, marker: Mapping[str, str], *, create: bool) -> Any:
        from chromadb.errors import NotFoundError

        try:
            return self._client.get_collection(self._name, embedding_function=None)
        except NotFoundError as error:
            if not create:
                raise CollectionMissingError(f"Chroma has no collection {self._name}") from error
            return self._client.create_collection(
                self._name,
                embedding_function=None,
                configuration={"hnsw": {"space": METRIC, "ef_search": _SEARCH_WIDTH}},
                metadata={**marker, _COMPLETE: False},
            )

    def _check_lock(self) -> None:
        if self._lock_monitor.is_locked():
            raise ChromaError("Chroma's database is locked by another process")

    def ensure_available(self) -> None:
        """Check before use that Chroma would answer, and from the files on disk.

        Raises:
            ChromaError: the folder was removed or replaced, and only the open files would still answer; or
                another process keeps the database locked, and Chroma would wait for ever.
        """
        self._check_lock()
        if isinstance(self.location, Path) and database_identity(self.location) != self.identity:
            raise ChromaError("Chroma's files were removed or replaced while the store was open")

    def ping(self) -> None:
        """Ask for a sign of life; a server has five seconds for it, however long its other answers may take."""
        with guard("be reached"):
            if isinstance(self.location, ChromaServer):
                await_answer(self.location)
            else:
                self._client.heartbeat()

    def marker(self) -> dict[str, str]:
        """Return the generation marker; empty if the collection was never completely filled."""
        return self.stored_marker() if (self.collection.metadata or {}).get(_COMPLETE) else {}

    def stored_marker(self) -> dict[str, str]:
        """Return the marker as it was noted, whether the collection is complete or not."""
        found = dict(self.collection.metadata or {})
        return {key: str(value) for key, value in found.items() if key != _COMPLETE}

    def mark_complete(self, marker: Mapping[str, str]) -> None:
        """Note that the collection holds every row."""
        with guard("be marked"):
            self.collection.modify(metadata={**marker, _COMPLETE: True})

    def count(self) -> int:
        """Return the number of rows."""
        with guard("count"):
            return int(self.collection.count())

    def size(self) -> int:
        """Return the number of rows as it was some seconds ago; counting takes Chroma longer than searching."""
        size, until = self._size, self._size_until
        if size is None or time.monotonic() >= until:
            size = self._size = self.count()
            self._size_until = time.monotonic() + SIZE_SECONDS
        return size

    def upsert(self, rows: Sequence[ChromaRow]) -> None:
        """Write rows; one that is there is replaced."""
        self._size = None
        with guard("be written"):
            for part in chunks(rows, self._batch):
                bodies = [split_row(row) for row in part]
                self.collection.upsert(
                    ids=[row.key for row in part],
                    embeddings=[row.vector for row in part],
                    documents=[text for text, _ in bodies],
                    metadatas=[metadata for _, metadata in bodies],
                )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows; unknown keys are fine."""
        self._size = None
        with guard("delete"):
            for part in chunks(keys, self._batch):
                self.collection.delete(ids=list(part))

    def nearest(self, vectors: NDArray[np.float32], limit: int) -> list[list[tuple[str, float]]]:
        """Return (key, cosine distance) per query, nearest first."""
        if os.getpid() != self._process:
            raise ChromaError("Chroma was opened in another process; open the store after the fork")
        if isinstance(self.location, ChromaServer) and self.location.api_key:
            limit = min(limit, _CLOUD_RESULTS)
        with guard("be searched"):
            found = self.collection.query(query_embeddings=vectors, n_results=limit, include=["distances"])
        pairs = zip(found["ids"], found["distances"], strict=True)
        return [list(zip(keys, distances, strict=True)) for keys, distances in pairs]

    def ensure_index_files(self) -> None:
        """Search once, which makes the files of the vector index if they weren't there yet."""
        dimension = int(self.stored_marker()["dimension"])
        with guard("be searched"):
            self.collection.query(query_embeddings=[[1.0] * dimension], n_results=1, include=[])

    def companion(self, *, create: bool) -> Any:
        """Return the collection of deletions, or None where it isn't there and not made; errors are Chroma's own."""
        from chromadb.errors import NotFoundError

        if self._companion is None:
            name = self._name + _DELETIONS
            try:
                self._companion = self._client.get_collection(name, embedding_function=None)
            except NotFoundError:
                if create:
                    self._companion = self._client.create_collection(name, embedding_function=None)
        return self._companion

    def get(self, keys: Sequence[str]) -> list[ChromaRow]:
        """Return the rows of up to 1,000 keys, without vectors; those that aren't there are left out."""
        with guard("be read"):
            page = self.collection.get(ids=list(keys), include=["documents", "metadatas"])
        return list(map(join_row, page["ids"], page["documents"], page["metadatas"], [None] * len(page["ids"])))

    def rows(self, *, vectors: bool = False) -> Iterator[ChromaRow]:
        """Yield every row, without its vector unless asked for."""
        include = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
        for chosen in self._pages():
            with guard("be read"):
                page = self.collection.get(**chosen, include=include)
            found = page["embeddings"] if vectors else [None] * len(page["ids"])
            yield from map(join_row, page["ids"], page["documents"], page["metadatas"], found)

    def read_vectors(self) -> None:
        """Read every vector, and nothing else, whose text takes longer; damaged files may end the process."""
        for chosen in self._pages():
            with guard("be read"):
                self.collection.get(**chosen, include=["embeddings"])

    def _pages(self) -> Iterator[dict[str, Any]]:
        """Yield which rows to get, call by call: a server's by their places, a folder's by their ids."""
        count, local = self.count(), not isinstance(self.location, ChromaServer)
        for start in range(0, count, _IDS if local else self._batch):
            if not local:
                yield {"limit": self._batch, "offset": start}
                continue
            with guard("be read"):
                ids = self.collection.get(limit=_IDS, offset=start, include=[])["ids"]
            yield from ({"ids": part} for part in chunks(ids, self._batch))

    def drop(self) -> None:
        """Delete the collection, its companions, and all of their contents."""
        with guard("drop its collection"):
            for collection in self._client.list_collections():
                if collection.name.startswith(self._name):
                    self._client.delete_collection(collection.name)

    def drop_others(self, prefix: str) -> None:
        """Delete the other collections with this prefix; the companions of this one stay."""
        with guard("drop old collections"):
            for collection in self._client.list_collections():
                if collection.name.startswith(prefix) and not collection.name.startswith(self._name):
                    self._client.delete_collection(collection.name)

    def close(self) -> None:
        """Close the client; an in-memory collection is dropped first."""
        with guard("be closed"):
            try:
                if self.location is None:
                    self._client.delete_collection(self._name)
            finally:
                self._close_client()

    def _close_client(self) -> None:
        self._client.close()
        for session in http_sessions(self._client):  # closing the client leaves its connections open
            session.close()
        self._lock_monitor.close()


def _collection_name(location: ChromaLocation) -> str:
    if isinstance(location, ChromaServer) and location.collection:
        return location.collection
    return COLLECTION_NAME if isinstance(location, Path) else f"{COLLECTION_NAME}-{uuid.uuid4().hex}"
