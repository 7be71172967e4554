"""Comparing policies on the same prompts: figures of each, and the significance of their differences (OPS-4).

Pure functions of the runs. Every interval is a paired bootstrap: prompts are drawn with replacement, the same ones
for both policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.measures.quality_metrics import macro_average, mean, optional_auroc, percentile, reliability_bins
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.state.types import ConfidenceLabel

LEVEL = 0.95
RESAMPLES = 2000
COMPLETE_DESCRIPTION = "all gold evidence in the top 10"
_DIGITS = 12  # differences that cancel out leave about 1e-16, which counts as 0
_RESAMPLE_CHUNK = 200  # resamples held in memory at once


@dataclass(frozen=True)
class Difference:
    """How one policy differs from another in one measure, with the 95 % interval from `low` to `high`."""

    measure: str
    statistic: str
    difference: float
    low: float
    high: float
    prompts: int


def run_measures(run: ReplayRun) -> dict[str, float]:
    """Return the compared figures of one run, by name: counts, milliseconds, and metrics in [0,1]."""
    found = {"gold_found": float(run.gold_found)} if run.gold_found is not None else {}
    return {
        **found,
        **run.scores,
        "relevant_facts": float(run.relevant),
        "iterations": float(run.result.iterations),
        "queries_executed": float(run.result.executed),
        "queries_repeated": float(run.result.repeated),
        "latency_ms": run.latency_ms,
        "llm_calls": float(run.result.llm_calls),
        "llm_tokens": float(run.result.llm_tokens),
    }


def differences(
    baseline: Sequence[ReplayRun], other: Sequence[ReplayRun], *, resamples: int, seed: int
) -> list[Difference]:
    """Return the differences of `other` from `baseline`, runs of the same prompts in the same order.

    Means are compared; of latency, medians. A measure that no prompt has is left out.
    """
    pairs = [(run_measures(one), run_measures(two)) for one, two in zip(baseline, other, strict=True)]
    names = dict.fromkeys(name for pair in pairs for name in pair[0])
    found = []
    for name in names:
        both = np.array([(one[name], two[name]) for one, two in pairs if name in one])
        statistic = "median" if name == "latency_ms" else "mean"
        difference, low, high = paired_interval(
            both[:, 0], both[:, 1], statistic=statistic, resamples=resamples, seed=seed
        )
        found.append(Difference(name, statistic, difference, low, high, len(both)))
    return found


def paired_interval(
    baseline: NDArray[np.float64], other: NDArray[np.float64], *, statistic: str, resamples: int, seed: int
) -> tuple[float, float, float]:
    """Return statistic(other) − statistic(baseline) and its 95 % percentile interval; `statistic` is mean or median."""
    over = np.median if statistic == "median" else np.mean
    random = np.random.default_rng(seed)
    drawn: list[NDArray[np.float64]] = []
    for start in range(0, resamples, _RESAMPLE_CHUNK):
        places = random.integers(0, len(other), size=(min(_RESAMPLE_CHUNK, resamples - start), len(other)))
        drawn.append(np.asarray(over(other[places], axis=1) - over(baseline[places], axis=1)))
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(drawn), (tail, 1.0 - tail))
    difference, low, high = np.round((over(other) - over(baseline), low, high), _DIGITS).tolist()
    return difference, low, high


def policy_figures(runs: Sequence[ReplayRun]) -> dict[str, Any]:
    """Return one policy's figures over all its runs.

    `gold_found` counts unique gold ids that were returned, out of `gold`; `relevant_facts` counts facts at or
    above the similarity that counts as relevant. A figure that has nothing to be taken over is null.
    """
    scored = [run for run in runs if run.scores]
    return {
        "prompts": len(runs),
        "scored": len(scored),
        "gold": sum(len(set(run.prompt.gold)) for run in scored),
        "gold_found": sum(run.gold_found or 0 for run in scored),
        "relevant_facts": sum(run.relevant for run in runs),
        **macro_average([run.scores for run in scored]),
        **search_figures(runs),
        "llm_calls": sum(run.result.llm_calls for run in runs),
        "llm_tokens": sum(run.result.llm_tokens for run in runs),
        "confusion": label_confusion(runs),
        "reliability": score_reliability(
            [
                (run.result.score, run.complete)
                for run in runs
                if run.result.score is not None and run.complete is not None
            ]
        ),
        "answerable_auroc": answerable_auroc(runs),
        "by_iteration": by_iteration(runs),
        "categories": categories(scored),
    }


def search_figures(runs: Sequence[ReplayRun]) -> dict[str, Any]:
    """Return how far runs searched, why they stopped, and their latency; NaN where there are no runs."""
    latencies = [run.latency_ms for run in runs]
    return {
        "iterations": mean([run.result.iterations for run in runs]),
        "queries_executed": sum(run.result.executed for run in runs),
        "queries_repeated": sum(run.result.repeated for run in runs),
        "stop_reasons": dict(Counter(run.result.stop_reason for run in runs).most_common()),
        "latency_ms": {"p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95)},
    }


def label_confusion(runs: Sequence[ReplayRun]) -> dict[str, dict[str, int]]:
    """Return label → how many runs had all gold evidence in the first ten (`complete`), and how many had not."""
    known = [run for run in runs if run.complete is not None]
    return {
        label.value: {
            "complete": sum(run.result.label == label and run.complete is True for run in known),
            "incomplete": sum(run.result.label == label and run.complete is False for run in known),
        }
        for label in ConfidenceLabel
    }


def answerable_auroc(runs: Sequence[ReplayRun]) -> dict[str, float | None]:
    """Return how well the score and `answerable` rank answerable prompts above unanswerable ones, as AUROC."""
    known = [run for run in runs if run.prompt.answerable is not None]
    outcomes = [bool(run.prompt.answerable) for run in known]
    return {
        "score": optional_auroc([run.result.score for run in known], outcomes),
        "answerable": optional_auroc([run.result.answerable for run in known], outcomes),
    }


def score_reliability(scores: Sequence[tuple[float, bool]]) -> list[dict[str, float]]:
    """Return up to ten bins of equal numbers of scores, lowest first: mean score, share complete, and how many."""
    values, events = [value for value, _ in scores], [event for _, event in scores]
    bins = reliability_bins(np.array(values, dtype=np.float64), np.array(events, dtype=bool))
    return [{"score": part["score"], "complete": part["share"], "runs": part["questions"]} for part in bins]


def by_iteration(runs: Sequence[ReplayRun]) -> list[dict[str, float | None]]:
    """Return for each iteration the number of runs that made it, its new facts, and the facts found by its end.

    `found` is the share of gold ids that are returned in the end and that this iteration or an earlier one found
    first, averaged over scored prompts. A run that had stopped by then counts with what it had.
    """
    scored = [run for run in runs if run.scores]
    rows: list[dict[str, float | None]] = []
    for iteration in range(1, max((run.result.iterations for run in runs), default=0) + 1):
        new = [run.result.new_facts[iteration - 1] for run in runs if len(run.result.new_facts) >= iteration]
        rows.append(
            {
                "iteration": iteration,
                "runs": sum(run.result.iterations >= iteration for run in runs),
                "new_facts": mean(new),
                "found": mean([_found_by(run, iteration) for run in scored]),
            }
        )
    return rows


def _found_by(run: ReplayRun, iteration: int) -> float:
    gold = set(run.prompt.gold)
    return sum(each in gold and run.found_in[each] <= iteration for each in run.ids) / len(gold)


def categories(scored: Sequence[ReplayRun]) -> dict[str, dict[str, float]]:
    """Return the metrics of each category of scored prompts, and how many it has."""
    groups: dict[str, list[dict[str, float]]] = {}
    for run in scored:
        groups.setdefault(run.prompt.category, []).append(run.scores)
    return {name: {"prompts": len(rows), **macro_average(rows)} for name, rows in sorted(groups.items())}
