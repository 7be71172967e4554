"""Feedback queries: the terms of the best facts, beside the question's anchor (QUERY-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from recall_loop.policy.coverage import own_terms
from recall_loop.policy.queries import main_query, planned
from recall_loop.policy.question import Question
from recall_loop.state.agent_state import PlannedQuery, PoolEntry
from recall_loop.state.types import QuerySource
from recall_loop.text.tokens import content_words, stems

_FACTS = 5
_TERMS = 6
_WEIGHT = 0.4


def feedback_queries(question: Question, ranked: Sequence[PoolEntry]) -> Iterator[PlannedQuery]:
    """Yield queries of the anchor and words that several of the best facts share and the question lacks.

    Such words are those that the store itself uses for what is asked.
    """
    asked = set(stems(question.text)) | {term for name in question.names for term in stems(name)}
    counts: Counter[str] = Counter()
    for place, entry in enumerate(ranked[:_FACTS]):
        held = own_terms(entry)
        for word in content_words(entry["record"]["text"][:2000]):
            term = stems(word)
            if term and term[0] in held and term[0] not in asked and not word.isdigit():
                counts[word] += 2 if place == 0 else 1
    shared = [word for word, count in counts.most_common(_TERMS) if count > 1]
    anchor = question.names[0] if question.names else main_query(question)
    for first, second in zip(shared[::2], shared[1::2], strict=False):
        yield planned(f"{anchor} {first} {second}", QuerySource.FEEDBACK, _WEIGHT)
