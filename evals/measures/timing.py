"""A clock around the embedder and the store, to see where a request's time goes.

The wrapped objects stay the real ones: each call is handed on and only timed, at about a microsecond.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.embed.embedders import ConversationalEmbedder, Embedder, TokenEmbedder
from recall_loop.memory.store.store import MemoryStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VIEW_METHODS = (
    "count",
    "rowids",
    "vectors",
    "scan",
    "lexical",
    "top_by_stems",
    "nearest",
    "index_of",
    "newest",
    "rows",
    "document_frequency",
    "corpus",
    "vocabulary",
)
STORE_METHODS = ("get", "count")


@dataclass
class Stopwatch:
    """Adds up the time spent inside wrapped methods, by name; what a wrapped call calls counts once.

    Attributes:
        seconds: time inside, by name, of all threads together.
        calls: number of outermost calls, by name.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _thread: threading.local = field(default_factory=threading.local, repr=False)

    def reset(self) -> None:
        """Forget all figures."""
        with self._lock:
            self.seconds, self.calls = {}, {}

    @property
    def total(self) -> float:
        """Seconds inside, over all names."""
        return sum(self.seconds.values())

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, timed under `name`."""

        def wrapped(*args: Any, **options: Any) -> Any:
            with self._timing(name):
                return call(*args, **options)

        return wrapped

    @contextmanager
    def _timing(self, name: str) -> Iterator[None]:
        if getattr(self._thread, "inside", False):
            yield
            return
        self._thread.inside = True
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self._thread.inside = False
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.calls[name] = self.calls.get(name, 0) + 1


class TimedEmbedder:
    """The given embedder, with the clock around its methods."""

    def __init__(self, inner: Embedder, clock: Stopwatch) -> None:
        self.name, self.dimension, self.fingerprint = inner.name, inner.dimension, inner.fingerprint
        self._documents = clock.timed("embed_documents", inner.embed_documents)
        self._queries = clock.timed("embed_queries", inner.embed_queries)
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = timed_embedder(inner.conversational, clock)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per stored text."""
        vectors: NDArray[np.float32] = self._documents(texts)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per query."""
        vectors: NDArray[np.float32] = self._queries(texts)
        return vectors


class TimedTokenEmbedder(TimedEmbedder):
    """The same around an embedder that gives token vectors too."""

    def __init__(self, inner: TokenEmbedder, clock: Stopwatch) -> None:
        super().__init__(inner, clock)
        self.token_dimension = inner.token_dimension
        self._document_tokens = clock.timed("embed_documents", inner.embed_documents_with_tokens)
        self._query_tokens = clock.timed("embed_queries", inner.embed_queries_with_tokens)

    def embed_documents_with_tokens(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return one unit vector and the token vectors of each stored text."""
        made: tuple[NDArray[np.float32], list[NDArray[np.float32]]] = self._document_tokens(texts)
        return made

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return one unit vector and the token vectors of each query."""
        made: tuple[NDArray[np.float32], list[NDArray[np.float32]]] = self._query_tokens(texts)
        return made


def timed_embedder(inner: Embedder, clock: Stopwatch) -> TimedEmbedder:
    """Return `inner` with the clock around it; with token vectors if it gives any."""
    return TimedTokenEmbedder(inner, clock) if isinstance(inner, TokenEmbedder) else TimedEmbedder(inner, clock)


def instrument(store: MemoryStore, clock: Stopwatch) -> None:
    """Put the clock around the store's reads, and around the methods of every view opened from now on."""
    open_view = clock.timed("view", store.view)

    def watched(opened: Any) -> Any:
        for name in VIEW_METHODS:
            setattr(opened, name, clock.timed(name, getattr(opened, name)))
        pin = clock.timed("pinned", opened.snapshot_view)
        opened.snapshot_view = lambda *others: watched(pin(*others))
        return opened

    def view(*args: Any, **options: Any) -> Any:
        return watched(open_view(*args, **options))

    for name in STORE_METHODS:
        setattr(store, name, clock.timed(name, getattr(store, name)))
    setattr(store, "view", view)  # noqa: B010  # an assignment would promise the type a new method
