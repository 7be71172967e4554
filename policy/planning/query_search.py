"""How a planned query is searched: number of results, by words or also by meaning, reranked or not.

A query of little weight supports others: only its first results count, in any order, so it isn't reranked. The weights
are in `query_forms.SOURCE_WEIGHTS`. A query for a member of a list isn't reranked either: the word for the member finds
it, and the question's other words were looked up before.
"""

from __future__ import annotations

from recall_loop.state.run.state_entries import PlannedQuery
from recall_loop.state.types import QuerySource, SearchMode

_MAJOR_WEIGHT = 0.8
_WORDS_SHARE = 0.5
_OF_THE_QUESTION = frozenset(
    {QuerySource.SYNONYM, QuerySource.TEMPORAL, QuerySource.KEYWORD, QuerySource.NOUN_PHRASE, QuerySource.ENTITY}
)


def is_major(query: PlannedQuery) -> bool:
    """Tell whether all results of a query count."""
    return query["weight"] >= _MAJOR_WEIGHT


def is_reranked(query: PlannedQuery) -> bool:
    """Tell whether a query's results are reranked."""
    return is_major(query) and query["source"] != QuerySource.MEMBER


def limit_parameter(query: PlannedQuery) -> str:
    """Return the name of the parameter that limits a query's results."""
    return "limit" if is_major(query) else "minor_limit"


def query_mode(query: PlannedQuery, usual: SearchMode) -> SearchMode:
    """Return the mode of a query: minor ones with the question's own words, and those with synonyms, use words alone.

    The question's vector already has their meaning. Embedding them took a fifth of a run's time and found nothing more.
    """
    by_words = query["source"] in _OF_THE_QUESTION and not is_major(query)
    return SearchMode.FTS if by_words and usual is not SearchMode.VECTOR else usual


def similarity_weight(query: PlannedQuery, mode: SearchMode, usual: SearchMode) -> float:
    """Return the weight of the similarities of a query in `mode`: its own, or half of it if only words were compared.

    Words and meaning each make up half of a similarity; otherwise a name alone would be as similar as the whole
    question.
    """
    return query["weight"] * (1.0 if mode is usual else _WORDS_SHARE)
