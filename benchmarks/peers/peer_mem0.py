"""mem0 without a language model (`infer=False`): local Qdrant with its BM25 on, a user each.

Its BM25 encoder asks a hub for a list of stop words; here it is given one (`stop_words.txt` of the job), which makes
the same kind of encoder without a network. spaCy isn't installed: words are stemmed by the encoder alone.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1"}

from fastembed.sparse.bm25 import Bm25
from mem0 import Memory
from mem0.embeddings.base import EmbeddingBase
from protocol import serve

_STOP_WORDS = "stop_words.txt"
_ASKED = 50


class GivenMem0Embedding(EmbeddingBase):
    """Looks vectors up. Without spaCy mem0 finds no entities, so nothing but whole texts is asked for."""

    def __init__(self, vectors: dict[str, Any]) -> None:
        super().__init__()
        self._vectors = vectors

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._vectors[text].tolist()


class Mem0Peer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        logging.disable(logging.WARNING)
        dimension = len(next(iter(vectors.values())))
        place = {"path": str(folder), "embedding_model_dims": dimension, "on_disk": True, "collection_name": "peers"}
        config = {
            "vector_store": {"provider": "qdrant", "config": place},
            "embedder": {"provider": "openai", "config": {"embedding_dims": dimension}},
            "history_db_path": str(folder) + "-history.db",
        }
        self._memory = Memory.from_config(config)
        self._memory.embedding_model = GivenMem0Embedding(vectors)
        words = (Path(sys.argv[1]) / _STOP_WORDS).read_text(encoding="utf-8").split()
        model = folder.parent / "bm25"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text("{}", encoding="utf-8")
        store = self._memory.vector_store
        store._bm25_encoder = Bm25("Qdrant/bm25", specific_model_path=str(model), stopwords=set(words))
        if not store._has_bm25_slot:
            raise RuntimeError("mem0 has made a collection without BM25")

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        for name, text in zip(ids, texts, strict=True):
            message = {"role": "user", "content": text}
            added = self._memory.add([message], user_id=collection, infer=False, metadata={"document": name})
            if len(added["results"]) != 1:
                raise RuntimeError(f"{name}: {json.dumps(added)}")

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        # It ranks what a vector search of four times as many proposes: more are asked for than are counted.
        found = self._memory.search(text, filters={"user_id": collection}, top_k=max(k, _ASKED), threshold=0.0)
        return [item["metadata"]["document"] for item in found["results"]][:k]


if __name__ == "__main__":
    sys.exit(serve(Mem0Peer, ["mem0ai", "qdrant-client", "fastembed"]))
