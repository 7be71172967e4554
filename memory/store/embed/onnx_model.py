"""Models of onnxruntime that give a vector for each token: batches, pooling, token vectors (STORE-5)."""

from __future__ import annotations

import ctypes
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from recall_loop.memory.store.embed.embedders import FloatMatrix, normalise_vectors
from recall_loop.text.words.passages import READ_CHARACTERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pooling = Literal["mean", "cls"]
EMBEDDING_BATCH = 32
# Tokens of a batch, padding included: larger batches are no faster, and memory grows with them.
_BATCH_TOKENS = 1024
# Fixed cost of a run, in tokens: all weights are read once.
_RUN_TOKENS = 10
_threads = 0  # onnxruntime's word for one per processor


def limit_threads(count: int) -> None:
    """Let the process's models use that many threads, at least 1; before their first use. Absent: one per processor.

    For processes that share the processors among themselves: a model that takes all of them leaves nothing to gain.
    """
    global _threads  # noqa: PLW0603  # like the sessions, one for the process
    _threads = max(1, count)


def import_onnxruntime() -> Any:
    """Import onnxruntime without its telemetry, unless ORT_DISABLE_TELEMETRY is 0.

    As soon as it is imported it writes an id of the machine into the user's cache folder, and looks for its makers'
    server. A program that imports it before Recall Loop does has to set that variable itself.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    if os.environ["ORT_DISABLE_TELEMETRY"] != "0":
        onnxruntime.disable_telemetry_events()  # on Windows the variable has no effect
    return onnxruntime


def make_session(model: bytes | str) -> Any:
    """Return a session for a model, given whole or as the name of its file."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = _threads
    options.log_severity_level = 3  # errors: it warns of each constant that a shortened model doesn't use
    # Memory of a run is returned at its end; otherwise the largest batch ever run would occupy memory for good.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # It would keep a model that was passed as bytes, to retry with other providers; there are none.
    session.disable_fallback()
    session._model_bytes = None
    return session


def return_freed_memory() -> None:
    """Return freed memory to the system after a large piece of work, if the C library can (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True)
class Centre:
    """What is taken from vectors of texts and of tokens [d] before they get length one: their mean over general text.

    Where that is far from 0, the cosines of such a model lie close together, and say little.
    """

    text: NDArray[np.float32]
    token: NDArray[np.float32]


@dataclass(frozen=True)
class OnnxModel:
    """A model as loaded.

    Attributes:
        session: of onnxruntime; its first output is float32 [texts, tokens, d].
        tokenizer: of the package `tokenizers`, with truncation and markers.
        is_word: by token id whether a piece has a letter or digit and is no marker.
        pad_id: the id that fills shorter texts.
        pooling: how a text's vector is made of its tokens'.
    """

    session: Any
    tokenizer: Any
    is_word: NDArray[np.bool_]
    pad_id: int = 0
    pooling: Pooling = "mean"

    @property
    def dimension(self) -> int:
        """Length of a vector, as the model declares it."""
        return int(self.session.get_outputs()[0].shape[-1])

    def embed(
        self, texts: Sequence[str], tokens: list[FloatMatrix] | None = None, centre: Centre | None = None
    ) -> FloatMatrix:
        """Return unit vectors [n, d], texts of similar length together; a list given gets the token vectors."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if tokens is not None:
            tokens.extend(vectors[:0] for _ in texts)
        encoded = self._encode(texts)
        lengths = list(map(len, encoded))
        for rows in plan_batches(sorted(range(len(texts)), key=lengths.__getitem__), lengths):
            ids, mask = pad_batch([encoded[row] for row in rows], self.pad_id)
            hidden = self.run(ids, mask)
            vectors[rows] = hidden[:, 0] if self.pooling == "cls" else _mean(hidden, mask)
            if tokens is not None:
                for at, row in enumerate(rows):
                    worded = hidden[at][self.is_word[ids[at]] & (mask[at] > 0)]
                    tokens[row] = normalise_vectors(worded if centre is None else worded - centre.token)
        if sum(lengths) > _BATCH_TOKENS:
            return_freed_memory()
        return normalise_vectors(vectors if centre is None else normalise_vectors(vectors) - centre.text)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        read = [text[:READ_CHARACTERS] for text in texts]
        # Encoding a few texts directly is faster than waking the threads of a batch.
        few = len(texts) <= EMBEDDING_BATCH
        return [each.ids for each in (map(self.tokenizer.encode, read) if few else self.tokenizer.encode_batch(read))]

    def word_count(self, text: str) -> int:
        """Return how many token vectors a text gives."""
        return int(self.is_word[self.tokenizer.encode(text).ids].sum())

    def run(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> FloatMatrix:
        """Return a vector for each token, float32 [n, t, d], of ids [n, t] of which `mask` tells the real ones."""
        import numpy as np

        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feeds = {each.name: given[each.name] for each in self.session.get_inputs()}
        hidden: FloatMatrix = self.session.run(None, feeds)[0]
        return hidden


_loading = threading.Lock()
_loaded: dict[Hashable, OnnxModel] = {}


def load_once(key: Hashable, load: Callable[[], OnnxModel]) -> OnnxModel:
    """Return the process's one model for a key, which `load` loads when it is first asked for."""
    with _loading:
        if key not in _loaded:
            _loaded[key] = load()
            return_freed_memory()
        return _loaded[key]


class OnnxTexts(ABC):
    """The methods of an embedder whose vectors, and those of its tokens, come of one run of a model."""

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors, shape [n, dimension].

        Raises:
            EmbedderError: the model or one of its files can't be loaded, isn't the expected one, or can't be run.
        """
        return self._embedded(texts, None, query=False)

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors of queries; errors as `embed_documents`."""
        return self._embedded(texts, None, query=True)

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return unit vectors, and for each text those of its word pieces [t, dimension]; errors as above.

        Markers and pieces without a letter or digit have no vector: with them the ranking was worse.
        """
        tokens: list[FloatMatrix] = []
        return self._embedded(texts, tokens, query=False), tokens

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return the same of queries."""
        tokens: list[FloatMatrix] = []
        return self._embedded(texts, tokens, query=True), tokens

    @abstractmethod
    def _embedded(self, texts: Sequence[str], tokens: list[FloatMatrix] | None, *, query: bool) -> FloatMatrix:
        """Return unit vectors; with a list given, fill it with the token matrices."""


def plan_batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Return the rows in `order`, shortest first, in the batches that cost least: runs and padding together.

    A batch has at most 32 rows, and 1,024 tokens with padding unless it is one row. `lengths` are in tokens, by row.
    """
    costs, begins = [0], [0]
    for end, row in enumerate(order, 1):
        width = max(lengths[row], 1)
        most = min(EMBEDDING_BATCH, max(_BATCH_TOKENS // width, 1))
        cost, begin = min((costs[at] + (end - at) * width, at) for at in range(max(end - most, 0), end))
        costs.append(cost + _RUN_TOKENS)
        begins.append(begin)
    batches, end = [], len(order)
    while end:
        batches.append(list(order[begins[end] : end]))
        end = begins[end]
    return batches[::-1]


def pad_batch(batch: Sequence[Sequence[int]], pad_id: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return token ids padded to the longest, and the mask of the real ones."""
    import numpy as np

    width = max(len(ids) for ids in batch)
    tokens = np.full((len(batch), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(batch), width), dtype=np.int64)
    for row, ids in enumerate(batch):
        tokens[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    return tokens, mask


def _mean(hidden: FloatMatrix, mask: NDArray[np.int64]) -> FloatMatrix:
    import numpy as np

    weights = mask[:, :, None].astype(np.float32)
    pooled: FloatMatrix = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled


def word_pieces(pieces: Sequence[str], markers: frozenset[str]) -> NDArray[np.bool_]:
    """Return for each piece of a vocabulary whether it has a letter or digit and isn't a marker."""
    import numpy as np

    return np.array([piece not in markers and any(map(str.isalnum, piece)) for piece in pieces])
