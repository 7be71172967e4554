"""Embedders: text to unit vectors (STORE-5).

Vectors are always made here and handed to Chroma, whose own default function downloads a model
when it first runs and pads every text to the full length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import Protocol, runtime_checkable

from recall_loop.llm.endpoint.failures import FailureReason, classify_error
from recall_loop.state.errors import EmbedderError
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FloatMatrix: TypeAlias = "NDArray[np.float32]"
# Messages, and facts extracted from them.
_TALK = frozenset({ContentType.MESSAGE, ContentType.FACT})
# How far the length of a unit vector is from one, by rounding.
_ROUNDING = 1e-5


@runtime_checkable
class Embedder(Protocol):
    """The interface of embedders; match this protocol to bring your own.

    `fingerprint` names model and version: embedders whose vectors can't be compared must differ in it. Vectors are
    numbers of any length but 0, one row per text; no text gives an array of shape [0, d].
    """

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Name and version of the model."""

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one vector per stored text."""

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one vector per query."""


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

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return what `embed_documents` returns, and for each text the matrix of its tokens."""

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[FloatMatrix, list[FloatMatrix]]:
        """Return what `embed_queries` returns, and for each text the matrix of its tokens."""


@runtime_checkable
class ConversationalEmbedder(Embedder, Protocol):
    """An embedder with a second one for messages and facts; it embeds all other texts itself.

    Queries are embedded by this one and compared with both; the fingerprint covers both.
    """

    @property
    def conversational(self) -> Embedder:
        """The embedder of messages and facts; its vectors have the same lengths, those of tokens too."""


@runtime_checkable
class VersionedEmbedder(Embedder, Protocol):
    """An embedder that can also embed as an earlier version of it did, for the stores which that one filled."""

    def of_version(self, fingerprint: str) -> Embedder | None:
        """Return the embedder of this fingerprint; None if no version had it."""


def embedder_of_version(embedder: Embedder, fingerprint: str) -> Embedder | None:
    """Return `embedder`, or the earlier version of it, that has this fingerprint; None if there is none."""
    if embedder.fingerprint == fingerprint:
        return embedder
    return embedder.of_version(fingerprint) if isinstance(embedder, VersionedEmbedder) else None


class UnneededEmbedder:
    """Placeholder for a store's own embedder, whichever it is, if nothing is embedded (STORE-5)."""

    name, dimension = "unneeded", 0

    def __init__(self, fingerprint: str = "") -> None:
        self.fingerprint = fingerprint

    def of_version(self, fingerprint: str) -> Embedder:
        """Return the placeholder for the embedder of this fingerprint."""
        return UnneededEmbedder(fingerprint)

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Raise `EmbedderError`."""
        del texts
        raise EmbedderError(f"{self.fingerprint}: nothing can be embedded, as the store was opened without it")

    embed_queries = embed_documents


def known_languages(embedder: Embedder) -> frozenset[str] | None:
    """Return the languages (ISO 639-1) whose texts an embedder can tell apart: its `languages`; None = any."""
    found: frozenset[str] | None = getattr(embedder, "languages", None)
    return found


def group_by_model(embedder: Embedder, kinds: Sequence[str]) -> list[tuple[Embedder, list[int]]]:
    """Return each model with the rows that it embeds: messages and facts go to the conversational one."""
    talk = embedder.conversational if isinstance(embedder, ConversationalEmbedder) else embedder
    said = [talk is not embedder and kind in _TALK for kind in kinds]
    places = {other: [at for at, each in enumerate(said) if each is other] for other in dict.fromkeys(said)}
    return [(talk if other else embedder, rows) for other, rows in places.items()]


def run_embedder(
    embedder: Embedder, texts: Sequence[str], dimension: int, *, as_queries: bool = False, with_tokens: bool = False
) -> tuple[FloatMatrix, list[FloatMatrix | None]]:
    """Return the vectors of texts [n, dimension], and `with_tokens` each one's token vectors if the embedder has any.

    Raises:
        EmbedderError: the embedder raises anything, or gives vectors of another length or number, zeros or NaN.
    """
    tokens: Sequence[FloatMatrix | None] = [None] * len(texts)
    with embedder_errors(embedder.name, embedder.name):
        if with_tokens and isinstance(embedder, TokenEmbedder):
            of_tokens = embedder.embed_queries_with_tokens if as_queries else embedder.embed_documents_with_tokens
            vectors, tokens = of_tokens(texts)
        else:
            vectors = (embedder.embed_queries if as_queries else embedder.embed_documents)(texts)
        tokens = list(tokens)
    if len(tokens) != len(texts):
        raise EmbedderError(f"{embedder.name}: token vectors of {len(tokens)} texts; asked for {len(texts)}")
    return validate_vectors(embedder, vectors, len(texts), dimension), tokens


@contextmanager
def embedder_errors(name: str, shown: str, *, retried: bool = False) -> Iterator[None]:
    """Turn whatever an embedder raises into an `EmbedderError`, whose cause it is.

    The original's text, and `name`, are for operators only, as they may have an endpoint's address and key; `shown` is
    a name for everybody. `retried`: see `EmbedderError`.
    """
    try:
        yield
    except (EmbedderError, MemoryError):
        raise
    except Exception as error:
        call = classify_error(error)
        unknown = call.failure.reason is FailureReason.ERROR and not call.unreadable
        why = type(error).__name__ if unknown else call.failure.detail
        failed = EmbedderError(
            f"{name}: {type(error).__name__}: {error}", told=f"{shown}: texts can't be embedded: {why}"
        )
        failed.retried = retried
        raise failed from error


def validate_vectors(embedder: Embedder, vectors: object, rows: int, dimension: int) -> FloatMatrix:
    """Return what an embedder gave as unit vectors, float32 [rows, dimension].

    Raises:
        EmbedderError: it isn't an array of that shape, holds NaN or infinity, or a vector of zeros, which has no
            direction.
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
    lengths = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise EmbedderError(f"{embedder.name}: a vector is all zeros; this store needs one that is longer than 0")
    # What has length one stays as it is, to the last bit, and a text's vector is the same in any batch.
    scaled = np.abs(lengths - 1.0) > _ROUNDING
    return np.where(scaled, matrix / lengths, matrix).astype(np.float32) if scaled.any() else matrix


def normalise_vectors(vectors: FloatMatrix, lengths: FloatMatrix | None = None) -> FloatMatrix:
    """Return `vectors` scaled to length one; a zero vector stays zero. `lengths` [n, 1] are theirs, if known."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if lengths is None else lengths
    longer = lengths > 0
    units: FloatMatrix = (
        vectors / lengths if longer.all() else np.divide(vectors, lengths, out=np.zeros_like(vectors), where=longer)
    )
    return units
