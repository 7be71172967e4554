"""Reranking: one stage behind one interface, between fusion and the cut (SEARCH-5); a user's own rerankers behind it.

A reranker scores the best candidates of the first ranking again. The new scores are rescaled to the range of the first
ones, so that they stay in [0,1], keep the reranker's relative distances, and leave every candidate of the pool above
those outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Protocol, runtime_checkable

from recall_loop.state.errors import InvalidInputError, RecallError

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]
    Scorer = Callable[[str, list[str]], Sequence[float] | NDArray[np.float64]]


_MIN_RANGE = 1e-3


class RerankError(RecallError):
    """A reranker failed, or didn't return one finite number for each candidate."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One result of the first ranking, as a reranker sees it.

    Attributes:
        id: the record's id.
        text: its full index text: author, subject or label first.
        score: its first score in [0,1], comparable within the pool only.
        rowid: its number in the store; None outside a store.
    """

    id: str
    text: str
    score: float
    rowid: int | None = None


@runtime_checkable
class Reranker(Protocol):
    """A reranker as the stage uses it; `as_reranker` adapts other objects."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores | None:
        """Return one finite score for each candidate in their order, higher = better, on any scale.

        None keeps the first order because there is nothing to score by.

        Raises:
            RerankError: it failed; the stage then keeps the first order and reports the reason.
        """
        ...


@dataclass(frozen=True)
class RerankResult:
    """Scores after the stage.

    Attributes:
        scores: float64 [n] in the range of the first scores.
        reason: why the first order was kept despite a reranker; None if it succeeded.
    """

    scores: Scores
    reason: str | None = None


def run_reranker(reranker: Reranker, query: str, candidates: Sequence[Candidate]) -> RerankResult:
    """Score a pool again; a reranker that fails leaves the first scores and a reason (SEARCH-9).

    The result depends on the order of `candidates` only if the reranker does.
    """
    first = np.array([candidate.score for candidate in candidates], dtype=np.float64)
    if not len(first):
        return RerankResult(first)
    try:
        given = reranker.rerank(query, candidates)
        if given is None:
            return RerankResult(first)
        return RerankResult(rescale(validate_scores(given, len(first)), first))
    except RecallError as error:
        return RerankResult(first, f"reranker {reranker.name}: {error.told}")


def validate_scores(given: object, count: int) -> Scores:
    """Return a reranker's scores as float64 [count].

    Raises:
        RerankError: they aren't that many finite numbers.
    """
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RerankError(f"did not return a list of numbers: {error}") from error
    if scores.shape != (count,):
        raise RerankError(f"returned scores of shape {scores.shape} for {count} candidates")
    if not np.isfinite(scores).all():
        raise RerankError("returned NaN or infinity; allowed: finite numbers")
    return scores


def rescale(scores: Scores, first: Scores) -> Scores:
    """Map `scores` linearly to the range of `first`, widened to 0.001 within [0,1] if it is narrower.

    Equal scores all become the middle.
    """
    high = min(max(float(first.max()), float(first.min()) + _MIN_RANGE), 1.0)
    low = min(float(first.min()), high - _MIN_RANGE)
    # Halves, so that the difference of two huge numbers stays finite.
    halves = scores / 2.0
    span = float(halves.max() - halves.min())
    if span <= 0.0:
        return np.full(len(scores), (low + high) / 2.0)
    share = (halves - halves.min()) / span
    mapped: Scores = low * (1.0 - share) + high * share
    return mapped


def z_scores(values: Scores) -> Scores:
    """Return how many standard deviations each value is above the mean; zeros if all are equal."""
    # Divided by the largest first, so that the squares of huge numbers stay finite.
    small: Scores = values / max(float(np.abs(values).max(initial=0.0)), 1e-300)
    spread = float(small.std())
    if spread <= 1e-9:
        return np.zeros(len(values))
    standard: Scores = (small - small.mean()) / spread
    return standard


ALLOWED = (
    "a Reranker, a LangChain document compressor (compress_documents), or a callable of query and texts "
    "that returns one number for each text"
)
_PLACE = "recall_loop_place"


@dataclass(frozen=True)
class _CallableReranker:
    """A callable as reranker; it gets full texts, in the first order, and returns one number for each."""

    name: str
    scorer: Scorer

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores:
        """Return its scores."""
        given = _call_user_code(lambda: self.scorer(query, [candidate.text for candidate in candidates]))
        return validate_scores(given, len(candidates))


@dataclass(frozen=True)
class _CompressorReranker:
    """A LangChain document compressor as reranker.

    Each document has the record's id as `id` and in its metadata, and the full text; the metadata must be returned.
    """

    name: str
    compressor: BaseDocumentCompressor

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores:
        """Return descending scores in the order of the returned documents; the others follow, in first order."""
        from langchain_core.documents import Document

        documents = [
            Document(page_content=candidate.text, id=candidate.id, metadata={"id": candidate.id, _PLACE: place})
            for place, candidate in enumerate(candidates)
        ]
        given = _call_user_code(lambda: list(self.compressor.compress_documents(documents, query)))
        places = list(dict.fromkeys(self._position(document, len(candidates)) for document in given))
        rest = sorted(set(range(len(candidates))) - set(places), key=lambda place: (-candidates[place].score, place))
        scores = np.zeros(len(candidates))
        scores[[*places, *rest]] = np.arange(len(candidates), 0, -1)
        return scores

    def _position(self, document: Any, count: int) -> int:
        """Return the index of a document's candidate, by the metadata that it was sent with."""
        metadata = getattr(document, "metadata", None)
        place = metadata.get(_PLACE) if isinstance(metadata, dict) else None
        if type(place) is not int or not 0 <= place < count:
            raise RerankError("returned a document without its original metadata")
        return place


def as_reranker(given: object) -> Reranker:
    """Return `given` as a reranker: itself, a callable, or a document compressor.

    Raises:
        InvalidInputError: it is none of these.
    """
    if isinstance(given, type):
        raise InvalidInputError("reranker", given, f"{ALLOWED}; this is a class, not an object")
    if isinstance(given, Reranker):
        return given
    if callable(getattr(given, "compress_documents", None)):
        return _CompressorReranker(type(given).__name__, given)  # type: ignore[arg-type]  # looked at by its method
    if callable(given):
        return _CallableReranker(str(getattr(given, "__name__", None) or type(given).__name__), given)
    raise InvalidInputError("reranker", given, ALLOWED)


def _call_user_code(call: Callable[[], Any]) -> Any:
    """Call a user's function; any exception becomes a `RerankError` that names it."""
    try:
        return call()
    except RecallError:
        raise
    except Exception as error:
        raise RerankError(f"{type(error).__name__}: {error}") from error
