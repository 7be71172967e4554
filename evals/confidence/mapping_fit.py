"""Fit the mapping from a run's measurements to a probability, chosen by cross-validation over conversations (CONF-4).

Candidates for the score, from plain to rich: an isotonic curve over the raw score; a logistic regression on the
components, on components and signals, and on these with products of signals; and each regression with an isotonic curve
behind it. Whether memory holds an answer is fitted on few signals, each of which may only raise it: what sets apart the
unanswerable questions of one collection (how they are worded, how many names they have) isn't so elsewhere. The
plainest is taken whose mean log loss out of fold is within 0.001 of the least. scikit-learn and scipy come with the
extra `eval`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.confidence.calibration_examples import CalibrationExample
from recall_loop.evals.measures.quality_metrics import Outcomes, Scores
from recall_loop.policy.confidence.confidence_mapping import (
    MAX_DEVIATION,
    MONOTONE_FEATURES,
    Calibration,
    FeatureWeight,
    LabelThresholds,
)
from recall_loop.policy.confidence.confidence_score import COMPONENT_WEIGHTS, RAW_SCORE
from recall_loop.policy.confidence.confidence_signals import SIGNALS, SPEAKER_NAMED
from recall_loop.state.errors import InvalidInputError

_SINGLE_PENALTY, _PAIR_PENALTY = 0.002, 1.0
_POINTS = 40
_LEAST_SHARE = 1e-4
_INNER_FOLDS = 5
_LEAST_SCALE = 1e-3
_MIN_IMPROVEMENT = 0.001  # minimum gain in log loss for a richer mapping
Matrix = NDArray[np.float64]
_UNSET = LabelThresholds(medium=0.5, high=0.75)


@dataclass(frozen=True)
class ModelSpec:
    """One way to fit: features of the regression, whether their products count, and whether a curve follows.

    `monotone` are the features that may not lower the result.
    """

    name: str
    features: tuple[str, ...] = ()
    products: bool = False
    curve: bool = False
    monotone: frozenset[str] = MONOTONE_FEATURES

    @property
    def method(self) -> str:
        """The name that a calibration file gives it."""
        return "isotonic" if not self.features else "logistic+isotonic" if self.curve else "logistic"


_COMPONENTS = tuple(COMPONENT_WEIGHTS)
_BREADTH = ("asks_list", "question_length", "question_tells")
# SPEAKER_NAMED chooses the mapping. If a speaker is named, who said it matters, but how much is asked for doesn't.
_ALL = (*COMPONENT_WEIGHTS, *(name for name in SIGNALS if name not in (SPEAKER_NAMED, *_BREADTH)))
_ALIGNED = ("aligned_cosine", "aligned_tokens", "aligned_least", "aligned_share", "aligned_answer")
_READ = ("read_first", "read_best")
# Other signals mislead on unseen kinds of memory: with these, entire held-out kinds are judged best.
_EVIDENCE = (*_COMPONENTS, *_ALIGNED, *_READ, "told_share", "told_alike", "top_over_tail", "largest_step")
_GENERAL = (*_EVIDENCE, *_BREADTH)
_LOGISTIC_MODELS = (
    ModelSpec("logistic, components", _COMPONENTS),
    ModelSpec(
        "logistic, components, what matches and answers the question, and breadth",
        _GENERAL,
        monotone=frozenset(_EVIDENCE),
    ),
    ModelSpec("logistic, components and signals", _ALL),
    ModelSpec("logistic, components, signals and products", _ALL, products=True),
)
SCORE_MODELS = (
    ModelSpec("isotonic, raw score", curve=True),
    *_LOGISTIC_MODELS,
    *(replace(kind, name=f"{kind.name}; isotonic", curve=True) for kind in _LOGISTIC_MODELS),
)
_ATTRIBUTION_FEATURES = (*COMPONENT_WEIGHTS, "named_told", "told_share", "named_alike", "told_alike")
_ALIGNED_FEATURES = (*_ATTRIBUTION_FEATURES, *_ALIGNED, *_READ)
_NAMED_FEATURES = (*_ATTRIBUTION_FEATURES, "named_first", "named_lead", "named_own", "named_vote")
# Components indicate questions without an answer in memory; the others, whether it was said about the right person.
ANSWERABLE_MODELS = (
    ModelSpec(
        "logistic, components, what the named tell, how well the best fact's words match, and what answers",
        _ALIGNED_FEATURES,
        monotone=frozenset(_ALIGNED_FEATURES),
    ),
    ModelSpec(
        "logistic, components and what the named tell", _ATTRIBUTION_FEATURES, monotone=frozenset(_ATTRIBUTION_FEATURES)
    ),
    ModelSpec(
        "logistic, components, what the named tell, and what comes from them",
        _NAMED_FEATURES,
        monotone=frozenset(_NAMED_FEATURES),
    ),
)


@dataclass(frozen=True)
class CalibrationSample:
    """Examples as arrays; `weights` have mean 1, `event` is the outcome whose probability is fitted."""

    examples: Sequence[CalibrationExample]
    balance: float = 0.5
    event: Literal["complete", "answerable"] = "complete"

    @cached_property
    def outcomes(self) -> Outcomes:
        """Whether the event came about."""
        return np.array([getattr(example, self.event) for example in self.examples], dtype=bool)

    @cached_property
    def weights(self) -> Matrix:
        """The weight of each question: 1 / size of its set to the power of `balance`, so that no set rules."""
        names = [example.origin for example in self.examples]
        raw = np.array([names.count(name) ** -self.balance for name in names])
        return np.asarray(raw / raw.mean(), dtype=np.float64)

    def column(self, name: str) -> Matrix:
        """Return one figure of all examples."""
        return np.array([example.values[name] for example in self.examples], dtype=np.float64)

    def subset(self, chosen: NDArray[np.intp]) -> CalibrationSample:
        """Return the examples at the given places."""
        return replace(self, examples=[self.examples[at] for at in chosen])

    def folds(self, most: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return pairs of index arrays to fit and to measure on; no group is in both, and one alone is refused."""
        from sklearn.model_selection import GroupKFold

        groups = [example.group for example in self.examples]
        count = min(most, len(set(groups)))
        if count < 2:
            raise InvalidInputError("examples", f"{len(set(groups))} collections", "questions of 2 collections or more")
        return list(GroupKFold(n_splits=count).split(np.zeros(len(groups)), groups=groups))

    def leave_one_set_out(self) -> Iterator[tuple[str, CalibrationSample, CalibrationSample]]:
        """Yield each set by name: the examples of all collections that it doesn't have, and its own."""
        for name in dict.fromkeys(example.origin for example in self.examples):
            own = [example for example in self.examples if example.origin == name]
            groups = {example.group for example in own}
            others = [example for example in self.examples if example.group not in groups]
            yield name, replace(self, examples=others), replace(self, examples=own)

    @property
    def has_both_outcomes(self) -> bool:
        """Whether the event came about in some of the examples, and not in others."""
        return bool(self.outcomes.any()) and not bool(self.outcomes.all())


def fit_mapping(sample: CalibrationSample, kind: ModelSpec) -> Calibration:
    """Return the mapping fitted on a sample; its thresholds are still to be set.

    Where the event always or never occurred, there is nothing to fit, which raises `InvalidInputError`.
    """
    if not sample.has_both_outcomes:
        raise InvalidInputError(
            "examples", f"{len(sample.examples)} with one outcome", f"both {sample.event} ones and others"
        )
    plain = _regression(sample, kind) if kind.features else _unfitted(kind)
    if not kind.curve:
        return plain
    # The curve must be fitted on data that the regression before it hasn't seen.
    before = (
        sample.column(RAW_SCORE)
        if not kind.features
        else out_of_fold_scores(sample, replace(kind, curve=False), _INNER_FOLDS)
    )
    return plain.model_copy(update={"curve": _curve(before, sample)})


def out_of_fold_scores(sample: CalibrationSample, kind: ModelSpec, folds: int) -> Scores:
    """Return each example's score by a mapping that was fitted without its group."""
    scores = np.zeros(len(sample.examples))
    for seen, unseen in sample.folds(folds):
        scores[unseen] = apply_mapping(fit_mapping(sample.subset(seen), kind), sample.subset(unseen))
    return scores


def select_model(
    sample: CalibrationSample, kinds: Sequence[ModelSpec], folds: int, most: Scores | None = None
) -> tuple[ModelSpec, Scores, dict[str, float]]:
    """Return the plainest of the kinds that do nearly best out of fold, its scores there, and all their log losses.

    `most` are the largest scores that there may be.
    """
    tried = {kind: out_of_fold_scores(sample, kind, folds) for kind in kinds}
    if most is not None:
        tried = {kind: np.minimum(scores, most) for kind, scores in tried.items()}
    losses = {kind.name: log_loss(scores, sample) for kind, scores in tried.items()}
    chosen = next(kind for kind in kinds if losses[kind.name] <= min(losses.values()) + _MIN_IMPROVEMENT)
    return chosen, tried[chosen], losses


def apply_mapping(mapping: Calibration, sample: CalibrationSample) -> Scores:
    """Return the scores that a mapping gives, each in [0,1]."""
    return np.array([mapping.score(example.values) for example in sample.examples], dtype=np.float64)


def log_loss(scores: Scores, sample: CalibrationSample) -> float:
    """Return the weighted mean log loss; 0 is best."""
    kept = np.clip(scores, _LEAST_SHARE, 1 - _LEAST_SHARE)
    losses = np.where(sample.outcomes, -np.log(kept), -np.log(1 - kept))
    return float(np.average(losses, weights=sample.weights))


def precision_threshold(scores: Scores, outcomes: Outcomes, precision: float, below: float = 1.01) -> float:
    """Return the least score from which on, up to `below`, the event came about in at least this share of results.

    `below` itself, at most 1.0, if there is none.
    """
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] < below]
    shares = np.cumsum(outcomes[order]) / np.arange(1, len(order) + 1)
    ends = np.append(scores[order][1:] != scores[order][:-1], True)[: len(order)]  # equal scores get the same label
    good = np.flatnonzero((shares >= precision) & ends)
    return float(np.floor(scores[order][good[-1]] * 1e4) / 1e4) if len(good) else min(below, 1.0)


def _unfitted(kind: ModelSpec) -> Calibration:
    return Calibration.model_validate({"id": "unnamed", "method": kind.method, "thresholds": _UNSET.model_dump()})


def _regression(sample: CalibrationSample, kind: ModelSpec) -> Calibration:
    """Fit a penalised logistic regression; components may only raise the result (CONF-3)."""
    columns = {name: sample.column(name) for name in kind.features}
    means = {name: float(np.average(values, weights=sample.weights)) for name, values in columns.items()}
    scales = {name: max(float(values.std()), _LEAST_SCALE) for name, values in columns.items()}
    standard = {
        name: np.clip((values - means[name]) / scales[name], -MAX_DEVIATION, MAX_DEVIATION)
        for name, values in columns.items()
    }
    pairs = _pairs(columns) if kind.products else []
    products = [np.clip(standard[one] * standard[other], -MAX_DEVIATION, MAX_DEVIATION) for one, other in pairs]
    weights = _solve(
        np.stack([*standard.values(), *products], axis=1),
        sample,
        np.array([_SINGLE_PENALTY] * len(standard) + [_PAIR_PENALTY] * len(products)),
        [name in kind.monotone for name in standard] + [False] * len(products),
    )
    single, paired = weights[: len(standard)], weights[len(standard) : -1]
    features: dict[str, Any] = {
        name: FeatureWeight(mean=round(means[name], 6), scale=round(scales[name], 6), weight=round(float(weight), 6))
        for name, weight in zip(columns, single, strict=True)
    }
    named = {f"{one}*{other}": round(float(weight), 6) for (one, other), weight in zip(pairs, paired, strict=True)}
    return _unfitted(kind).model_copy(
        update={"intercept": round(float(weights[-1]), 6), "features": features, "products": named}
    )


def _pairs(columns: dict[str, Matrix]) -> list[tuple[str, str]]:
    """Return pairs of signals; a yes-or-no signal with itself says nothing new."""
    pairs = combinations_with_replacement([name for name in columns if name in SIGNALS], 2)
    return [(one, other) for one, other in pairs if one != other or len(np.unique(columns[one])) > 2]


def _solve(matrix: Matrix, sample: CalibrationSample, penalties: Matrix, rising: Sequence[bool]) -> Matrix:
    """Return the weights, intercept last, that minimise weighted log loss and penalty."""
    from scipy.optimize import minimize

    signs, shares = np.where(sample.outcomes, 1.0, -1.0), sample.weights / sample.weights.sum()

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        margins = signs * (matrix @ weights[:-1] + weights[-1])
        pull = -shares * signs / (1.0 + np.exp(np.clip(margins, -500, 500)))
        value = float(shares @ np.logaddexp(0.0, -margins) + 0.5 * penalties @ weights[:-1] ** 2)
        return value, np.append(matrix.T @ pull + penalties * weights[:-1], pull.sum())

    bounds = [(0.0 if rises else None, None) for rises in rising] + [(None, None)]
    start = np.zeros(matrix.shape[1] + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    return np.asarray(found.x, dtype=np.float64)


def _curve(before: Scores, sample: CalibrationSample) -> tuple[tuple[float, float], ...]:
    """Return at most some dozen points of the isotonic curve."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(before, sample.outcomes.astype(float), sample_weight=sample.weights)
    places = np.unique(np.round(np.quantile(before, np.linspace(0.0, 1.0, _POINTS)), 6))
    heights = np.maximum.accumulate(np.round(model.predict(places), 6))
    return tuple((float(place), float(height)) for place, height in zip(places, heights, strict=True))
