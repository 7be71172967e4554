"""Weights for a language model's queries, by their connection to the request.

A model may plan for a different question than the one asked: it misreads, makes names up, repeats what it was shown,
or follows instructions in a memory. So its query needs a ground:

- the question: at least half of its terms occur in the question, its goal, its conversation window or their synonyms.
  Its hits then count like those of a part of the question, or of a single word or phrase of it;
- a seed: half of its terms occur in the question and in one record that another query found, and that record has at
  least half of the words that the query's names add to the question. As with a bridge (QUERY-4), a chain is as strong
  as its weakest link: its hits rank below the seed and are no more similar than it. Repeating a record's words
  therefore lifts nothing above that record. Hits of a grounded query are seeds in turn, so that hops may follow each
  other within one call;
- neither: its weight falls with the square of the share that it has, down to a fifth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recall_loop.policy.evidence.merging import BRIDGE_SHARE, CreditCeiling, QueryHits, entry_of_hit
from recall_loop.policy.evidence.pool_entries import entry_terms
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.request import ChatMessage
from recall_loop.state.run.state_entries import Facet, PoolEntry
from recall_loop.state.types import QuerySource
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.words.tokens import query_terms, stem_set

GROUNDED_SHARE = 0.5
SEEDED_SHARE = 0.5
MIN_FACTOR = 0.2
WORD_FACTOR, PHRASE_FACTOR = 1 / 3, 2 / 3
SEED_HITS = 3
SEED_FACTS = 10
_WINDOW_MESSAGES = 6
_MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True)
class QuestionTerms:
    """Stems of the question with its context, and of the names in it."""

    terms: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True)
class _Seed:
    terms: frozenset[str]
    relevance: float
    similarity: float


def question_terms(
    question: AnalysedQuestion, messages: Sequence[ChatMessage], facets: Iterable[Facet]
) -> QuestionTerms:
    """Return the terms that queries are judged by: question, goal, recent messages, and synonyms of its phrases."""
    texts = [question.text, question.goal or "", *question.referents]
    texts += [message.content[:_MESSAGE_CHARACTERS] for message in messages[-_WINDOW_MESSAGES:]]
    synonyms = {term for facet in facets for terms in facet["alternatives"].values() for term in terms}
    return QuestionTerms(stem_set(texts) | synonyms, question.name_terms)


def weight_llm_queries(found: Sequence[QueryHits], base: QuestionTerms, ranked: Sequence[PoolEntry]) -> list[QueryHits]:
    """Return the hits of all queries, with weights and credit ceilings for those of a language model.

    Args:
        found: the hits of each query of the call.
        base: the terms that queries are judged by, see `question_terms`.
        ranked: the facts before the call, best first.
    """
    seeds = [_Seed(entry_terms(entry), entry["relevance"], entry["similarity"]) for entry in ranked[:SEED_FACTS]]
    waiting: dict[int, QueryHits] = {}
    for index, query_hits in enumerate(found):
        if query_hits.query["source"] == QuerySource.LLM:
            waiting[index] = query_hits
        else:
            seeds += _seeds(query_hits, base.terms)
    weighed: dict[int, QueryHits] = {}
    while waiting:
        # The best connected goes first: its hits may connect the others.
        candidates = {index: _weigh_query(query_hits, base, seeds) for index, query_hits in waiting.items()}
        best = max(candidates, key=lambda index: (candidates[index][0], -index))
        grounding, weighed[best] = candidates[best]
        del waiting[best]
        if grounding >= GROUNDED_SHARE:
            seeds += _seeds(weighed[best], base.terms)
    return [weighed.get(index, query_hits) for index, query_hits in enumerate(found)]


def _seeds(query_hits: QueryHits, terms: frozenset[str]) -> list[_Seed]:
    """Return the best hits of a query with their credit."""
    weight, ceiling = query_hits.query["weight"], query_hits.credit_ceiling or CreditCeiling(1.0, 1.0)
    best = sorted(query_hits.hits, key=lambda hit: -hit.score)[:SEED_HITS]
    return [
        _Seed(
            entry_terms(entry_of_hit(hit, terms)),
            min(weight * hit.score, ceiling.relevance),
            min(weight * hit.similarity, ceiling.similarity),
        )
        for hit in best
    ]


def _weigh_query(query_hits: QueryHits, base: QuestionTerms, seeds: Sequence[_Seed]) -> tuple[float, QueryHits]:
    """Return how far a query is grounded, at least 0, and its hits with the weight or ceiling that follows."""
    terms = query_terms(query_hits.query["text"])
    from_question = _share(terms & base.terms, terms)
    if from_question >= GROUNDED_SHARE:
        return 1.0 + from_question, _with_weight_factor(query_hits, _part_factor(terms, base.names))
    rest = terms - base.terms
    # A record that lacks the names of the query is no ground for it, whatever else they share.
    names = stem_set(find_entities(query_hits.query["text"])) - base.terms
    usable = [seed for seed in seeds if 2 * len(names & seed.terms) >= len(names)]
    joined, seed = max(
        ((from_question + _share(rest & seed.terms, terms), seed) for seed in usable),
        key=lambda pair: (min(pair[0], SEEDED_SHARE), pair[1].relevance),
        default=(from_question, None),
    )
    if seed is not None and joined >= SEEDED_SHARE:
        ceiling = CreditCeiling(BRIDGE_SHARE * seed.relevance, BRIDGE_SHARE * seed.similarity)
        return joined, replace(query_hits, credit_ceiling=ceiling)
    # Squared: a few words are shared by chance.
    factor = max((from_question / GROUNDED_SHARE) ** 2, MIN_FACTOR)
    return from_question, _with_weight_factor(query_hits, factor)


def _part_factor(terms: frozenset[str], names: frozenset[str]) -> float:
    """Return the weight factor for a part of the question; one or two words without a name are less than a part."""
    if len(terms) == 1:
        return WORD_FACTOR
    return 1.0 if len(terms) > 2 or terms & names else PHRASE_FACTOR


def _with_weight_factor(query_hits: QueryHits, factor: float) -> QueryHits:
    return replace(query_hits, query={**query_hits.query, "weight": factor * query_hits.query["weight"]})


def _share(some: frozenset[str], terms: frozenset[str]) -> float:
    return len(some) / len(terms) if terms else 0.0
