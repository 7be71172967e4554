"""Decides whether an iteration's results call for refinement instead of the next strategy (LOOP-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from recall_loop.state.agent_state import PoolEntry, ToolCallEntry
from recall_loop.state.settings.settings import Settings


def refine_reasons(
    calls: Sequence[ToolCallEntry], pool: Mapping[str, PoolEntry], new_facts: int, settings: Settings
) -> list[str]:
    """Return the reasons to refine after the last call; empty if there is none.

    The reasons are `no_results`, `fewer_results` (a drop of more than `refine_drop` against the previous call),
    `low_similarity` (the call's mean), `low_confidence` (mean of the facts' stored confidence) and `nothing_new`. A
    failed call gives none: it says nothing about the queries (STOP-6).
    """
    if not calls or not calls[-1]["success"]:
        return []
    successful = [call for call in calls if call["success"]]
    last = successful[-1]
    if last["result_count"] == 0:
        return ["no_results"]
    reasons = []
    if len(successful) > 1 and last["result_count"] < (1.0 - settings.refine_drop) * successful[-2]["result_count"]:
        reasons.append("fewer_results")
    if last["mean_similarity"] < settings.refine_min_similarity:
        reasons.append("low_similarity")
    stated = _stated_confidence(pool, last["iteration"])
    if stated is not None and stated < settings.refine_min_confidence:
        reasons.append("low_confidence")
    if new_facts == 0:
        reasons.append("nothing_new")
    return reasons


def _stated_confidence(pool: Mapping[str, PoolEntry], iteration: int) -> float | None:
    """Return the mean confidence with which this iteration's facts were stored; None if none has one."""
    values = [
        float(entry["record"]["confidence"])
        for entry in pool.values()
        if entry["first_iteration"] == iteration and entry["record"].get("confidence") is not None
    ]
    return fmean(values) if values else None
