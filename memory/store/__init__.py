"""The memory store: a SQLite sidecar and Chroma behind one interface."""

from recall_loop.memory.store.drafts import WriteOutcome
from recall_loop.memory.store.embeddings import Embedder, OpenAIEmbedder, TalkEmbedder, make_embedder
from recall_loop.memory.store.minilm import MiniLmEmbedder
from recall_loop.memory.store.reading import Corpus
from recall_loop.memory.store.rows import Row
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.view import View

__all__ = [
    "Corpus",
    "Embedder",
    "MemoryStore",
    "MiniLmEmbedder",
    "OpenAIEmbedder",
    "Row",
    "TalkEmbedder",
    "View",
    "WriteOutcome",
    "make_embedder",
]
