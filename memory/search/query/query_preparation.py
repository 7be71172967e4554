"""How each query is looked up: its stems with their likely corrections, its vectors, and the legs that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.query.fuzzy import SpellingVocabulary, corrected_query, expand_query
from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.memory.store.embed.embedders import TokenEmbedder, validate_vectors
from recall_loop.state.types import SearchMode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.query.query_spec import ParsedQuery
    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.store import MemoryStore

    _Embedded = tuple[NDArray[np.float32], NDArray[np.float32] | None]


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """One query, ready to be searched.

    Attributes:
        asked: the query.
        groups: stems for the lexical leg.
        legs: names of the legs that run.
        vectors: float32 [v, d], of the query's wording and of its correction; None where no vectors are used.
        corrected: the query with likely misspellings mended, or None.
        tokens: token vectors [t, d] of the wording, for late interaction; None where it isn't wanted.
    """

    parsed: ParsedQuery
    groups: Sequence[TermGroup]
    legs: tuple[str, ...]
    vectors: NDArray[np.float32] | None
    corrected: str | None = None
    tokens: NDArray[np.float32] | None = None


def prepare_queries(
    store: MemoryStore,
    views: Sequence[View],
    asked: Sequence[ParsedQuery],
    given: NDArray[np.float32] | None,
    *,
    with_tokens: bool,
) -> list[PreparedQuery]:
    """Prepare queries; `views` are where each is looked up, `given` their vectors if they needn't be embedded.

    Corrections are embedded beside them, and with `with_tokens` the token vectors of each wording are kept.

    Raises:
        EmbedderError: the embedder fails and the mode needs it.
    """
    corrections = [_correction(query, view) for query, view in zip(asked, views, strict=True)]
    texts = [
        _vector_texts(query, view, corrected, own=given is None)
        for query, view, corrected in zip(asked, views, corrections, strict=True)
    ]
    made = iter(_embedded(store, [text for part in texts for text in part], with_tokens=with_tokens))
    looked = []
    for number, (query, view) in enumerate(zip(asked, views, strict=True)):
        mine = [next(made) for _ in texts[number]]
        vectors = [vector for vector, _ in mine]
        tokens = mine[0][1] if mine and given is None else None
        if given is not None and "vector" in _legs(query):
            vectors.insert(0, given[number])
        known = np.stack(vectors) if vectors else None
        looked.append(PreparedQuery(query, _groups(query, view), _legs(query), known, corrections[number], tokens))
    return looked


def _embedded(store: MemoryStore, texts: list[str], *, with_tokens: bool) -> list[_Embedded]:
    """Return for each text its vector and, where they are wanted, its token vectors; a text is embedded once."""
    once = list(dict.fromkeys(texts))
    if not once:
        return []
    embedder, tokens = store.embedder, None
    if with_tokens and isinstance(embedder, TokenEmbedder):
        vectors, tokens = embedder.embed_queries_with_tokens(once)
    else:
        vectors = embedder.embed_queries(once)
    vectors = validate_vectors(embedder, vectors, len(once), store.dimension)
    made = dict(zip(once, zip(vectors, tokens if tokens is not None else [None] * len(once), strict=True), strict=True))
    return [made[text] for text in texts]


def _correction(query: ParsedQuery, view: View) -> str | None:
    level = query.options.fuzzy
    if not level or not query.text or "fts" not in _legs(query) or not view.count():
        return None
    return corrected_query(query.embedded_text, view.derived_from_vocabulary(SpellingVocabulary), level)


def _groups(query: ParsedQuery, view: View) -> list[TermGroup]:
    if query.options.fuzzy and "fts" in _legs(query) and view.count():
        return expand_query(query.text, view.derived_from_vocabulary(SpellingVocabulary), query.options.fuzzy)
    return [TermGroup(stem, ((stem, 1.0),)) for stem in query.stems]


def _vector_texts(query: ParsedQuery, view: View, corrected: str | None, *, own: bool) -> list[str]:
    """Return what is embedded: the query's wording, unless its vector was given, and its correction beside it."""
    if "vector" not in _legs(query) or not view.count():
        return []
    return [text for text in (query.embedded_text if own else None, corrected) if text]


def _legs(query: ParsedQuery) -> tuple[str, ...]:
    if not query.text:
        return ("time",)
    if query.options.mode is SearchMode.FTS:
        return ("fts",)
    if query.options.mode is SearchMode.VECTOR or not query.stems:
        return ("vector",)
    return ("fts", "vector")
