"""The decision after an iteration: stop for the first reason that applies (STOP-2, 3), refine (LOOP-5), or continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from recall_loop.state.run.state_entries import PoolEntry, ToolCallEntry
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason

ZERO_RESULT_CALLS = 3
# The steps after this one: plan or refine, execute, evaluate, synthesize, and the last, which LangGraph reserves.
STEPS_PER_ITERATION = 5


@dataclass(frozen=True)
class RunProgress:
    """The inputs of the decision; counts are ≥ 0, shares in [0,1].

    Attributes:
        iteration: number of finished iterations.
        in_scope: whether the scope holds any record.
        calls: all search calls so far.
        queries_left: whether the next iteration has an untried query.
        coverage: supported share of the request.
        best_single: share that the best single record supports.
        best_similarity: highest similarity of any fact.
        new_facts: number of new unique facts in all iterations.
        streak: consecutive iterations without gain.
        elapsed: seconds since the run began.
        remaining_steps: supersteps that the caller's recursion limit leaves after this one.
        new_members: number of further members, of the list that the question asks for, that the last iteration found;
            None if it asks for no list (PIECES-1).
        judged_enough: whether a language model says stop, at STOP_CONFIDENCE_REQUIRED or above.
    """

    iteration: int
    in_scope: bool
    calls: Sequence[ToolCallEntry]
    queries_left: bool
    coverage: float
    best_single: float
    best_similarity: float
    new_facts: int
    streak: int
    elapsed: float
    remaining_steps: int
    new_members: int | None = None
    judged_enough: bool = False


def stop_reason(progress: RunProgress, settings: Settings) -> StopReason | None:
    """Return the first reason to stop that holds, in the order of STOP-2, or None to go on."""
    past_floor = progress.iteration >= settings.early_stop_min_iterations
    checks = (
        (StopReason.TOOL_FAILURE, bool(progress.calls) and not progress.calls[-1]["success"]),
        (StopReason.NOTHING_IN_SCOPE, not progress.in_scope),
        (StopReason.COVERED, _covered(progress, settings, past_floor)),
        (StopReason.EXHAUSTED, not progress.queries_left or _zero_results(progress.calls)),
        (StopReason.LLM_CONFIDENT, progress.judged_enough and metrics_agree(progress, settings)),
        (StopReason.ENOUGH_FACTS, past_floor and _enough_facts(progress, settings)),
        (StopReason.NO_NOVELTY, past_floor and (progress.streak >= settings.novelty_patience or _list_ended(progress))),
        (StopReason.DEADLINE, _late(progress, settings)),
        (StopReason.ITERATION_LIMIT, progress.iteration >= settings.max_iterations),
        (StopReason.STEP_LIMIT, progress.remaining_steps < STEPS_PER_ITERATION),
    )
    return next((reason for reason, holds in checks if holds), None)


def _covered(progress: RunProgress, settings: Settings, past_floor: bool) -> bool:
    """Tell whether coverage is full past the floor, or one record supports everything in the first iteration (STOP-3).

    A list isn't complete because one of its members supports the whole question.
    """
    if progress.new_members is not None and not (past_floor and _list_ended(progress)):
        return False
    if past_floor and progress.coverage >= 1.0:
        return True
    strong = min(progress.coverage, progress.best_single) >= settings.strong_first_coverage
    return progress.iteration == 1 and strong and progress.best_similarity >= settings.strong_first_similarity


def metrics_agree(progress: RunProgress, settings: Settings) -> bool:
    """Tell whether the metrics allow a language model to stop the run (STOP-2); if not, it needn't be asked.

    They do past the floor if something relevant was found, and if enough of the request is covered, or half as much
    after an iteration without gain.
    """
    relevant = progress.new_facts > 0 and progress.best_similarity >= settings.novelty_min_similarity
    settled = progress.coverage >= settings.coverage_enough * (0.5 if progress.streak > 0 else 1.0)
    return progress.iteration >= settings.early_stop_min_iterations and relevant and settled


def _enough_facts(progress: RunProgress, settings: Settings) -> bool:
    if progress.new_members is not None and not _list_ended(progress):
        return False
    return progress.new_facts >= settings.max_facts and progress.coverage >= settings.coverage_enough


def _list_ended(progress: RunProgress) -> bool:
    """Tell whether a further iteration found no further member of the list that the question asks for."""
    return progress.iteration > 1 and progress.new_members == 0


def _zero_results(calls: Sequence[ToolCallEntry]) -> bool:
    latest = [call for call in calls if call["success"]][-ZERO_RESULT_CALLS:]
    return len(latest) == ZERO_RESULT_CALLS and all(call["result_count"] == 0 for call in latest)


def _late(progress: RunProgress, settings: Settings) -> bool:
    return settings.deadline_seconds is not None and progress.elapsed >= settings.deadline_seconds


def stop_figures(progress: RunProgress) -> dict[str, float | int]:
    """Return the figures that are reported with a stop, without durations, so that runs are comparable."""
    return {
        "coverage": progress.coverage,
        "best_single_coverage": progress.best_single,
        "best_similarity": progress.best_similarity,
        "new_facts": progress.new_facts,
        "iterations_without_gain": progress.streak,
        "failed_calls": sum(1 for call in progress.calls if not call["success"]),
        "zero_result_calls": sum(1 for call in progress.calls if call["success"] and not call["result_count"]),
    }


def refine_reasons(
    calls: Sequence[ToolCallEntry], pool: Mapping[str, PoolEntry], new_facts: int, settings: Settings
) -> list[str]:
    """Return the reasons to refine after the last call; empty if there is none.

    The reasons are `no_results`, `fewer_results` (a drop of more than `refine_drop` against the previous call),
    `low_similarity` (the call's mean), `low_confidence` (mean of the facts' stored confidence) and `nothing_new`. A
    failed call is no reason: it says nothing about the queries (STOP-6).
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
    """Return the mean stored confidence of this iteration's facts; None if none has one."""
    values = [
        float(entry["record"]["confidence"])
        for entry in pool.values()
        if entry["first_iteration"] == iteration and entry["record"].get("confidence") is not None
    ]
    return fmean(values) if values else None
