"""Fit and measure whether memory holds an answer at all, and from where on to say that it holds none (CONF-4).

It is fitted on foreign questions, too (`evals.foreign`), if there are any: without them it would only recognise
nearly answered questions. They have their own figures and are part of no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.confidence.mapping_fit import (
    ANSWERABLE_MODELS,
    CalibrationSample,
    ModelSpec,
    apply_mapping,
    fit_mapping,
    select_model,
)
from recall_loop.evals.measures import quality_metrics as measure
from recall_loop.evals.measures.quality_metrics import Outcomes, Scores
from recall_loop.policy.confidence.confidence_mapping import AnswerabilityModel

ANSWERABLE_EVENT = "the memory holds an answer"
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class AnswerableFit:
    """The mapping, its probabilities out of fold in [0,1], and how it was fitted."""

    mapping: AnswerabilityModel
    scores: Scores
    kind: ModelSpec


def fit_answerable(
    sample: CalibrationSample, folds: int, wrongly: float, parts: Mapping[str, Indices]
) -> AnswerableFit | None:
    """Return the mapping fitted on a sample with the event "answerable".

    None where all or none are, or where a fold has all that are not: then nothing could be measured. `wrongly` is the
    share of the answerable questions, in [0,1], that may be taken for unanswerable; each of `parts` gets its figures.
    """
    if not sample.has_both_outcomes or not all(
        sample.subset(seen).has_both_outcomes for seen, _ in sample.folds(folds)
    ):
        return None
    kind, scores, losses = select_model(sample, ANSWERABLE_MODELS, folds)
    least = abstention_threshold(scores, sample.outcomes, wrongly)
    fitted = fit_mapping(sample, kind)
    found = {name: abstention_figures(scores[places], sample.outcomes[places], least) for name, places in parts.items()}
    mapping = AnswerabilityModel(
        method=fitted.method,
        event=ANSWERABLE_EVENT,
        intercept=fitted.intercept,
        features=fitted.features,
        curve=fitted.curve,
        abstain_below=least,
        wrongly=wrongly,
        figures=measure.round_numbers(
            {
                "log_loss_by_candidate": losses,
                "chosen": kind.name,
                "parts": found,
                "reliability": measure.reliability_bins(scores[parts["all"]], sample.outcomes[parts["all"]]),
                "left_out_set": _unseen_set_abstention(sample, kind, least),
            }
        ),
    )
    return AnswerableFit(mapping, scores, kind)


def abstention_figures(scores: Scores, answerable: Outcomes, least: float) -> dict[str, Any]:
    """Return how well probabilities separate answerable questions, and how many of each kind fall below `least`."""
    below = scores < least
    return {
        "questions": len(scores),
        "unanswerable": int((~answerable).sum()),
        **measure.score_figures(scores, answerable),
        "abstained": {
            "unanswerable": int((below & ~answerable).sum()),
            "answerable": int((below & answerable).sum()),
        },
    }


def abstention_threshold(scores: Scores, answerable: Outcomes, wrongly: float) -> float:
    """Return the largest threshold, to four digits, below which at most that share of answerable questions lie."""
    ordered = np.sort(scores[answerable])
    least = ordered[min(int(wrongly * len(ordered)), len(ordered) - 1)]
    return float(np.floor(least * 1e4) / 1e4)


def _unseen_set_abstention(sample: CalibrationSample, kind: ModelSpec, least: float) -> dict[str, Any]:
    """Return the figures of each set with unanswerable questions, fitted on the collections of the others only."""
    found: dict[str, Any] = {}
    for name, others, own in sample.leave_one_set_out():
        if others.has_both_outcomes and own.has_both_outcomes:
            found[name] = abstention_figures(apply_mapping(fit_mapping(others, kind), own), own.outcomes, least)
    return found
