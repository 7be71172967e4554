"""Choose, fit and measure a mapping, and make the versioned file of it (CONF-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.confidence.abstention import Held, fit_answerable
from recall_loop.evals.confidence.calibration_examples import Example, counts
from recall_loop.evals.confidence.mapping_fit import KINDS, Kind, Sample, apply, best_kind, fit, threshold
from recall_loop.evals.measures import calibration_metrics as measure
from recall_loop.evals.measures.calibration_metrics import Outcomes, Scores
from recall_loop.policy.confidence.confidence_mapping import Calibration, Thresholds, identity
from recall_loop.policy.confidence.confidence_score import WEIGHTS, compute_confidence
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings

EVENT = "all gold evidence is among the first ten ids; never where the memory holds no answer"


@dataclass(frozen=True)
class Plan:
    """How to fit.

    Attributes:
        name: the mapping's id, which results carry.
        date: when it is fitted, as the caller says it; the clock isn't asked, so that a fit can be repeated.
        folds: parts of the cross-validation over groups, 2 or more.
        balance: 0 = each question counts the same, 1 = each set.
        high: least share of `high` results that the event holds for, in [0,1].
        medium: the same of `medium` results.
        kind: the candidate to take for the score, by name; None = the best one.
        wrongly: share of the answerable questions that may be taken for unanswerable, in [0,1].
    """

    name: str
    date: str | None = None
    folds: int = 6
    balance: float = 0.5
    high: float = 0.85
    medium: float = 0.6
    kind: str | None = None
    wrongly: float = 0.05

    def __post_init__(self) -> None:
        """Refuse values out of range with `InvalidInputError`."""
        if self.folds < 2:
            raise InvalidInputError("folds", self.folds, "a whole number of 2 or more")
        for name in ("balance", "high", "medium", "wrongly"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInputError(name, getattr(self, name), "a number from 0 to 1")
        if self.medium > self.high:
            raise InvalidInputError("medium", self.medium, f"at most the precision of high ({self.high:g})")
        names = [kind.name for kind in KINDS]
        if self.kind is not None and self.kind not in names:
            raise InvalidInputError("kind", self.kind, " | ".join(names))


def calibrate(examples: Sequence[Example], plan: Plan) -> Calibration:
    """Return the mapping fitted on all examples, with the figures that it had out of fold.

    Raises:
        InvalidInputError: there are too few groups, or all examples have the same outcome.
    """
    own = [example for example in examples if not example.foreign]
    everything = [*own, *(example for example in examples if example.foreign)]
    sample, wide = Sample(own, plan.balance), Sample(everything, plan.balance, "answerable")
    parts = _parts(sample, plan)
    others = {"foreign": np.arange(len(own), len(everything))} if len(everything) > len(own) else {}
    held = fit_answerable(wide, plan.folds, plan.wrongly, parts | others)
    kinds = [kind for kind in KINDS if plan.kind in (None, kind.name)]
    chosen, scores, losses = best_kind(sample, kinds, plan.folds, held.scores[: len(own)] if held else None)
    thresholds = _thresholds(scores, sample, plan)
    judged = _Judged(sample, held.scores if held else None, held.mapping.abstain_below if held else 0.0, thresholds)
    return fit(sample, chosen).model_copy(
        update={
            "id": plan.name,
            "event": EVENT,
            "thresholds": thresholds,
            "answerable": held.mapping if held else None,
            "fitted_on": _fitted_on(wide, plan),
            "figures": measure.rounded(
                {
                    "log_loss_by_candidate": losses,
                    "chosen": chosen.name,
                    **_figures(judged, scores, parts),
                    "left_out_set": _left_out(judged, chosen, held, wide),
                }
            ),
        }
    )


@dataclass(frozen=True)
class _Judged:
    """What the labels of a sample depend on beside the scores."""

    sample: Sample
    holding: Scores | None
    abstain_below: float
    thresholds: Thresholds


def _thresholds(scores: Scores, sample: Sample, plan: Plan) -> Thresholds:
    high = threshold(scores, sample.outcomes, plan.high)
    medium = threshold(scores, sample.outcomes, plan.medium, below=high)
    return Thresholds(medium=medium, high=high, precisions={"medium": plan.medium, "high": plan.high})


def _fitted_on(sample: Sample, plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "questions": len(sample.examples),
        "folds": plan.folds,
        "balance": plan.balance,
        "sets": counts(sample.examples),
    }
    return found | ({"date": plan.date} if plan.date else {})


def _parts(sample: Sample, plan: Plan) -> dict[str, NDArray[np.intp]]:
    """Return the places of all questions, and of those of each set and fold."""
    names = np.array([example.origin for example in sample.examples])
    parts = {"all": np.arange(len(names))}
    parts |= {f"set {name}": np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    return parts | {f"fold {at}": unseen for at, (_, unseen) in enumerate(sample.folds(plan.folds), 1)}


def _figures(judged: _Judged, after: Scores, parts: Mapping[str, NDArray[np.intp]]) -> dict[str, Any]:
    """Return figures before and after: of all questions, by set and by fold; with the reliability diagrams."""
    sample, plain = judged.sample, identity()
    before = apply(plain, sample)
    plainly = _Judged(sample, None, 0.0, plain.thresholds)
    return {
        "parts": {
            name: {"before": _part(plainly, before, places), "after": _part(judged, after, places)}
            for name, places in parts.items()
        },
        "reliability": {
            "before": measure.reliability(before, sample.outcomes),
            "after": measure.reliability(after, sample.outcomes),
        },
    }


def _part(judged: _Judged, scores: Scores, places: NDArray[np.intp]) -> dict[str, Any]:
    part, holding = judged.sample.part(places), judged.holding
    answerable = np.array([example.answerable for example in part.examples], dtype=bool)
    nothing = np.zeros(len(places), dtype=bool) if holding is None else holding[places] < judged.abstain_below
    labels = labels_of(part, scores[places], judged.thresholds, nothing)
    return measure.figures(scores[places], part.outcomes, answerable, labels)


def labels_of(sample: Sample, scores: Scores, thresholds: Thresholds, abstained: Outcomes) -> list[str]:
    """Return the labels that the scores get: low with weak relevance, and where memory is taken to hold no answer."""
    settings, edges = Settings.model_construct(**_DEFAULTS), (thresholds.medium, thresholds.high)
    return [
        compute_confidence(
            float(score), {name: example.values[name] for name in WEIGHTS}, settings, edges, abstains=bool(none)
        ).value
        for score, example, none in zip(scores, sample.examples, abstained, strict=True)
    ]


# Labels are those of the defaults: what the environment of whoever fits says is none of the file's business.
_DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}


def _left_out(judged: _Judged, kind: Kind, held: Held | None, wide: Sample) -> dict[str, Any]:
    """Return the figures of each set under a mapping that was fitted on the collections of the others only."""
    found: dict[str, Any] = {}
    for name, others, own in judged.sample.without_each_set():
        if not others.tells:
            continue
        scores, holding = apply(fit(others, kind), own), None
        groups = {example.group for example in own.examples}
        unseen = replace(wide, examples=[example for example in wide.examples if example.group not in groups])
        if held and unseen.tells:
            holding = apply(fit(unseen, held.kind), own)
            scores = np.minimum(scores, holding)
        places = np.arange(len(scores))
        found[name] = _part(replace(judged, sample=own, holding=holding), scores, places)
    return found
