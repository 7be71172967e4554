"""Choose, fit and measure a mapping, and make the versioned file of it (CONF-4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals import calibration as measure
from recall_loop.evals.calibration import Scores
from recall_loop.evals.examples import Example, counts
from recall_loop.evals.fitting import KINDS, Kind, Sample, apply, fit, log_loss, out_of_fold, threshold
from recall_loop.policy.calibration import Calibration, Thresholds, identity
from recall_loop.policy.confidence import WEIGHTS, compute_confidence
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings import Settings

EVENT = "all gold evidence is among the first ten ids; never where the memory holds no answer"
_WORTH = 0.001  # what a richer mapping must gain in log loss to be taken


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
        kind: the candidate to take, by name; None = the best one.
    """

    name: str
    date: str | None = None
    folds: int = 6
    balance: float = 0.5
    high: float = 0.85
    medium: float = 0.6
    kind: str | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range with `InvalidInputError`."""
        if self.folds < 2:
            raise InvalidInputError("folds", self.folds, "a whole number of 2 or more")
        for name in ("balance", "high", "medium"):
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
    sample = Sample(examples, plan.balance)
    kinds = [kind for kind in KINDS if plan.kind in (None, kind.name)]
    tried = {kind: out_of_fold(sample, kind, plan.folds) for kind in kinds}
    losses = {kind.name: log_loss(scores, sample) for kind, scores in tried.items()}
    chosen = next(kind for kind in kinds if losses[kind.name] <= min(losses.values()) + _WORTH)
    scores = tried[chosen]
    thresholds = _thresholds(scores, sample, plan)
    return fit(sample, chosen).model_copy(
        update={
            "id": plan.name,
            "event": EVENT,
            "thresholds": thresholds,
            "fitted_on": _fitted_on(sample, plan),
            "figures": measure.rounded(
                {
                    "log_loss_by_candidate": losses,
                    "chosen": chosen.name,
                    **_figures(sample, scores, thresholds, plan),
                    "left_out_set": _left_out(sample, chosen, thresholds),
                }
            ),
        }
    )


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


def _figures(sample: Sample, after: Scores, thresholds: Thresholds, plan: Plan) -> dict[str, Any]:
    """Return figures before and after: of all questions, by set and by fold; with the reliability diagrams."""
    plain = identity()
    before = apply(plain, sample)
    names = np.array([example.origin for example in sample.examples])
    everything = np.arange(len(names))
    parts = {"all": everything}
    parts |= {f"set {name}": np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    parts |= {f"fold {at}": unseen for at, (_, unseen) in enumerate(sample.folds(plan.folds), 1)}
    return {
        "parts": {
            name: {
                "before": _part(sample, before, plain.thresholds, places),
                "after": _part(sample, after, thresholds, places),
            }
            for name, places in parts.items()
        },
        "reliability": {
            "before": measure.reliability(before, sample.outcomes),
            "after": measure.reliability(after, sample.outcomes),
        },
    }


def _part(sample: Sample, scores: Scores, thresholds: Thresholds, places: NDArray[np.intp]) -> dict[str, Any]:
    part = sample.part(places)
    answerable = np.array([example.answerable for example in part.examples], dtype=bool)
    return measure.figures(scores[places], part.outcomes, answerable, labels_of(part, scores[places], thresholds))


def labels_of(sample: Sample, scores: Scores, thresholds: Thresholds) -> list[str]:
    """Return the labels that the scores get, weak relevance capped (CONF-3)."""
    settings, edges = Settings.model_construct(**_DEFAULTS), (thresholds.medium, thresholds.high)
    return [
        compute_confidence(float(score), {name: example.values[name] for name in WEIGHTS}, settings, edges).value
        for score, example in zip(scores, sample.examples, strict=True)
    ]


# Labels are those of the defaults: what the environment of whoever fits says is none of the file's business.
_DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}


def _left_out(sample: Sample, kind: Kind, thresholds: Thresholds) -> dict[str, Any]:
    """Return the figures of each set under a mapping that was fitted on the collections of the others only."""
    names = np.array([example.origin for example in sample.examples])
    found: dict[str, Any] = {}
    for name in dict.fromkeys(names.tolist()):
        unseen = np.flatnonzero(names == name)
        groups = {example.group for example in sample.examples if example.origin == name}
        seen = np.flatnonzero([example.group not in groups for example in sample.examples])
        if len(set(sample.outcomes[seen].tolist())) < 2:
            continue
        scores = np.zeros(len(names))
        scores[unseen] = apply(fit(sample.part(seen), kind), sample.part(unseen))
        found[name] = _part(sample, scores, thresholds, unseen)
    return found
