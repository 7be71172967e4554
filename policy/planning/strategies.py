"""Strategies and their order (LOOP-7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from recall_loop.policy.evidence.pool_entries import entry_text
from recall_loop.policy.planning.query_forms import (
    broader_queries,
    content_query,
    fallback_queries,
    make_query,
    narrower_queries,
    shorten_query,
    synonym_queries,
    without_times,
)
from recall_loop.policy.question.periods import entry_created_at
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PlannedQuery, PoolEntry, QueryOutcome
from recall_loop.state.types import QuerySource, Strategy
from recall_loop.text.names.proper_names import find_organizations, find_people, unique_folded
from recall_loop.text.time.time_expressions import TimeExpression, parse_times, render_time
from recall_loop.text.words.tokens import stems

_FACTS = 8
_MAX_NAMES = 4
_MAX_TIMES = 3
_READ_CHARACTERS = 4000
NameFinder = Callable[[str], tuple[str, ...]]
DirectQueries = Callable[[AnalysedQuestion, int, int], list[PlannedQuery]]


def order_strategies(used: Sequence[str], outcomes: Iterable[QueryOutcome]) -> list[Strategy]:
    """Return all strategies, the next one first: unused ones in their order, then by new facts per query."""
    gains: dict[str, list[int]] = {}
    for outcome in outcomes:
        if outcome["source"] == QuerySource.FEEDBACK:
            continue  # bridges and feedback accompany every strategy and don't count for it
        gains.setdefault(outcome["strategy"], []).append(outcome["new_facts"])
    fresh = [strategy for strategy in Strategy if strategy.value not in used]
    tried = [strategy for strategy in Strategy if strategy.value in used]
    tried.sort(key=lambda strategy: -fmean(gains.get(strategy.value, [0])))
    return fresh + tried


def strategy_queries(
    strategy: Strategy,
    question: AnalysedQuestion,
    ranked: Sequence[PoolEntry],
    most: int,
    longest: int,
    direct: DirectQueries = fallback_queries,
) -> list[PlannedQuery]:
    """Return the queries of one strategy, best first; an empty list if it has none for this question."""
    if strategy is Strategy.DIRECT:
        return direct(question, most, longest)
    makers: Mapping[Strategy, Callable[[], Iterator[PlannedQuery]]] = {
        Strategy.SYNONYMS: lambda: synonym_queries(question),
        Strategy.BROADER: lambda: broader_queries(question),
        Strategy.NARROWER: lambda: narrower_queries(question),
        Strategy.PEOPLE: lambda: _named(question, _names(question, ranked, find_people)),
        Strategy.ORGANIZATIONS: lambda: _named(question, _names(question, ranked, find_organizations)),
        Strategy.TEMPORAL: lambda: _timed(question, ranked),
    }
    return [{**query, "text": shorten_query(query["text"], longest)} for query in makers[strategy]()]


def _names(question: AnalysedQuestion, ranked: Sequence[PoolEntry], find: NameFinder) -> list[str]:
    """Return names in the referents and the best facts that aren't in the question."""
    asked = set(stems(question.text))
    texts = [*question.referents, *(entry_text(entry)[:_READ_CHARACTERS] for entry in ranked[:_FACTS])]
    names = unique_folded(name for text in texts for name in find(text))
    return [name for name in names if set(stems(name)) - asked][:_MAX_NAMES]


def _named(question: AnalysedQuestion, names: Sequence[str]) -> Iterator[PlannedQuery]:
    asked = " ".join(question.phrases) or content_query(question.text)
    for name in names:
        yield make_query(f"{name} {asked}", QuerySource.ENTITY, 0.4)


def _timed(question: AnalysedQuestion, ranked: Sequence[PoolEntry]) -> Iterator[PlannedQuery]:
    """Yield the question's words without its time words, with each time as people write it."""
    words = without_times(content_query(question.text), question)
    for time in (question.times or _times_of(ranked))[:_MAX_TIMES]:
        for rendered in render_time(time):
            yield make_query(f"{words} {rendered}".strip(), QuerySource.TEMPORAL)


def _times_of(ranked: Sequence[PoolEntry]) -> list[TimeExpression]:
    """Return the times that the best facts name; relative ones count from when the fact was made."""
    return [
        time
        for entry in ranked[:_FACTS]
        if (made := entry_created_at(entry)) is not None
        for time in parse_times(entry["record"]["text"][:_READ_CHARACTERS], made)
    ]
