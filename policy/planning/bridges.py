"""Queries from results: bridges to missing parts, and feedback terms (QUERY-4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest

from recall_loop.policy.evidence.pool_entries import entry_entities, entry_terms
from recall_loop.policy.planning.query_forms import main_query, make_query, shorten_query, with_anchor
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PlannedQuery, PoolEntry
from recall_loop.state.types import ContentType, QuerySource
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import content_words, stems

MAX_SEEDS = 5
ENTITIES_PER_SEED = 6
MAX_ROW_SHARE = 0.02
MAX_ROWS = 5
# Closeness of the label, as a share of that of a name in one sentence with all words that seed and question share.
LABEL_CLOSENESS = 0.5
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])|\n+")
# A message's words are also in the windows of its two neighbours.
_WINDOWS = 3


@dataclass(frozen=True)
class BridgeCandidate:
    """A possible bridge: a seed, an entity that it names, the entity's stems, and the question's words it lacks."""

    seed: PoolEntry
    entity: str
    terms: frozenset[str]
    missing: tuple[str, ...]


def bridge_candidates(question: AnalysedQuestion, ranked: Sequence[PoolEntry]) -> list[BridgeCandidate]:
    """Return the possible bridges of the best records, before any frequency is known.

    The first one of each seed comes before any second one, so that a seed of merely similar wording can't fill a round.
    """
    # A record can't lack a time.
    asked = [word for word in content_words(question.text) if stem(word) not in question.time_terms]
    known_terms = question.time_terms.union(map(stem, asked))
    speakers = _speakers(ranked)
    by_seed: list[list[BridgeCandidate]] = []
    for seed in ranked[:MAX_SEEDS]:
        seed_terms = entry_terms(seed)
        missing = tuple(word for word in asked if stem(word) not in seed_terms)
        if missing:
            by_seed.append(_candidates_of_seed(seed, missing, known_terms, speakers))
    return [candidate for candidate in chain.from_iterable(zip_longest(*by_seed)) if candidate is not None]


def _speakers(entries: Sequence[PoolEntry]) -> set[frozenset[str]]:
    names = {entry["record"].get(field) for entry in entries for field in ("author", "subject")}
    return {frozenset(stems(name)) for name in names if name}


def _candidates_of_seed(
    seed: PoolEntry, missing: tuple[str, ...], known_terms: frozenset[str], speakers: set[frozenset[str]]
) -> list[BridgeCandidate]:
    candidates: list[BridgeCandidate] = []
    for entity in _entities_by_closeness(seed, known_terms):
        terms = frozenset(stems(entity))
        if terms - known_terms and not any(terms <= speaker for speaker in speakers):
            candidates.append(BridgeCandidate(seed, entity, terms, missing))
    return candidates[:ENTITIES_PER_SEED]


def _entities_by_closeness(seed: PoolEntry, asked: frozenset[str]) -> list[str]:
    """Return the names in a seed, those that share a sentence with most of the question's words first.

    Only a few of the names in a long record are related to the question. The label represents the whole record.
    """
    shared = entry_terms(seed) & asked
    lines = [(line, len(terms & shared)) for line, terms in _sentences(seed["record"]["text"])]
    label = seed["record"].get("label")

    def closeness(entity: str) -> float:
        nearest = max((count for line, count in lines if entity.lower() in line), default=0)
        return max(float(nearest), LABEL_CLOSENESS * len(shared) if entity == label else 0.0)

    return sorted(entry_entities(seed), key=closeness, reverse=True)


@lru_cache(maxsize=1024)
def _sentences(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of a text in lower case with their stems."""
    return tuple((line.lower(), frozenset(stems(line))) for line in _SENTENCE_END.split(text) if line)


def candidate_terms(candidates: Sequence[BridgeCandidate]) -> list[str]:
    """Return the stems whose frequency decides which candidates are bridges."""
    return list(dict.fromkeys(term for candidate in candidates for term in sorted(candidate.terms)))


def bridge_queries(
    candidates: Sequence[BridgeCandidate], frequencies: Mapping[str, int], rows: int, longest: int
) -> list[PlannedQuery]:
    """Return the queries of those candidates whose entity links a few records.

    Args:
        candidates: see `bridge_candidates`.
        frequencies: for each stem, the number of the tenant's windows that have it.
        rows: number of the tenant's records.
        longest: most characters of a query.
    """
    queries: list[PlannedQuery] = []
    for candidate in candidates:
        rarest = min(frequencies.get(term, 0) for term in candidate.terms)
        windows = _WINDOWS if candidate.seed["record"]["kind"] == ContentType.MESSAGE else 1
        if windows < rarest <= windows * max(MAX_ROW_SHARE * rows, MAX_ROWS):
            entity, missing = candidate.entity, candidate.missing
            room = max(longest - len(entity) - 1, 1)
            text = shorten_query(f"{shorten_query(' '.join(missing), room)} {entity}", longest)
            query = make_query(text, QuerySource.FEEDBACK)
            queries.append({**query, "seed": candidate.seed["key"], "entity": entity, "missing": list(missing)})
    return queries


_FACTS = 5
_TERMS = 6
_WEIGHT = 0.4
_READ_CHARACTERS = 2000


def feedback_queries(question: AnalysedQuestion, ranked: Sequence[PoolEntry], longest: int) -> list[PlannedQuery]:
    """Return queries from words that several of the best facts share and the question lacks, with the anchor.

    They are the words that the store uses for the question's subject. `longest` is the most characters of a query.
    """
    asked = question.name_terms.union(stems(question.text))
    counts: Counter[str] = Counter()
    for rank, entry in enumerate(ranked[:_FACTS]):
        terms = entry_terms(entry) - asked
        for word in content_words(entry["record"]["text"][:_READ_CHARACTERS]):
            if stem(word) in terms and not word.isdigit():
                counts[word] += 2 if rank == 0 else 1
    shared = [word for word, count in counts.most_common(_TERMS) if count > 1]
    anchor = question.names[0] if question.names else main_query(question)
    pairs = zip(shared[::2], shared[1::2], strict=False)
    texts = (shorten_query(f"{first} {second} {anchor}", longest) for first, second in pairs)
    return [make_query(text, QuerySource.FEEDBACK, _WEIGHT) for text in texts]


def uncovered_queries(question: AnalysedQuestion, uncovered: Sequence[str], longest: int) -> list[PlannedQuery]:
    """Return a query for each uncovered name or phrase of the question, with its anchor (LOOP-6)."""
    return [
        make_query(shorten_query(with_anchor(text, question.names), longest), QuerySource.NOUN_PHRASE)
        for text in uncovered
        if text not in set(AnswerKind)
    ]
