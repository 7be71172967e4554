"""Chroma: `collection.query` with vectors given, cosine distance, a collection each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings
from protocol import serve

_BATCH = 1000


class ChromaPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        self._client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._collections: dict[str, Any] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        if collection not in self._collections:
            self._collections[collection] = self._client.create_collection(
                collection, metadata={"hnsw:space": "cosine"}, embedding_function=None
            )
        made = self._collections[collection]
        for start in range(0, len(ids), _BATCH):
            part = slice(start, start + _BATCH)
            made.add(ids=ids[part], documents=texts[part], embeddings=vectors[part])

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        found = self._collections[collection].query(query_embeddings=[vector], n_results=k)
        return list(found["ids"][0])


if __name__ == "__main__":
    sys.exit(serve(ChromaPeer, ["chromadb"]))
