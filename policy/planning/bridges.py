"""Bridge queries: from what was found to what is still missing (QUERY-4).

A question of two hops ("where was the director of X born") is answered by two records, and the second
doesn't share a word with the question's first half. The first does two things for it: it covers a part of
the question, and it names an entity that the question doesn't (the director). So for each of the best
records (the seeds), every such entity joined with the question's words that the seed lacks is a query of its
own; what stands in one sentence with the question's words comes first. An entity must link two records and no
more than a few: names of speakers, words that stand in the seed alone and words that stand everywhere are no
bridges. Where one record supports the whole question there is nothing to bridge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from recall_loop.policy.evidence.coverage import entry_entities, entry_terms
from recall_loop.policy.planning.query_forms import make_query, shorten_query
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import PlannedQuery, PoolEntry
from recall_loop.state.types import ContentType, QuerySource
from recall_loop.text.words.tokens import content_words, stem, stems

MAX_SEEDS = 5
ENTITIES_PER_SEED = 6
MAX_ROW_SHARE = 0.02
MAX_ROWS = 5
# What the label counts beside names that stand in one sentence with all the words that seed and question share.
LABEL_CLOSENESS = 0.5
_READ_CHARACTERS = 20_000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])|\n+")
# A message's words also stand in the windows of its two neighbours.
_WINDOWS = 3


@dataclass(frozen=True)
class BridgeCandidate:
    """A possible bridge: a seed, an entity that it names, and the question's words that it lacks."""

    seed: PoolEntry
    entity: str
    terms: frozenset[str]
    missing: tuple[str, ...]


def bridge_candidates(question: AnalysedQuestion, ranked: Sequence[PoolEntry]) -> list[BridgeCandidate]:
    """Return the possible bridges of the best records; nothing is looked up yet.

    The first one of each seed comes before any second one, so that a seed which only sounds alike can't fill a round.
    """
    asked = _question_words(question)
    everything = {stem(word) for word in asked} | {t for time in question.times for t in stems(time.text)}
    speakers = _speakers(ranked)
    found: list[list[BridgeCandidate]] = []
    for seed in ranked[:MAX_SEEDS]:
        held = entry_terms(seed)
        missing = tuple(word for word in asked if stem(word) not in held)
        if missing:
            found.append(_candidates_of_seed(seed, missing, everything, speakers))
    return [link for turn in zip_longest(*found) for link in turn if link is not None]


def _question_words(question: AnalysedQuestion) -> list[str]:
    """Return the question's words that can be missing from a record; times are no words of the text."""
    dated = {term for time in question.times for term in stems(time.text)}
    return [word for word in content_words(question.text) if stem(word) not in dated]


def _speakers(entries: Sequence[PoolEntry]) -> set[frozenset[str]]:
    names = {entry["record"].get(field) for entry in entries for field in ("author", "subject")}
    return {frozenset(stems(name)) for name in names if name}


def _candidates_of_seed(
    seed: PoolEntry, missing: tuple[str, ...], everything: set[str], speakers: set[frozenset[str]]
) -> list[BridgeCandidate]:
    found: list[BridgeCandidate] = []
    for entity in _entities_by_closeness(seed, everything):
        terms = frozenset(stems(entity))
        if not terms or terms <= everything:
            continue
        if len(found) >= ENTITIES_PER_SEED:
            break
        if not any(terms <= speaker for speaker in speakers):
            found.append(BridgeCandidate(seed, entity, terms, missing))
    return found


def _entities_by_closeness(seed: PoolEntry, asked: set[str]) -> list[str]:
    """Return what a seed names, first what its sentences join with most of the question's words; ties in their order.

    In a long record only few of its names have to do with what was asked. The label stands for the whole record.
    """
    shared = entry_terms(seed) & asked
    lines = [(line, len(terms & shared)) for line, terms in _sentences(seed["record"]["text"][:_READ_CHARACTERS])]
    label = seed["record"].get("label")

    def closeness(entity: str) -> float:
        wanted = entity.lower()
        nearest = max((count for line, count in lines if wanted in line), default=0)
        return max(float(nearest), LABEL_CLOSENESS * len(shared) if entity == label else 0.0)

    return sorted(entry_entities(seed), key=lambda entity: -closeness(entity))


@lru_cache(maxsize=1024)
def _sentences(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of a text in lower case with their stems."""
    return tuple((line.lower(), frozenset(stems(line))) for line in _SENTENCE_END.split(text) if line)


def candidate_terms(candidates: Sequence[BridgeCandidate]) -> list[str]:
    """Return the stems whose frequency decides which candidates are bridges."""
    return list(dict.fromkeys(term for link in candidates for term in sorted(link.terms)))


def bridge_queries(
    candidates: Sequence[BridgeCandidate], frequencies: Mapping[str, int], rows: int, longest: int
) -> list[PlannedQuery]:
    """Return the queries of those candidates whose entity links a few records.

    `frequencies` gives for each stem the number of the tenant's windows that hold it, `rows` the
    tenant's records.
    """
    found: list[PlannedQuery] = []
    for link in candidates:
        rarest = min(frequencies.get(term, 0) for term in link.terms)
        windows = _WINDOWS if link.seed["record"]["kind"] == ContentType.MESSAGE else 1
        if windows < rarest <= windows * max(MAX_ROW_SHARE * rows, MAX_ROWS):
            room = max(longest - len(link.entity) - 1, 1)
            text = shorten_query(f"{shorten_query(' '.join(link.missing), room)} {link.entity}", longest)
            query = make_query(text, QuerySource.FEEDBACK)
            found.append({**query, "seed": link.seed["key"], "entity": link.entity, "missing": list(link.missing)})
    return found
