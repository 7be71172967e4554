"""bm25s with its own tokenizer and English stop words, as its documentation begins; an index each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bm25s
from protocol import serve


class Bm25Peer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        self._indexes: dict[str, tuple[bm25s.BM25, list[str]]] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        index = bm25s.BM25()
        index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
        self._indexes[collection] = (index, ids)

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        index, ids = self._indexes[collection]
        asked = bm25s.tokenize([text], stopwords="en", show_progress=False)
        places, _ = index.retrieve(asked, k=min(k, len(ids)), show_progress=False)
        return [ids[int(place)] for place in places[0]]


if __name__ == "__main__":
    sys.exit(serve(Bm25Peer, ["bm25s"]))
