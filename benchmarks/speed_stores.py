"""Stores of a corpus, built once and kept: the project's own, and the bare Chroma and FTS5 to compare with."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings
from corpora import VERSION, PairEmbedder, Pool, metadata, records
from numpy.typing import NDArray

from recall_loop.memory.store import schema
from recall_loop.memory.store.store import MemoryStore
from recall_loop.text.tokens import stems

# The modules that decide what stands on the disk; reading may change without building anew.
_LAYOUT = ("schema", "writing", "windows", "indexing", "drafts", "chroma_side")
_CHUNK = 4096
_DONE = "complete"


def stale_key() -> str:
    """Return a name that changes with the corpus, the schema and the code that writes."""
    folder = Path(schema.__file__).parent
    code = b"".join((folder / f"{name}.py").read_bytes() for name in _LAYOUT)
    return f"v{VERSION}-schema{schema.SCHEMA_VERSION}-{hashlib.sha256(code).hexdigest()[:10]}"


def build_store(folder: Path, pool: Pool, count: int, tenants: int) -> float | None:
    """Fill a store through `upsert` unless it is there; return the seconds, or None if nothing was to do.

    Tenants beside the first get a hundredth of its number of records each.
    """
    if (folder / _DONE).exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    started = time.perf_counter()
    with MemoryStore.open(folder / "store", embedder=PairEmbedder(pool)) as store:
        store.upsert(records(pool, count))
        for number in range(1, tenants):
            store.upsert(records(pool, max(1, count // 100)), tenant=f"other-{number}")
    (folder / _DONE).touch()
    return time.perf_counter() - started


class Bare:
    """One Chroma collection at default settings and one FTS5 table of stems over the same records.

    Args:
        folder: where they are kept.
        pool: what the corpus is made of.
        count: number of records.
    """

    def __init__(self, folder: Path, pool: Pool, count: int) -> None:
        fresh = not (folder / _DONE).exists()
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self._client = chromadb.PersistentClient(str(folder / "chroma"), Settings(anonymized_telemetry=False))
        self._collection: Any = self._client.get_or_create_collection(
            "bare", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        self._words = sqlite3.connect(folder / "words.db")
        if fresh:
            self._fill(pool, count)
            (folder / _DONE).touch()

    def _fill(self, pool: Pool, count: int) -> None:
        embedder, source = PairEmbedder(pool), records(pool, count)
        self._words.execute("CREATE VIRTUAL TABLE fts USING fts5(terms, content = '')")
        for chunk in _chunks(source):
            texts = [record["text"] for record in chunk]
            self._collection.add(
                ids=[record["id"] for record in chunk],
                embeddings=embedder.embed_documents(texts),
                documents=texts,
                metadatas=[metadata(record) for record in chunk],
            )
            rows = [(int(record["id"][1:]) + 1, " ".join(stems(record["text"]))) for record in chunk]
            with self._words:
                self._words.executemany("INSERT INTO fts (rowid, terms) VALUES (?, ?)", rows)

    def nearest(self, vector: NDArray[np.float32], limit: int, where: dict[str, Any] | None = None) -> list[str]:
        """Return the ids that Chroma finds nearest, with its own filter if `where` is given."""
        found = self._collection.query(
            query_embeddings=vector[None, :], n_results=limit, where=where, include=["distances"]
        )
        ids: list[str] = found["ids"][0]
        return ids

    def words(self, terms: Sequence[str], limit: int) -> list[int]:
        """Return the rows that FTS5 ranks best for any of `terms`."""
        query = "SELECT rowid FROM fts WHERE fts MATCH ? ORDER BY rank LIMIT ?"
        return [row[0] for row in self._words.execute(query, (any_of(terms), limit))]

    def close(self) -> None:
        """Close both."""
        self._client.close()
        self._words.close()


def any_of(terms: Sequence[str]) -> str:
    """Return the FTS5 expression for any of `terms`."""
    return " OR ".join(f'"{term}"' for term in terms)


def _chunks(source: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def disk_mb(folder: Path) -> float:
    """Return the size of all files of a folder in MB (10^6 bytes)."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
