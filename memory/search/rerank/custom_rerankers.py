"""A user's own reranker behind the stage's interface: any callable, or a LangChain document compressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.search.rerank.rerank import Candidate, Reranker, RerankError, validate_scores, z_scores
from recall_loop.state.errors import InvalidInputError, RecallError

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]
    Scorer = Callable[[str, list[str]], Sequence[float] | NDArray[np.float64]]

ALLOWED = (
    "a Reranker, a LangChain document compressor (compress_documents), or a callable of query and texts "
    "that returns one number for each text"
)
_PLACE = "recall_loop_place"


@dataclass(frozen=True)
class _CallableReranker:
    """A callable as reranker."""

    name: str
    scorer: Scorer
    mix: float

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores:
        """Return its scores, mixed with the first ones where that is wanted."""
        given = _call_user_code(lambda: self.scorer(query, [candidate.text for candidate in candidates]))
        return _mixed(validate_scores(self.name, given, len(candidates)), candidates, self.mix)


@dataclass(frozen=True)
class _CompressorReranker:
    """A LangChain document compressor as reranker."""

    name: str
    compressor: BaseDocumentCompressor
    mix: float

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores:
        """Return falling numbers in the order of the documents that come back; the others follow, in first order."""
        from langchain_core.documents import Document

        documents = [
            Document(page_content=candidate.text, id=candidate.id, metadata={"id": candidate.id, _PLACE: place})
            for place, candidate in enumerate(candidates)
        ]
        given = _call_user_code(lambda: list(self.compressor.compress_documents(documents, query)))
        places = list(dict.fromkeys(self._position(document, len(candidates)) for document in given))
        behind = sorted(set(range(len(candidates))) - set(places), key=lambda place: (-candidates[place].score, place))
        scores = np.zeros(len(candidates))
        scores[[*places, *behind]] = np.arange(len(candidates), 0, -1)
        return _mixed(scores, candidates, self.mix)

    def _position(self, document: Any, count: int) -> int:
        """Return which candidate a document was, by the metadata that it went out with."""
        metadata = getattr(document, "metadata", None)
        place = metadata.get(_PLACE) if isinstance(metadata, dict) else None
        if type(place) is not int or not 0 <= place < count:
            raise RerankError("gave back a document without the metadata that it was given")
        return place


def from_callable(scorer: Scorer, *, name: str | None = None, mix: float = 0.0) -> Reranker:
    """Return a reranker that asks `scorer(query, texts)` for one number per text, higher = better.

    The texts are whole, in the first order. `mix` in [0,1] is the share of the first score in the final
    one (both z-scored): 0 takes the scorer's order alone.

    Raises:
        InvalidInputError: `scorer` can't be called, or `mix` is outside [0,1].
    """
    if not callable(scorer):
        raise InvalidInputError("reranker", scorer, "a callable of query and texts")
    return _CallableReranker(name or _name_of(scorer), scorer, _validate_mix(mix))


def from_compressor(compressor: BaseDocumentCompressor, *, name: str | None = None, mix: float = 0.0) -> Reranker:
    """Return a reranker that takes the order of the documents which a LangChain compressor gives back.

    Those that it leaves out stay behind the others, in their first order: a search cuts by its limit only.
    Each document has the record's id as `id` and in its metadata, and the whole text; the metadata must
    come back. `mix` as in `from_callable`.

    Raises:
        InvalidInputError: it has no `compress_documents`, or `mix` is outside [0,1].
    """
    if not callable(getattr(compressor, "compress_documents", None)):
        raise InvalidInputError("reranker", compressor, "an object with compress_documents(documents, query)")
    return _CompressorReranker(name or type(compressor).__name__, compressor, _validate_mix(mix))


def as_reranker(given: object) -> Reranker:
    """Return `given` as a reranker, whichever of the three it is.

    Raises:
        InvalidInputError: it is none of them.
    """
    if isinstance(given, type):
        raise InvalidInputError("reranker", given, f"{ALLOWED}; this is a class, not an object")
    if isinstance(given, Reranker):
        return given
    if callable(getattr(given, "compress_documents", None)):
        return from_compressor(given)  # type: ignore[arg-type]  # looked at by its method
    if callable(given):
        return from_callable(given)
    raise InvalidInputError("reranker", given, ALLOWED)


def _call_user_code(call: Callable[[], Any]) -> Any:
    """Call what a user wrote; whatever it raises becomes a `RerankError` that names it."""
    try:
        return call()
    except RecallError:
        raise
    except Exception as error:
        raise RerankError(f"{type(error).__name__}: {error}") from error


def _mixed(scores: Scores, candidates: Sequence[Candidate], mix: float) -> Scores:
    if mix <= 0.0:
        return scores
    first = z_scores(np.array([candidate.score for candidate in candidates], dtype=np.float64))
    return mix * first + (1.0 - mix) * z_scores(scores)


def _validate_mix(mix: object) -> float:
    if isinstance(mix, bool) or not isinstance(mix, int | float) or not 0.0 <= mix <= 1.0:
        raise InvalidInputError("mix", mix, "a number in [0,1]")
    return float(mix)


def _name_of(scorer: object) -> str:
    return str(getattr(scorer, "__name__", None) or type(scorer).__name__)
