"""Novelty: the facts that an iteration really added (STOP-1).

A vector search always returns something unseen. So a fact is new only if its key is unseen, its similarity reaches
the minimum, and it either enters the current best `max_facts` or raises the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.agent_state import PoolEntry


def new_facts(
    ranked: Sequence[RankedEntry],
    iteration: int,
    *,
    most: int,
    least_similarity: float,
    supports: Callable[[PoolEntry], Set[int]],
    covered_before: frozenset[int],
) -> frozenset[str]:
    """Return the keys of the facts that are new in `iteration`.

    Args:
        ranked: the pool, best first.
        iteration: the current iteration, from 1.
        most: the request's max_facts.
        least_similarity: NOVELTY_MIN_SIMILARITY, in [0,1].
        supports: returns the indices of the facets that an entry supports.
        covered_before: indices of the facets that were supported before this iteration.
    """
    return frozenset(
        item.entry["key"]
        for rank, item in enumerate(ranked)
        if item.entry["first_iteration"] == iteration
        and item.entry["similarity"] >= least_similarity
        and (rank < most or supports(item.entry) - covered_before)
    )


def streak_without_gain(streak: int, new: int, least_new: int) -> int:
    """Return the number of consecutive iterations without gain, after one that brought `new` facts."""
    return streak + 1 if new < least_new else 0
