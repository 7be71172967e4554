"""Feedback queries: terms of the best facts, joined with the question's anchor (QUERY-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from recall_loop.policy.evidence.coverage import entry_terms
from recall_loop.policy.planning.query_forms import main_query, make_query, shorten_query, with_anchor
from recall_loop.policy.question.question import AnalysedQuestion, AnswerKind
from recall_loop.state.agent_state import PlannedQuery, PoolEntry
from recall_loop.state.types import QuerySource
from recall_loop.text.words.tokens import content_words, stem, stems

_FACTS = 5
_TERMS = 6
_WEIGHT = 0.4
_READ_CHARACTERS = 2000


def feedback_queries(question: AnalysedQuestion, ranked: Sequence[PoolEntry], longest: int = 120) -> list[PlannedQuery]:
    """Return queries from words that several of the best facts share and the question lacks, with the anchor.

    Such words are those that the store uses for the subject of the question. `longest` is the most characters of one.
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
