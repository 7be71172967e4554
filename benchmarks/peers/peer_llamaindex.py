"""LlamaIndex: the fusion retriever (reciprocal ranks) over its vector index and BM25; no generated queries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from protocol import serve

_DEPTH = 50


class GivenEmbedding(BaseEmbedding):
    """Looks vectors up."""

    vectors: dict[str, Any]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.vectors[query].tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.vectors[text].tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class LlamaIndexPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        self._embedder = GivenEmbedding(vectors=vectors)
        self._nodes: dict[str, list[TextNode]] = {}
        self._indexes: dict[str, VectorStoreIndex] = {}
        self._retrievers: dict[str, QueryFusionRetriever] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        rows = zip(ids, texts, vectors, strict=True)
        further = [TextNode(id_=name, text=text, embedding=vector.tolist()) for name, text, vector in rows]
        nodes = self._nodes.setdefault(collection, [])
        nodes += further
        if collection in self._indexes:
            self._indexes[collection].insert_nodes(further)
        else:
            self._indexes[collection] = VectorStoreIndex(further, embed_model=self._embedder)
        index = self._indexes[collection]
        depth = min(_DEPTH, len(nodes))
        self._retrievers[collection] = QueryFusionRetriever(
            [
                index.as_retriever(similarity_top_k=depth),
                BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth),
            ],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            num_queries=1,
            similarity_top_k=_DEPTH,
            use_async=False,
        )

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        return [found.node.node_id for found in self._retrievers[collection].retrieve(text)[:k]]


if __name__ == "__main__":
    sys.exit(serve(LlamaIndexPeer, ["llama-index-core", "llama-index-retrievers-bm25"]))
