"""Choose, fit and measure a mapping, and make the versioned file of it (CONF-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.confidence.abstention import AnswerableFit, fit_answerable
from recall_loop.evals.confidence.calibration_examples import CalibrationExample, count_by_set
from recall_loop.evals.confidence.mapping_fit import (
    SCORE_MODELS,
    CalibrationSample,
    ModelSpec,
    apply_mapping,
    fit_mapping,
    precision_threshold,
    select_model,
)
from recall_loop.evals.measures import quality_metrics as measure
from recall_loop.evals.measures.quality_metrics import Outcomes, Scores
from recall_loop.policy.confidence.confidence_mapping import Calibration, LabelThresholds, identity_calibration
from recall_loop.policy.confidence.confidence_score import COMPONENT_WEIGHTS, compute_confidence
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings

COMPLETE_EVENT = "all gold evidence is among the first ten ids; never where the memory holds no answer"


@dataclass(frozen=True)
class CalibrationPlan:
    """How to fit; shares and precisions lie in [0,1].

    Attributes:
        name: the mapping's id, which results carry.
        date: when it is fitted, as the caller says it; the clock isn't asked, so that a fit can be repeated.
        folds: folds of the cross-validation over groups, 2 or more.
        balance: 0 = each question counts the same, 1 = each set.
        high: least share of `high` results that the event holds for.
        medium: the same of `medium` results.
        method: the candidate to take for the score, by name; None = the best one.
        wrongly: share of the answerable questions that may be taken for unanswerable.
        each_set: whether `high` must have its precision in each set, not just in all of them together.
    """

    name: str
    date: str | None = None
    folds: int = 6
    balance: float = 0.5
    high: float = 0.85
    medium: float = 0.6
    method: str | None = None
    wrongly: float = 0.05
    each_set: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range with `InvalidInputError`."""
        if self.folds < 2:
            raise InvalidInputError("folds", self.folds, "a whole number of 2 or more")
        for name in ("balance", "high", "medium", "wrongly"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInputError(name, getattr(self, name), "a number from 0 to 1")
        if self.medium > self.high:
            raise InvalidInputError("medium", self.medium, f"at most the precision of high ({self.high:g})")
        names = [kind.name for kind in SCORE_MODELS]
        if self.method is not None and self.method not in names:
            raise InvalidInputError("method", self.method, " | ".join(map(repr, names)))


def calibrate(examples: Sequence[CalibrationExample], plan: CalibrationPlan) -> Calibration:
    """Return the mapping fitted on all examples, with the figures that it had out of fold; raises as `fit_mapping`."""
    own = [example for example in examples if not example.cross_collection]
    everything = [*own, *(example for example in examples if example.cross_collection)]
    sample, wide = CalibrationSample(own, plan.balance), CalibrationSample(everything, plan.balance, "answerable")
    parts = _subsets(sample, plan)
    others = {"foreign": np.arange(len(own), len(everything))} if len(everything) > len(own) else {}
    held = fit_answerable(wide, plan.folds, plan.wrongly, parts | others)
    kinds = [kind for kind in SCORE_MODELS if plan.method in (None, kind.name)]
    chosen, scores, losses = select_model(sample, kinds, plan.folds, held.scores[: len(own)] if held else None)
    thresholds = _thresholds(scores, sample, plan)
    judged = _LabelledSample(
        sample, held.scores if held else None, held.mapping.abstain_below if held else 0.0, thresholds
    )
    return fit_mapping(sample, chosen).model_copy(
        update={
            "id": plan.name,
            "event": COMPLETE_EVENT,
            "thresholds": thresholds,
            "answerable": held.mapping if held else None,
            "fitted_on": _fitted_on(wide, plan),
            "figures": measure.round_numbers(
                {
                    "log_loss_by_candidate": losses,
                    "chosen": chosen.name,
                    **_figures(judged, scores, parts),
                    "left_out_set": _unseen_set_figures(judged, chosen, held, wide),
                }
            ),
        }
    )


@dataclass(frozen=True)
class _LabelledSample:
    """A sample, and the inputs of its labels besides the scores."""

    sample: CalibrationSample
    holding: Scores | None
    abstain_below: float
    thresholds: LabelThresholds


def _thresholds(scores: Scores, sample: CalibrationSample, plan: CalibrationPlan) -> LabelThresholds:
    high = high_threshold(scores, sample, plan)
    medium = precision_threshold(scores, sample.outcomes, plan.medium, below=high)
    return LabelThresholds(medium=medium, high=high, precisions={"medium": plan.medium, "high": plan.high})


def high_threshold(scores: Scores, sample: CalibrationSample, plan: CalibrationPlan) -> float:
    """Return the score from which the precision holds; if it never holds in a set, no result reaches the score."""
    if not plan.each_set:
        return precision_threshold(scores, sample.outcomes, plan.high)
    origins = np.array([example.origin for example in sample.examples])
    found = []
    for name in dict.fromkeys(origins.tolist()):
        own = origins == name
        above = min(float(np.ceil(scores[own].max() * 1e4 + 1) / 1e4), 1.0)
        found.append(precision_threshold(scores[own], sample.outcomes[own], plan.high, below=above))
    return max(found)


def _fitted_on(sample: CalibrationSample, plan: CalibrationPlan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "questions": len(sample.examples),
        "folds": plan.folds,
        "balance": plan.balance,
        "sets": count_by_set(sample.examples),
    }
    return found | ({"date": plan.date} if plan.date else {})


def _subsets(sample: CalibrationSample, plan: CalibrationPlan) -> dict[str, NDArray[np.intp]]:
    """Return the places of all questions, and of those of each set and fold."""
    names = np.array([example.origin for example in sample.examples])
    parts = {"all": np.arange(len(names))}
    parts |= {f"set {name}": np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    return parts | {f"fold {at}": unseen for at, (_, unseen) in enumerate(sample.folds(plan.folds), 1)}


def _figures(judged: _LabelledSample, after: Scores, parts: Mapping[str, NDArray[np.intp]]) -> dict[str, Any]:
    """Return figures before and after: of all questions, by set and by fold; with the reliability diagrams."""
    sample, plain = judged.sample, identity_calibration()
    before = apply_mapping(plain, sample)
    plainly = _LabelledSample(sample, None, 0.0, plain.thresholds)
    return {
        "parts": {
            name: {"before": _subset_figures(plainly, before, places), "after": _subset_figures(judged, after, places)}
            for name, places in parts.items()
        },
        "reliability": {
            "before": measure.reliability_bins(before, sample.outcomes),
            "after": measure.reliability_bins(after, sample.outcomes),
        },
    }


def _subset_figures(judged: _LabelledSample, scores: Scores, places: NDArray[np.intp]) -> dict[str, Any]:
    part, holding = judged.sample.subset(places), judged.holding
    answerable = np.array([example.answerable for example in part.examples], dtype=bool)
    nothing = np.zeros(len(places), dtype=bool) if holding is None else holding[places] < judged.abstain_below
    labels = confidence_labels(part, scores[places], judged.thresholds, nothing)
    return measure.calibration_figures(scores[places], part.outcomes, answerable, labels)


def confidence_labels(
    sample: CalibrationSample, scores: Scores, thresholds: LabelThresholds, abstained: Outcomes
) -> list[str]:
    """Return the labels that the scores get: low with weak relevance, and where memory is taken to hold no answer."""
    settings, edges = Settings.model_construct(**_DEFAULTS), (thresholds.medium, thresholds.high)
    return [
        compute_confidence(
            float(score),
            {name: example.values[name] for name in COMPONENT_WEIGHTS},
            settings,
            edges,
            abstains=bool(none),
        ).value
        for score, example, none in zip(scores, sample.examples, abstained, strict=True)
    ]


# Labels use the default thresholds: the environment of the fit doesn't belong in the file.
_DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}


def _unseen_set_figures(
    judged: _LabelledSample, kind: ModelSpec, held: AnswerableFit | None, wide: CalibrationSample
) -> dict[str, Any]:
    """Return the figures of each set under a mapping that was fitted on the collections of the others only."""
    found: dict[str, Any] = {}
    for name, others, own in judged.sample.leave_one_set_out():
        if not others.has_both_outcomes:
            continue
        scores, holding = apply_mapping(fit_mapping(others, kind), own), None
        groups = {example.group for example in own.examples}
        unseen = replace(wide, examples=[example for example in wide.examples if example.group not in groups])
        if held and unseen.has_both_outcomes:
            holding = apply_mapping(fit_mapping(unseen, held.kind), own)
            scores = np.minimum(scores, holding)
        places = np.arange(len(scores))
        found[name] = _subset_figures(replace(judged, sample=own, holding=holding), scores, places)
    return found
