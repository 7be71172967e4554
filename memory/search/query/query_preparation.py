"""Queries prepared for searching, with corrections, stems and vectors; and the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.query.code_names import with_spellings
from recall_loop.memory.search.query.compounds import COMPOUNDING, CompoundVocabulary, with_compounds
from recall_loop.memory.search.query.fuzzy import corrected_query, expand_query
from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.memory.search.query.parsed_queries import ParsedQuery
from recall_loop.memory.search.query.spelling import ReadableVocabulary, SpellingVocabulary
from recall_loop.memory.store.embed.embedders import run_embedder
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType
from recall_loop.text.time.time_expressions import TimeRange
from recall_loop.text.words.tokens import text_language

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.store import MemoryStore

    _Embedded = tuple[NDArray[np.float32], NDArray[np.float32] | None]


@dataclass(frozen=True)
class SearchResponse:
    """Results of one query, and a summary of the search.

    An empty `hits` with `allowed` > 0 means that nothing matched; with `allowed` = 0 that the scope
    and the filters leave no record at all. `filters` includes `time_range`, the time that the query itself names;
    `corrected` is the query with likely misspellings corrected, if fuzzy search found any.
    """

    query: str
    hits: tuple[SearchHit, ...]
    scope: Scope
    filters: Filters
    content_types: tuple[ContentType, ...]
    legs: tuple[str, ...]
    generation: str
    allowed: int
    degraded_reason: str | None = None
    corrected: str | None = None
    time_range: TimeRange | None = None

    @property
    def degraded(self) -> bool:
        """Whether the store works without one of its parts; `degraded_reason` says which."""
        return self.degraded_reason is not None


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """One query, ready to be searched.

    Attributes:
        parsed: the query.
        groups: stems that are looked up.
        vectors: float32 [v, d], of the query's wording and of its correction; None if no vectors are used.
        corrected: the query with likely misspellings corrected, or None.
        tokens: token vectors [t, d] of the wording, for late interaction; None if it isn't used.
    """

    parsed: ParsedQuery
    groups: Sequence[TermGroup]
    vectors: NDArray[np.float32] | None
    corrected: str | None = None
    tokens: NDArray[np.float32] | None = None

    @property
    def is_reranked(self) -> bool:
        """Whether its best candidates are reranked, if there is a reranker."""
        return self.parsed.options.rerank is not False


def prepare_queries(
    store: MemoryStore,
    views: Sequence[View],
    readable: View,
    queries: Sequence[ParsedQuery],
    given: NDArray[np.float32] | None,
    *,
    with_tokens: bool,
) -> list[PreparedQuery]:
    """Prepare queries; `views` are the views in which each is looked up, `given` their vectors if they are known.

    Words are corrected with the vocabulary of the view `readable`: everything that the caller may read, whatever the
    filters.

    Corrections are embedded too, and with `with_tokens` the token vectors of each wording are kept.

    Raises:
        EmbedderError: the embedder fails and the mode needs it.
    """
    spelt = [_spelling(query, view, readable) for query, view in zip(queries, views, strict=True)]
    texts = [
        _texts_to_embed(query, view, corrected, with_wording=given is None)
        for query, view, (_, corrected) in zip(queries, views, spelt, strict=True)
    ]
    embedded = _embed(store, list(dict.fromkeys(chain.from_iterable(texts))), with_tokens=with_tokens)
    prepared = []
    for number, (query, (groups, corrected)) in enumerate(zip(queries, spelt, strict=True)):
        made = [embedded[text] for text in texts[number]]
        vectors = [vector for vector, _ in made]
        if given is not None and "vector" in query.legs:
            vectors.insert(0, given[number])
        tokens = made[0][1] if made and given is None else None
        prepared.append(PreparedQuery(query, groups, np.stack(vectors) if vectors else None, corrected, tokens))
    return prepared


def _embed(store: MemoryStore, texts: list[str], *, with_tokens: bool) -> dict[str, _Embedded]:
    """Return by text its vector and, if requested, its token vectors."""
    if not texts:
        return {}
    vectors, tokens = run_embedder(store.embedder, texts, store.dimension, as_queries=True, with_tokens=with_tokens)
    return dict(zip(texts, zip(vectors, tokens, strict=True), strict=True))


def _spelling(query: ParsedQuery, view: View, readable: View) -> tuple[list[TermGroup], str | None]:
    """Return the query's groups of stems, and with fuzzy search the corrected query, if it has misspellings."""
    level = query.options.fuzzy
    groups, corrected = query.term_groups, None
    if "fts" not in query.legs or not view.count():
        return groups + query.time_groups, None
    if level:
        whole = readable.derived_from_vocabulary(SpellingVocabulary)
        vocabulary = ReadableVocabulary(whole, readable.frequency_within)
        groups = expand_query(query.text, vocabulary, level, query.options.language)
        corrected = corrected_query(query.embedded_text, vocabulary, level)
    language = query.options.language or text_language(query.text)
    groups = with_spellings(groups, query.text, language, readable.frequency_within)
    if language in COMPOUNDING:
        compounds = readable.derived_from_vocabulary(CompoundVocabulary)
        groups = with_compounds(groups, compounds, readable.frequency_within)
    return groups + query.time_groups, corrected


def _texts_to_embed(query: ParsedQuery, view: View, corrected: str | None, *, with_wording: bool) -> list[str]:
    """Return the texts to embed: the query's wording, unless its vector was given, and its correction, if any."""
    if "vector" not in query.legs or not view.count():
        return []
    return [text for text in (query.embedded_text if with_wording else None, corrected) if text]
