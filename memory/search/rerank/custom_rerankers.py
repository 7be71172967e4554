"""A user's own reranker behind the stage's interface: any callable, or a LangChain document compressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.search.rerank.rerank import Candidate, Reranker, RerankError, validate_scores
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
    """A callable as reranker; it gets whole texts, in the first order, and gives one number for each."""

    name: str
    scorer: Scorer

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores:
        """Return its scores."""
        given = _call_user_code(lambda: self.scorer(query, [candidate.text for candidate in candidates]))
        return validate_scores(given, len(candidates))


@dataclass(frozen=True)
class _CompressorReranker:
    """A LangChain document compressor as reranker.

    Each document has the record's id as `id` and in its metadata, and the whole text; the metadata must come back.
    """

    name: str
    compressor: BaseDocumentCompressor

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
        return scores

    def _position(self, document: Any, count: int) -> int:
        """Return which candidate a document was, by the metadata that it went out with."""
        metadata = getattr(document, "metadata", None)
        place = metadata.get(_PLACE) if isinstance(metadata, dict) else None
        if type(place) is not int or not 0 <= place < count:
            raise RerankError("gave back a document without the metadata that it was given")
        return place


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
        return _CompressorReranker(type(given).__name__, given)  # type: ignore[arg-type]  # looked at by its method
    if callable(given):
        return _CallableReranker(str(getattr(given, "__name__", None) or type(given).__name__), given)
    raise InvalidInputError("reranker", given, ALLOWED)


def _call_user_code(call: Callable[[], Any]) -> Any:
    """Call what a user wrote; whatever it raises becomes a `RerankError` that names it."""
    try:
        return call()
    except RecallError:
        raise
    except Exception as error:
        raise RerankError(f"{type(error).__name__}: {error}") from error
