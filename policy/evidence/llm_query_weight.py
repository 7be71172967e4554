"""How much a language model's query may count: by what connects it with the request.

A model may plan for another question than the one asked: it misreads, makes names up, repeats what it was shown, or
follows what a memory tells it. So its query needs a ground:

- the question: at least half of its terms stand in the question, its goal, its window or their synonyms. Its hits
  then count as those of a part of the question, or of a single word or phrase of it;
- a seed: half of its terms stand in the question and in one record that another query found, and that
  record has at least half of the words that the query's names add to the question. As with a bridge
  (QUERY-4) a chain is as strong as its weakest link: its hits rank below the seed and are no more similar than it.
  Repeating a record's words therefore lifts nothing above that record. Hits of a grounded query are seeds in turn,
  so that hops may follow each other within one call;
- neither: its weight falls with the square of the share that it has, to a fifth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recall_loop.policy.evidence.coverage import entry_terms
from recall_loop.policy.evidence.merging import BRIDGE_SHARE, CreditCeiling, QueryHits, entry_of_hit
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import Facet, PoolEntry
from recall_loop.state.request import ChatMessage
from recall_loop.state.types import QuerySource
from recall_loop.text.names.phrases import find_entities
from recall_loop.text.words.keys import query_terms
from recall_loop.text.words.tokens import stems

GROUNDED_SHARE = 0.5
SEEDED_SHARE = 0.5
MIN_FACTOR = 0.2
WORD_FACTOR, PHRASE_FACTOR = 1 / 3, 2 / 3
SEED_HITS = 3
SEED_FACTS = 10
_MESSAGES = 6
_READ = 2000


@dataclass(frozen=True)
class QuestionTerms:
    """Stems of what is asked, and of the names in it."""

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
    """Return what queries are judged by: question, goal, recent window, and the synonyms of its phrases."""
    texts = [question.text, question.goal or "", *question.referents]
    texts += [message.content[:_READ] for message in messages[-_MESSAGES:]]
    asked = {term for text in texts for term in stems(text)}
    other = {term for facet in facets for terms in facet["alternatives"].values() for term in terms}
    return QuestionTerms(frozenset(asked | other), frozenset(term for name in question.names for term in stems(name)))


def weight_llm_queries(found: Sequence[QueryHits], base: QuestionTerms, ranked: Sequence[PoolEntry]) -> list[QueryHits]:
    """Return what was found, with weights and ceilings for the queries of a language model.

    Args:
        found: what each query of the call found.
        base: see `ground`.
        ranked: the facts before the call, best first.
    """
    seeds = [_Seed(entry_terms(entry), entry["relevance"], entry["similarity"]) for entry in ranked[:SEED_FACTS]]
    for part in found:
        if part.query["source"] != QuerySource.LLM:
            seeds += _seeds(part)
    waiting = {at: part for at, part in enumerate(found) if part.query["source"] == QuerySource.LLM}
    settled: dict[int, QueryHits] = {}
    while waiting:
        # The best connected goes first: what it finds may connect the others.
        judged = {at: _weigh_query(part, base, seeds) for at, part in waiting.items()}
        at = max(judged, key=lambda each: (judged[each][0], -each))
        settled[at] = judged[at][1]
        del waiting[at]
        if judged[at][0] >= GROUNDED_SHARE:
            seeds += _seeds(settled[at])
    return [settled.get(at, part) for at, part in enumerate(found)]


def _seeds(part: QueryHits) -> list[_Seed]:
    """Return the best hits of a query with what they count."""
    weight, ceiling = part.query["weight"], part.credit_ceiling
    most = (ceiling.relevance, ceiling.similarity) if ceiling else (1.0, 1.0)
    best = sorted(part.hits, key=lambda hit: -hit.score)[:SEED_HITS]
    return [
        _Seed(entry_terms(entry_of_hit(hit)), min(weight * hit.score, most[0]), min(weight * hit.similarity, most[1]))
        for hit in best
    ]


def _weigh_query(part: QueryHits, base: QuestionTerms, seeds: Sequence[_Seed]) -> tuple[float, QueryHits]:
    """Return how far a query is grounded, in [0,1], and what it found with what that makes of it."""
    terms, asked = query_terms(part.query["text"]), base.terms
    own = _share(terms, asked)
    if own >= GROUNDED_SHARE:
        return 1.0 + own, _with_weight_factor(part, _part_factor(terms, base.names))
    rest = terms - asked
    # A record that lacks the names of the query is no ground for it, whatever else they share.
    named = frozenset(term for name in find_entities(part.query["text"]) for term in stems(name)) - asked
    joined, seed = max(
        ((own + _ratio(rest & seed.terms, terms), seed) for seed in seeds if 2 * len(named & seed.terms) >= len(named)),
        key=lambda pair: (min(pair[0], SEEDED_SHARE), pair[1].relevance),
        default=(own, None),
    )
    if seed is not None and joined >= SEEDED_SHARE:
        ceiling = CreditCeiling(BRIDGE_SHARE * seed.relevance, BRIDGE_SHARE * seed.similarity)
        return joined, replace(part, credit_ceiling=ceiling)
    # Squared: a few words are shared by chance.
    return own, _with_weight_factor(part, max((own / GROUNDED_SHARE) ** 2, MIN_FACTOR))


def _part_factor(terms: frozenset[str], names: frozenset[str]) -> float:
    """Return what a part of the question weighs: a word or two of it are no part, as in the deterministic queries."""
    if len(terms) == 1:
        return WORD_FACTOR
    return 1.0 if len(terms) > 2 or terms & names else PHRASE_FACTOR


def _with_weight_factor(part: QueryHits, factor: float) -> QueryHits:
    return replace(part, query={**part.query, "weight": factor * part.query["weight"]})


def _share(terms: frozenset[str], known: frozenset[str]) -> float:
    return _ratio(terms & known, terms)


def _ratio(some: frozenset[str], terms: frozenset[str]) -> float:
    return len(some) / len(terms) if terms else 0.0
