"""Novelty: what an iteration really added (STOP-1).

A vector search always returns something unseen. So a fact is NEW only if its key is unseen, its similarity
reaches the least, and it either enters the current best `max_facts` or raises the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.agent_state import PoolEntry

FacetSupport = Callable[[PoolEntry], Set[int]]


def new_facts(
    ranked: Sequence[RankedEntry],
    iteration: int,
    *,
    most: int,
    least_similarity: float,
    supports: FacetSupport,
    covered_before: frozenset[int],
) -> frozenset[str]:
    """Return the keys of the facts that are NEW in `iteration`.

    Args:
        ranked: the pool, best first.
        iteration: the running iteration, from 1.
        most: the request's max_facts.
        least_similarity: NOVELTY_MIN_SIMILARITY, in [0,1].
        supports: tells which facets an entry supports.
        covered_before: facets that were supported before this iteration.
    """
    found: set[str] = set()
    for place, item in enumerate(ranked):
        entry = item.entry
        if entry["first_iteration"] != iteration or entry["similarity"] < least_similarity:
            continue
        if place < most or supports(entry) - covered_before:
            found.add(entry["key"])
    return frozenset(found)


def streak_without_gain(streak: int, new: int, least_new: int) -> int:
    """Return the number of iterations in a row without gain, after one that brought `new` facts."""
    return streak + 1 if new < least_new else 0
