"""The Chroma side: one collection of context vectors, with everything needed to rebuild the sidecar.

Known traps that this module steps around: an upsert merges metadata (so every row always carries the
same keys), None and numpy values raise, batches are limited, text without a vector starts a download
(vectors always go with it), and in-memory clients of one process share their collections.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.schema import METRIC
from recall_loop.state.errors import RecallError, StoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLLECTION = "recall-loop-records"
BATCH = 1000
# Candidates that a search of the graph keeps: recall .994 instead of .979 at 100,000 rows, for 1-2 ms.
_SEARCH_WIDTH = 400
_COMPLETE = "complete"


class ChromaError(StoreError):
    """Chroma can't be opened, read or written."""


@dataclass(frozen=True, slots=True)
class ChromaRow:
    """One row as Chroma holds it; `record` is the record's JSON."""

    key: str
    tenant: str
    rowid: int
    revision: int
    record: str
    vector: Any = None


@contextmanager
def _guard(what: str) -> Iterator[None]:
    """Turn whatever Chroma raises into `ChromaError`; panics of its core aren't even `Exception`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, RecallError):
        raise
    except BaseException as error:
        raise ChromaError(f"Chroma can't {what}: {type(error).__name__}: {error}") from error


class ChromaSide:
    """An open client and its collection.

    Args:
        folder: Chroma's folder; None keeps everything in memory, under a name of its own.
        marker: generation marker for a collection that is made now.
        create: make the collection if it is missing.

    Raises:
        ChromaError: Chroma can't be opened.
    """

    def __init__(self, folder: Path | None, marker: Mapping[str, str], *, create: bool = True) -> None:
        self.folder = folder
        self._process = os.getpid()
        self._name = COLLECTION if folder else f"{COLLECTION}-{uuid.uuid4().hex}"
        with _guard("be opened"):
            import chromadb
            from chromadb.config import Settings

            settings = Settings(anonymized_telemetry=False)
            make: Any = chromadb.PersistentClient if folder else chromadb.EphemeralClient
            self._client = make(**({"path": str(folder)} if folder else {}), settings=settings)
        try:
            with _guard("open its collection"):
                self._collection: Any = self._get_or_make(marker, create=create)
        except ChromaError:
            self._client.close()
            raise

    def _get_or_make(self, marker: Mapping[str, str], *, create: bool) -> Any:
        from chromadb.errors import NotFoundError

        try:
            return self._client.get_collection(self._name, embedding_function=None)
        except NotFoundError:
            if not create:
                raise
            return self._client.create_collection(
                self._name,
                embedding_function=None,
                configuration={"hnsw": {"space": METRIC, "ef_search": _SEARCH_WIDTH}},
                metadata={**marker, _COMPLETE: False},
            )

    def marker(self) -> dict[str, str]:
        """Return the generation marker; empty if the collection was never completely filled."""
        return self.noted() if (self._collection.metadata or {}).get(_COMPLETE) else {}

    def noted(self) -> dict[str, str]:
        """Return the marker as it was noted, whether the collection is complete or not."""
        found = dict(self._collection.metadata or {})
        return {key: str(value) for key, value in found.items() if key != _COMPLETE}

    def complete(self, marker: Mapping[str, str]) -> None:
        """Note that the collection holds every row."""
        with _guard("be marked"):
            self._collection.modify(metadata={**marker, _COMPLETE: True})

    def count(self) -> int:
        """Return the number of rows."""
        with _guard("count"):
            return int(self._collection.count())

    def upsert(self, rows: Sequence[ChromaRow]) -> None:
        """Write rows wholly."""
        with _guard("be written"):
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                bodies = [_split(row) for row in part]
                self._collection.upsert(
                    ids=[row.key for row in part],
                    embeddings=[row.vector for row in part],
                    documents=[text for text, _ in bodies],
                    metadatas=[metadata for _, metadata in bodies],
                )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete rows; unknown keys are fine."""
        with _guard("delete"):
            for start in range(0, len(keys), BATCH):
                self._collection.delete(ids=list(keys[start : start + BATCH]))

    def nearest(self, vectors: NDArray[np.float32], limit: int) -> list[list[tuple[str, float]]]:
        """Return (key, cosine distance) per query, nearest first."""
        if os.getpid() != self._process:
            raise ChromaError("Chroma was opened in another process; open the store after the fork")
        with _guard("be searched"):
            found = self._collection.query(query_embeddings=vectors, n_results=limit, include=["distances"])
        pairs = zip(found["ids"], found["distances"], strict=True)
        return [list(zip(keys, distances, strict=True)) for keys, distances in pairs]

    def rows(self) -> Iterator[ChromaRow]:
        """Yield every row without its vector."""
        for start in range(0, self.count(), BATCH):
            with _guard("be read"):
                page = self._collection.get(limit=BATCH, offset=start, include=["documents", "metadatas"])
            yield from map(_join, page["ids"], page["documents"], page["metadatas"])

    def close(self) -> None:
        """Close the client; an in-memory collection is dropped first."""
        with _guard("be closed"):
            try:
                if self.folder is None:
                    self._client.delete_collection(self._name)
            finally:
                self._client.close()


def _split(row: ChromaRow) -> tuple[str, dict[str, str | int]]:
    """Return document and metadata: the text is kept once, the rest of the record as JSON."""
    record = json.loads(row.record)
    text = record.pop("text")
    return text, {
        "tenant": row.tenant,
        "kind": record["kind"],
        "agent_id": record.get("agent_id") or "",
        "rowid": row.rowid,
        "revision": row.revision,
        "record": json.dumps(record, ensure_ascii=False),
    }


def _join(key: str, text: str, metadata: Mapping[str, Any]) -> ChromaRow:
    record = json.loads(metadata["record"]) | {"text": text}
    body = json.dumps(record, ensure_ascii=False)
    return ChromaRow(key, metadata["tenant"], int(metadata["rowid"]), int(metadata["revision"]), body)
