"""LangGraph's SqliteStore with its vector index; a namespace each."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

if not hasattr(sqlite3.Connection, "enable_load_extension"):  # some builds of Python can't load sqlite-vec
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from protocol import serve

_BATCH = 500


class LangGraphPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        index = {
            "dims": len(next(iter(vectors.values()))),
            "embed": lambda texts: [vectors[text].tolist() for text in texts],
            "text_fields": ["text"],  # what its documentation calls `fields`
        }
        self._open = SqliteStore.from_conn_string(str(folder / "store.db"), index=index)
        self._store = self._open.__enter__()
        self._store.setup()

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        for start in range(0, len(ids), _BATCH):
            pairs = zip(ids[start : start + _BATCH], texts[start : start + _BATCH], strict=True)
            self._store.batch([PutOp((collection,), name, {"text": text}) for name, text in pairs])

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        return [item.key for item in self._store.search((collection,), query=text, limit=k)]


if __name__ == "__main__":
    sys.exit(serve(LangGraphPeer, ["langgraph-checkpoint-sqlite", "langgraph", "sqlite-vec"]))
