"""Planning from experience: what gave new facts for similar requests comes first, what gave none last (TRAJ-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recall_loop.state.types import QuerySource

# Fewer queries than this, weighted by how similar their requests are, say nothing against a strategy or a source.
MIN_QUERIES = 2.0
_DIGITS = 6
_T = TypeVar("_T")


@dataclass(frozen=True)
class Experience:
    """New facts per query in similar past runs, by strategy and by source of the query.

    A value of 0 means that enough was asked and nothing new came; what isn't named is unknown.
    """

    strategies: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0

    def sort_strategies(self, strategies: Sequence[_T]) -> list[_T]:
        """Return strategies in the order of what they gave; unknown ones stand before those that gave nothing."""
        return _ordered(strategies, str, self.strategies)

    def sort_queries(self, queries: Sequence[_T], source: Callable[[_T], str]) -> list[_T]:
        """Return queries in the order of what their sources gave."""
        return _ordered(queries, source, self.sources)


def _ordered(items: Sequence[_T], name: Callable[[_T], str], gains: Mapping[str, float]) -> list[_T]:
    """Sort stably: gains first, the greatest before all; then the unknown; then what gave nothing."""

    def place(item: _T) -> tuple[int, float]:
        gain = gains.get(name(item))
        return (1, 0.0) if gain is None else (0, -gain) if gain > 0.0 else (2, 0.0)

    return sorted(items, key=place)


def summarise_runs(runs: Iterable[tuple[float, Sequence[Mapping[str, Any]]]]) -> Experience:
    """Return the experience of past runs.

    Each comes as the similarity of its request in [0,1], by which it counts, and its queries (`strategy`, `source`,
    `new_facts`). Bridges and feedback go with every strategy and are no merit of it.
    """
    strategies: dict[str, tuple[float, float]] = {}
    sources: dict[str, tuple[float, float]] = {}
    number = 0
    for weight, queries in runs:
        number += 1
        for query in queries:
            gain, source = float(query.get("new_facts") or 0), str(query.get("source"))
            _add(sources, source, weight, gain)
            if source not in (QuerySource.FEEDBACK, QuerySource.LLM):
                _add(strategies, str(query.get("strategy")), weight, gain)
    return Experience(_means(strategies), _means(sources), number)


def _add(totals: dict[str, tuple[float, float]], name: str, weight: float, gain: float) -> None:
    queries, gains = totals.get(name, (0.0, 0.0))
    totals[name] = (queries + weight, gains + weight * gain)


def _means(totals: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    return {
        name: round(gains / queries, _DIGITS)
        for name, (queries, gains) in sorted(totals.items())
        if gains > 0.0 or queries >= MIN_QUERIES
    }
