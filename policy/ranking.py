"""The final ranking over all iterations (RANK-3 to RANK-5).

score = (relevance + novelty + recency + diversity + evidence) / (1 + the four weights), in [0,1], where

- novelty: its weight if a later iteration found the fact and it is relevant;
- recency: its weight × 0.5 ^ (age / half-life) where the record has a time;
- diversity: its weight × (1 − 1/n) for n distinct queries that matched;
- evidence: its weight × (1 − 1/n) for n independent sources.

Near-duplicates of a better fact go behind everything else, so that they never crowd out a novel one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from recall_loop.policy.coverage import created_at, own_terms
from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.settings import Settings
from recall_loop.text.keys import overlap

_DIGITS = 6
_DAY = 86_400.0


@dataclass(frozen=True)
class Ranked:
    """One fact with its final score in [0,1], what it is made of, and whether a better fact says the same."""

    entry: PoolEntry
    score: float
    components: dict[str, float]
    near_duplicate: bool = False


def rank(entries: Iterable[PoolEntry], settings: Settings, reference: datetime) -> list[Ranked]:
    """Return all entries, best first; ties by record id."""
    most = _most(settings)
    scored = [_scored(entry, settings, reference, most) for entry in entries]
    scored.sort(key=lambda item: (-item.score, item.entry["record"]["id"], item.entry["key"]))
    return scored


def score_entry(entry: PoolEntry, settings: Settings, reference: datetime) -> Ranked:
    """Return the final score of one entry with its components."""
    return _scored(entry, settings, reference, _most(settings))


def _scored(entry: PoolEntry, settings: Settings, reference: datetime, most: float) -> Ranked:
    late = entry["first_iteration"] > 1 and entry["similarity"] >= settings.novelty_min_similarity
    queries = len({match["query"] for match in entry["matches"]})
    components = {
        "relevance": entry["relevance"],
        "novelty": settings.rank_novelty_weight if late else 0.0,
        "recency": settings.rank_recency_weight * _recency(entry, settings, reference),
        "diversity": settings.rank_diversity_weight * _growing(queries),
        "evidence": settings.rank_evidence_weight * _growing(len(set(entry["evidence_keys"]))),
    }
    total = min(max(sum(components.values()) / most, 0.0), 1.0)
    return Ranked(entry, round(total, _DIGITS), components)


def _most(settings: Settings) -> float:
    """Return the largest sum that the components can reach."""
    return 1.0 + (
        settings.rank_novelty_weight
        + settings.rank_recency_weight
        + settings.rank_diversity_weight
        + settings.rank_evidence_weight
    )


def _growing(count: int) -> float:
    return 1.0 - 1.0 / count if count > 1 else 0.0


def _recency(entry: PoolEntry, settings: Settings, reference: datetime) -> float:
    made = created_at(entry)
    if made is None:
        return 0.0
    age = max((reference - made).total_seconds() / _DAY, 0.0)
    return float(0.5 ** (age / settings.rank_recency_half_life_days))


def diversified(ranked: Sequence[Ranked], threshold: float) -> list[Ranked]:
    """Move near-duplicates of a better fact to the end, in their order.

    `threshold` in [0,1] is the Jaccard overlap of two facts' stems from which they are near-duplicates.
    """
    first: list[Ranked] = []
    repeated: list[Ranked] = []
    by_size: dict[int, list[frozenset[str]]] = {}
    for item in ranked:
        terms = own_terms(item.entry)
        if _has_near(terms, by_size, threshold):
            repeated.append(Ranked(item.entry, item.score, item.components, near_duplicate=True))
            continue
        first.append(item)
        by_size.setdefault(len(terms), []).append(terms)
    return first + repeated


def _has_near(terms: frozenset[str], by_size: dict[int, list[frozenset[str]]], threshold: float) -> bool:
    """Tell whether a set as similar as `threshold` is there; sets of too different sizes can't be."""
    if threshold <= 0.0:
        return bool(by_size)
    least, most = len(terms) * threshold, len(terms) / threshold
    near = (other for size, sets in by_size.items() if least <= size <= most for other in sets)
    return any(overlap(terms, other) >= threshold for other in near)
