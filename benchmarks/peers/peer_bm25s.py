"""bm25s with its own tokenizer and English stop words, as its documentation begins; an index each.

Its tokenizer knows no words of Chinese: there texts are cut into words by jieba first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bm25s
import rjieba
from protocol import read_job, serve


class Bm25Peer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        self._chinese = read_job(Path(sys.argv[1]))["language"] == "zh"
        self._documents: dict[str, tuple[list[str], list[str]]] = {}
        self._indexes: dict[str, bm25s.BM25] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        all_ids, all_texts = self._documents.setdefault(collection, ([], []))
        all_ids += ids
        all_texts += texts
        index = bm25s.BM25()
        index.index(self._tokens(all_texts), show_progress=False)
        self._indexes[collection] = index

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        ids = self._documents[collection][0]
        asked = self._tokens([text])
        places, _ = self._indexes[collection].retrieve(asked, k=min(k, len(ids)), show_progress=False)
        return [ids[int(place)] for place in places[0]]

    def _tokens(self, texts: list[str]) -> Any:
        words = [" ".join(rjieba.cut(text)) for text in texts] if self._chinese else texts
        return bm25s.tokenize(words, stopwords="en", show_progress=False)


if __name__ == "__main__":
    sys.exit(serve(Bm25Peer, ["bm25s"]))
