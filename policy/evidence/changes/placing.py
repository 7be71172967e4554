"""Entries in the places of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.run.state_entries import PoolEntry


def raised(item: RankedEntry, place: RankedEntry) -> RankedEntry:
    """Return an entry that takes a better one's place."""
    if item.id == place.id:
        return item
    similarity = max(item.entry["similarity"], place.entry["similarity"])
    score = max(item.score, place.score)
    near = place.near_duplicate and item.near_duplicate
    entry: PoolEntry = {**item.entry, "similarity": similarity}
    return replace(item, score=score, near_duplicate=near, entry=entry, own_similarity=item.similarity)


def lifted(
    ranked: Sequence[RankedEntry], before: Mapping[str, str], everything: Mapping[str, RankedEntry]
) -> list[RankedEntry]:
    """Return the entries with those of `before` right above the ones under whose ids they stand there."""
    ordered: list[RankedEntry] = []
    placed: set[str] = set()
    for item in ranked:
        older = before.get(item.id)
        if older is not None and older not in placed and item.id not in placed:
            placed.add(older)
            ordered.append(raised(everything[older], item))
        if item.id not in placed:
            placed.add(item.id)
            ordered.append(item)
    return ordered
