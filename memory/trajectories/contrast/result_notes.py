"""The message of a search of trajectories, and the note of each item (TRAJ-5, TRAJ-6)."""

from __future__ import annotations

from collections.abc import Mapping

from recall_loop.memory.trajectories.contrast.tiers import Tier, TierThresholds

_TIER_NOTES = {
    Tier.SUCCESS: "High learning value (at least {success:.2f}): a rich example of such a task.",
    Tier.MODERATE: "Moderate learning value ({failure:.2f} < score < {success:.2f}): may still hold useful patterns.",
    Tier.FAILURE: "Low learning value (at most {failure:.2f}): shallow, or little to be learned from.",
    Tier.UNSCORED: "Not scored: nobody has judged its learning value; that is not a low score.",
}
TIER_NAMES = {
    Tier.SUCCESS: ("success", "successes"),
    Tier.MODERATE: ("moderate", "moderate"),
    Tier.FAILURE: ("failure", "failures"),
    Tier.UNSCORED: ("unscored", "unscored"),
}


def tier_note(tier: Tier, thresholds: TierThresholds) -> str:
    """Return the meaning of an item's tier for its reader."""
    return _TIER_NOTES[tier].format(success=thresholds.success, failure=thresholds.failure)


def _counted(tier: Tier, count: int) -> str:
    return f"{count} {TIER_NAMES[tier][0] if count == 1 else TIER_NAMES[tier][1]}"


def contrasts_message(counts: Mapping[Tier, int], thresholds: TierThresholds) -> str:
    """Count each tier, and say what the tiers' names mean."""
    parts = ", ".join(_counted(tier, counts.get(tier, 0)) for tier in Tier)
    low, high = f"{thresholds.failure:.2f}", f"{thresholds.success:.2f}"
    return (
        f"Found {parts}. Tiers are by learning value (success >= {high}, failure <= {low}), "
        "not by how a run ended: see its execution status."
    )


def fallback_message(counts: Mapping[Tier, int], shown: int, thresholds: TierThresholds) -> str:
    """Explain why there are no contrasts, and name the results that are shown instead."""
    low, high = f"{thresholds.failure:.2f}", f"{thresholds.success:.2f}"
    parts = " and ".join(_counted(tier, counts.get(tier, 0)) for tier in (Tier.MODERATE, Tier.UNSCORED))
    return (
        f"Found 0 successes (learning value >= {high}) and 0 failures (<= {low}) that match, but "
        f"{shown} relevant experience{'' if shown == 1 else 's'}, best match first: {parts}."
    )


def count_message(shown: int) -> str:
    """Count the results of a search without contrasts."""
    return f"Found {shown} relevant trajector{'y' if shown == 1 else 'ies'}."


def empty_message(allowed: int, min_similarity: float) -> str:
    """Explain why nothing is shown."""
    if not allowed:
        return "No trajectory is in this scope and satisfies the filters."
    runs = "1 trajectory is" if allowed == 1 else f"{allowed} trajectories are"
    return f"{runs} in scope, but none has a similarity of at least {min_similarity:.2f} to the query."
