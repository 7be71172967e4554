"""Stores of a corpus, built once and kept: the project's own, and the bare Chroma and FTS5 to compare with."""

from __future__ import annotations

import hashlib
import json
import re
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
from corpora import VERSION, PairEmbedder, TextPool, metadata, records
from numpy.typing import NDArray

from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import database as schema
from recall_loop.text.words.tokens import stems

# The modules that decide what stands on the disk; reading may change without rebuilding them.
_LAYOUT = (
    "sqlite/schema",
    "sqlite/prepared_records",
    "write/commits",
    "write/context_windows",
    "encoding/indexing",
    "chroma/chroma_index",
)
_CHUNK = 4096
_DONE, _LOG = "complete", "built.jsonl"
_STEPS = 20


def stale_key() -> str:
    """Return a name that changes with the corpus, the schema and the code that writes."""
    folder = Path(schema.__file__).parents[1]
    code = b"".join((folder / f"{name}.py").read_bytes() for name in _LAYOUT)
    return f"v{VERSION}-schema{schema.SCHEMA_VERSION}-{hashlib.sha256(code).hexdigest()[:10]}"


def build_store(folder: Path, pool: TextPool, count: int, tenants: int) -> dict[str, float]:
    """Fill a store through `upsert`, or the rest of one that was interrupted; return what all of it took.

    Tenants beside the first get a hundredth of its number of records each.

    Returns:
        Seconds, records a second at the end (the last 5 %), and the most resident memory in MB, as far as known.
    """
    log = folder / _LOG
    if not (folder / _DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with MemoryStore.open(folder / "store", embedder=PairEmbedder(pool)) as store:
            _fill(store, pool, count, log)
            for number in range(1, tenants):
                store.upsert(records(pool, max(1, count // 100)), tenant=f"other-{number}")
        (folder / _DONE).touch()
    steps = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not steps:
        return {}
    last = steps[-max(1, len(steps) // _STEPS) :]
    return {
        "built in s": sum(step["seconds"] for step in steps),
        "records a second": sum(step["records"] for step in steps) / sum(step["seconds"] for step in steps),
        "records a second at the end": sum(step["records"] for step in last) / sum(step["seconds"] for step in last),
        "peak memory mb": max(step["peak_mb"] for step in steps),
    }


def _fill(store: MemoryStore, pool: TextPool, count: int, log: Path) -> None:
    """Write what the default tenant doesn't have yet, in steps that are noted; records are written in their order."""
    made = records(pool, count, first=store.count())
    step = max(_CHUNK, count // _STEPS)
    while chunk := list(islice(made, step)):
        started = time.perf_counter()
        store.upsert(chunk)
        taken = {"records": len(chunk), "seconds": time.perf_counter() - started, "peak_mb": _peak_mb()}
        with log.open("a") as lines:
            lines.write(json.dumps(taken) + "\n")


def _peak_mb() -> float:
    """Return the most memory that this process ever held, in MB; 0 where the system doesn't tell."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1.024e-3 if found else 0.0


class BareIndexes:
    """One Chroma collection at default settings and one FTS5 table of stems over the same records.

    Args:
        folder: where they are kept.
        pool: what the corpus is made of.
        count: number of records.
    """

    def __init__(self, folder: Path, pool: TextPool, count: int) -> None:
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

    def _fill(self, pool: TextPool, count: int) -> None:
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
        return [row[0] for row in self._words.execute(query, (match_any(terms), limit))]

    def close(self) -> None:
        """Close both."""
        self._client.close()
        self._words.close()


def match_any(terms: Sequence[str]) -> str:
    """Return the FTS5 expression for any of `terms`."""
    return " OR ".join(f'"{term}"' for term in terms)


def _chunks(source: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def disk_mb(folder: Path, pattern: str = "**/*") -> float:
    """Return the size of a folder's files that fit a pattern in MB (10^6 bytes)."""
    return sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) / 1e6
