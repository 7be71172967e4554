"""How good a confidence is: figures over scores in [0,1] and outcomes (CONF-4).

An outcome is true when the event came about: all gold evidence is among the first ten ids. Pure functions over
arrays of equal length; a figure that nothing can be taken over is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.state.types import ConfidenceLabel

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


def ece_of_perfect(scores: Scores, bins: int = BINS, seed: int = 0) -> dict[str, float] | None:
    """Return the ECE that these very scores would show if they were perfectly calibrated: mean and 95th percentile.

    By simulation: outcomes are drawn with the scores as probabilities. Few questions show some error even so.
    """
    if not len(scores):
        return None
    draw = np.random.default_rng(seed)
    errors = [ece(scores, draw.random(len(scores)) < scores, bins) or 0.0 for _ in range(_DRAWS)]
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
    """Return all figures of one set of questions; `answerable_auroc` tells answerable from unanswerable ones."""
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
