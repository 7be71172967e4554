"""Metrics: recall, nDCG and percentiles of rankings; AUROC, ECE and Brier score of probabilities."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.result import RecalledFact
from recall_loop.state.types import ConfidenceLabel, ContentType

NDCG_CUT = 10


def expand_to_sources(facts: Iterable[RecalledFact]) -> list[str]:
    """Return the source ids of `facts`, in rank order, without duplicates (OPS-4).

    A message, an archival entry or a trajectory stands for itself. A fact stands for the sources it was drawn from, in
    the order of its evidence, or for itself where it names no source. Several sources of one fact take several ranks,
    so that a fact with many sources gains nothing by that; the cut at K comes after.
    """
    ids: dict[str, None] = {}
    for fact in facts:
        ids.update(dict.fromkeys(_source_ids(fact)))
    return list(ids)


def _source_ids(fact: RecalledFact) -> list[str]:
    if fact.content_type is not ContentType.FACT:
        return [fact.id]
    sources = [evidence.source_id for evidence in fact.evidence if evidence.source_id != fact.id]
    return sources or [fact.id]


def recall_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the share of `gold` among the first `k` ids."""
    wanted = _gold(gold)
    return len(wanted.intersection(_top(ranked, k))) / len(wanted)


def all_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return 1.0 when every gold id is among the first `k` ids, else 0.0."""
    return float(_gold(gold).issubset(_top(ranked, k)))


def ndcg_at_10(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return the normalised discounted gain of the first ten ids.

    Gain is binary, the discount log2(rank + 1), and the ideal list begins with min(|gold|, 10) gold ids.
    """
    wanted = _gold(gold)
    gain = sum(_discount(rank) for rank, id_ in enumerate(_top(ranked, NDCG_CUT), 1) if id_ in wanted)
    return gain / sum(_discount(rank) for rank in range(1, min(len(wanted), NDCG_CUT) + 1))


def mrr(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return 1 / rank of the first gold id, 0.0 when there is none."""
    wanted = _gold(gold)
    ranks = (rank for rank, id_ in enumerate(dict.fromkeys(ranked), 1) if id_ in wanted)
    return 1.0 / next(ranks, math.inf)


def score_ranking(ranked: Sequence[str], gold: Collection[str], ks: Sequence[int]) -> dict[str, float]:
    """Return all metrics of one question, by name, in the order in which reports show them."""
    figures = {f"recall@{k}": recall_at_k(ranked, gold, k) for k in ks}
    figures |= {f"all@{k}": all_at_k(ranked, gold, k) for k in ks}
    return figures | {f"ndcg@{NDCG_CUT}": ndcg_at_10(ranked, gold), "mrr": mrr(ranked, gold)}


def macro_average(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over questions, every question weighing the same; {} for none."""
    if not scores:
        return {}
    return {name: math.fsum(each[name] for each in scores) / len(scores) for name in scores[0]}


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None for none."""
    return math.fsum(values) / len(values) if values else None


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (in [0,1]) of `values` lie, interpolated; NaN for none."""
    return float(np.quantile(values, share)) if values else math.nan


def _discount(rank: int) -> float:
    return 1.0 / math.log2(rank + 1)


def _top(ranked: Sequence[str], k: int) -> list[str]:
    if k < 1:
        raise InvalidInputError("k", k, "a whole number of 1 or more")
    return list(dict.fromkeys(ranked))[:k]


def _gold(gold: Collection[str]) -> frozenset[str]:
    if not gold:
        raise InvalidInputError("gold", list(gold), "at least one id; leave questions without gold out")
    return frozenset(gold)


BINS = 10
_DRAWS = 500
Scores = NDArray[np.float64]
Outcomes = NDArray[np.bool_]


def brier(scores: Scores, outcomes: Outcomes) -> float | None:
    """Return the mean squared distance of score and outcome; 0 is best."""
    return float(np.mean((scores - outcomes) ** 2)) if len(scores) else None


def auroc(scores: Scores, outcomes: Outcomes) -> float | None:
    """Return the chance that a true outcome has a higher score than a false one; None where only one kind is there."""
    true = int(outcomes.sum())
    if true in (0, len(outcomes)):
        return None
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # equal scores share their mean rank
    return float((ranks[outcomes].sum() - true * (true + 1) / 2) / (true * (len(outcomes) - true)))


def optional_auroc(scores: Sequence[float | None], outcomes: Sequence[bool]) -> float | None:
    """Return `auroc` of lists; None also where a score is missing."""
    if any(score is None for score in scores):
        return None
    return auroc(np.array(scores, dtype=np.float64), np.array(outcomes, dtype=bool))


def reliability_bins(scores: Scores, outcomes: Outcomes, bins: int = BINS) -> list[dict[str, float]]:
    """Return mean score and share of true outcomes by bin; bins hold equally many, ascending by score."""
    order = np.argsort(scores, kind="stable")
    return [
        {"questions": len(part), "score": float(scores[part].mean()), "share": float(outcomes[part].mean())}
        for part in np.array_split(order, bins)
        if len(part)
    ]


def ece(scores: Scores, outcomes: Outcomes, bins: int = BINS) -> float | None:
    """Return the expected calibration error: the mean distance of score and share over equal-mass bins."""
    if not len(scores):
        return None
    found = reliability_bins(scores, outcomes, bins)
    return sum(part["questions"] * abs(part["score"] - part["share"]) for part in found) / len(scores)


def ece_of_perfect(scores: Scores) -> dict[str, float] | None:
    """Return the ECE that these very scores would show if they were perfectly calibrated: mean and 95th percentile.

    By simulation: outcomes are drawn with the scores as probabilities. Few questions show some error even so.
    """
    if not len(scores):
        return None
    order, count = np.argsort(scores, kind="stable"), len(scores)
    sizes = np.array([len(part) for part in np.array_split(order, BINS) if len(part)])
    draw, starts = np.random.default_rng(0), np.cumsum(sizes) - sizes
    drawn = ((draw.random(count) < scores)[order] for _ in range(_DRAWS))
    differences = [np.add.reduceat(outcomes - scores[order], starts) for outcomes in drawn]
    errors = np.abs(differences).sum(axis=1) / count
    return {"mean": float(np.mean(errors)), "p95": float(np.percentile(errors, 95))}


def label_counts(labels: Sequence[str], outcomes: Outcomes) -> dict[str, dict[str, float | int | None]]:
    """Return for each label how often the event came about and how often not, its precision, and its share of all."""
    table: dict[str, dict[str, float | int | None]] = {}
    for label in ConfidenceLabel:
        labelled = outcomes[np.array([each == label.value for each in labels], dtype=bool)]
        table[label.value] = {
            "true": int(labelled.sum()),
            "false": int(len(labelled) - labelled.sum()),
            "precision": float(labelled.mean()) if len(labelled) else None,
            "coverage": len(labelled) / len(outcomes) if len(outcomes) else None,
        }
    return table


def score_figures(scores: Scores, outcomes: Outcomes) -> dict[str, Any]:
    """Return how well scores rank outcomes, and how near they are to their probabilities."""
    return {
        "auroc": auroc(scores, outcomes),
        "ece": ece(scores, outcomes),
        "ece_of_perfect": ece_of_perfect(scores),
        "brier": brier(scores, outcomes),
    }


def calibration_figures(
    scores: Scores, outcomes: Outcomes, answerable: Outcomes, labels: Sequence[str]
) -> dict[str, Any]:
    """Return all figures of one set of questions; `answerable_auroc` separates answerable from unanswerable ones."""
    return {
        "questions": len(scores),
        "base_rate": float(outcomes.mean()) if len(outcomes) else None,
        **score_figures(scores, outcomes),
        "answerable_auroc": auroc(scores, answerable),
        "labels": label_counts(labels, outcomes),
    }


def round_numbers(value: Any, digits: int = 4) -> Any:
    """Return figures with their numbers rounded, for files that people read."""
    if isinstance(value, Mapping):
        return {name: round_numbers(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [round_numbers(part, digits) for part in value]
    return round(value, digits) if isinstance(value, float) else value
