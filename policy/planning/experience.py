"""Planning from experience: strategies and sources that gave new facts for similar requests come first (TRAJ-9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recall_loop.state.types import QuerySource

# Fewer queries than this, weighted by how similar their requests are, say nothing against a strategy or a source.
MIN_QUERIES = 2.0
_DIGITS = 6
_T = TypeVar("_T")
# By name: weighted number of queries, weighted number of new facts.
_Totals = defaultdict[str, tuple[float, float]]


@dataclass(frozen=True)
class Experience:
    """New facts per query in similar past runs, by strategy and by source of the query.

    0 means that enough queries brought nothing new; a missing name is unknown.
    """

    strategies: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0

    def sort_strategies(self, strategies: Sequence[_T]) -> list[_T]:
        """Sort strategies by their gain; unknown ones come before those without gain."""
        return _sort_by_gain(strategies, str, self.strategies)

    def sort_queries(self, queries: Sequence[_T], source: Callable[[_T], str]) -> list[_T]:
        """Sort queries by the gain of their sources; unknown ones come before those without gain."""
        return _sort_by_gain(queries, source, self.sources)


def _sort_by_gain(items: Sequence[_T], name: Callable[[_T], str], gains: Mapping[str, float]) -> list[_T]:
    def rank(item: _T) -> tuple[int, float]:
        gain = gains.get(name(item))
        return (1, 0.0) if gain is None else (0, -gain) if gain > 0.0 else (2, 0.0)

    return sorted(items, key=rank)


def summarise_runs(runs: Iterable[tuple[float, Sequence[Mapping[str, Any]]]]) -> Experience:
    """Return the experience of past runs.

    Each run is a pair: the similarity of its request in [0,1], which is its weight, and its queries (`strategy`,
    `source`, `new_facts`). Feedback and a model's queries go with every strategy and don't count for it.
    """
    strategies, sources = (_Totals(lambda: (0.0, 0.0)) for _ in range(2))
    number = 0
    for weight, queries in runs:
        number += 1
        for query in queries:
            gain, source = float(query.get("new_facts") or 0), str(query.get("source"))
            _add(sources, source, weight, gain)
            if source not in (QuerySource.FEEDBACK, QuerySource.LLM):
                _add(strategies, str(query.get("strategy")), weight, gain)
    return Experience(_means(strategies), _means(sources), number)


def _add(totals: _Totals, name: str, weight: float, gain: float) -> None:
    queries, gains = totals[name]
    totals[name] = (queries + weight, gains + weight * gain)


def _means(totals: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    return {
        name: round(gains / queries, _DIGITS)
        for name, (queries, gains) in sorted(totals.items())
        if gains > 0.0 or queries >= MIN_QUERIES
    }
