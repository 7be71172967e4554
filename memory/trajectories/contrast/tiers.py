"""Tiers of learning value: [0,1] without a gap, unscored runs apart from it (TRAJ-5), and the words for them (TRAJ-6).

    0 ───── failure_threshold ───── success_threshold ───── 1
      failures                moderate                successes       and, apart from these, unscored

Both thresholds belong to the outer tiers, so that every score is in exactly one. The names are about learning value:
a run that ended in an error may be a success here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Filters
from recall_loop.state.search import FAILURE_THRESHOLD, SUCCESS_THRESHOLD, TrajectorySearchParams


class Tier(StrEnum):
    """Where a trajectory stands by its learning value."""

    SUCCESS = "success"
    MODERATE = "moderate"
    FAILURE = "failure"
    UNSCORED = "unscored"


@dataclass(frozen=True)
class TierThresholds:
    """Where the tiers meet; 0 <= failure < success <= 1."""

    success: float = SUCCESS_THRESHOLD
    failure: float = FAILURE_THRESHOLD

    def tier(self, score: float | None) -> Tier:
        """Return the one tier that a score belongs to."""
        if score is None:
            return Tier.UNSCORED
        if score >= self.success:
            return Tier.SUCCESS
        return Tier.FAILURE if score <= self.failure else Tier.MODERATE


def tier_filters(filters: Filters, thresholds: TierThresholds) -> dict[Tier, Filters]:
    """Return the filters of each tier for which `filters` leave room.

    Bounds on the score that the filters have already stay in force: tiers outside of them are left out, and so are
    unscored runs, which lie outside of every bound.
    """
    low, high = filters.min_outcome_score, filters.max_outcome_score
    below = filters.below_outcome_score
    bounds = (low, high, filters.above_outcome_score, below)
    tiers: dict[Tier, Filters] = {}
    if filters.scored is not False:
        least = max(thresholds.success, low or 0.0)
        if high is None or least <= high:
            tiers[Tier.SUCCESS] = _with(filters, min_outcome_score=least)
        tiers[Tier.MODERATE] = _with(
            filters,
            above_outcome_score=max(thresholds.failure, filters.above_outcome_score or 0.0),
            below_outcome_score=thresholds.success if below is None else min(thresholds.success, below),
        )
        most = min(thresholds.failure, 1.0 if high is None else high)
        if low is None or low <= most:
            tiers[Tier.FAILURE] = _with(filters, max_outcome_score=most)
    if filters.scored is not True and all(bound is None for bound in bounds):
        tiers[Tier.UNSCORED] = _with(filters, scored=False)
    return tiers


def _with(filters: Filters, **changed: Any) -> Filters:
    return filters.model_copy(update=changed)


def combined_filters(params: TrajectorySearchParams) -> Filters:
    """Return the filters of a search with its bounds of score and similarity; of two bounds the stricter holds.

    Bounds that leave no score raise `InvalidInputError`.
    """
    given = params.filters
    lows = [value for value in (params.min_score, given.min_outcome_score) if value is not None]
    highs = [value for value in (params.max_score, given.max_outcome_score) if value is not None]
    if lows and highs and max(lows) > min(highs):
        raise InvalidInputError("min_score", max(lows), f"at most max_score ({min(highs)})")
    return _with(
        given,
        min_similarity=params.min_similarity if given.min_similarity is None else given.min_similarity,
        min_outcome_score=max(lows, default=None),
        max_outcome_score=min(highs, default=None),
    )


_TIER_NOTES = {
    Tier.SUCCESS: "High learning value (at least {success:.2f}): a rich example of such a task.",
    Tier.MODERATE: "Moderate learning value ({failure:.2f} < score < {success:.2f}): may still hold useful patterns.",
    Tier.FAILURE: "Low learning value (at most {failure:.2f}): shallow, or little to be learned from.",
    Tier.UNSCORED: "Not scored: nobody has judged its learning value; that is not a low score.",
}
# The group of a result that holds the runs of a tier, and the tier's plural.
TIER_GROUPS = dict(zip(Tier, ("successes", "moderate", "failures", "unscored"), strict=True))


def tier_note(tier: Tier, thresholds: TierThresholds) -> str:
    """Return the meaning of an item's tier for its reader."""
    return _TIER_NOTES[tier].format(success=thresholds.success, failure=thresholds.failure)


def _counted(tier: Tier, count: int) -> str:
    return f"{count} {tier if count == 1 else TIER_GROUPS[tier]}"


def contrasts_message(counts: Mapping[Tier, int], thresholds: TierThresholds) -> str:
    """Count each tier, and say what the tiers' names mean."""
    parts = ", ".join(_counted(tier, counts.get(tier, 0)) for tier in Tier)
    bounds = f"success >= {thresholds.success:.2f}, failure <= {thresholds.failure:.2f}"
    ending = "not by how a run ended: see its execution status"
    return f"Found {parts}. Tiers are by learning value ({bounds}), {ending}."


def fallback_message(counts: Mapping[Tier, int], shown: int, thresholds: TierThresholds) -> str:
    """Explain why there are no contrasts, and name the results that are shown instead."""
    high, low = f"learning value >= {thresholds.success:.2f}", f"<= {thresholds.failure:.2f}"
    parts = " and ".join(_counted(tier, counts.get(tier, 0)) for tier in (Tier.MODERATE, Tier.UNSCORED))
    what = f"{shown} relevant experience{'' if shown == 1 else 's'}, best match first"
    return f"Found 0 successes ({high}) and 0 failures ({low}) that match, but {what}: {parts}."


def count_message(shown: int) -> str:
    """Count the results of a search without contrasts."""
    return f"Found {shown} relevant trajector{'y' if shown == 1 else 'ies'}."


def empty_message(allowed: int, min_similarity: float) -> str:
    """Explain why nothing is shown."""
    if not allowed:
        return "No trajectory is in this scope and satisfies the filters."
    runs = "1 trajectory is" if allowed == 1 else f"{allowed} trajectories are"
    return f"{runs} in scope, but none has a similarity of at least {min_similarity:.2f} to the query."
