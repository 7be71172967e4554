"""The mapping from the measurements of a run to probabilities (CONF-4): its schema, checks and application.

A mapping is a small JSON object:

- `intercept`, and for every feature its `mean`, `scale` and `weight`: the weighted sum of standardised values, each
  clipped at ±4, goes through the logistic function. Features are the raw score, the four components and the signals
  of `confidence_signals`;
- `products` (optional): weights of products of two signals' standardised values (`one*other`), clipped at ±4;
- `curve` (optional): points of a rising line that maps the result, or without features the raw score;
- `thresholds`: the scores from which a result is `medium` and `high`;
- `answerable` (optional): a second mapping of the same kind, for the probability that memory holds an answer at all.
  Without an answer not all of the evidence can be found, so the score is never above it;
- `attributed` (optional): a whole mapping of its own for questions that name a speaker of the messages that were found.

The raw score and the components have no negative weight and the curves never fall, so both rise with each of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recall_loop.policy.confidence.confidence_score import (
    COMPONENT_WEIGHTS,
    DEFAULT_THRESHOLDS,
    IDENTITY_CALIBRATION_ID,
    RAW_SCORE,
)
from recall_loop.policy.confidence.confidence_signals import SIGNALS, SPEAKER_NAMED
from recall_loop.state.types import UnitFloat

CALIBRATION_FEATURES = frozenset({RAW_SCORE, *COMPONENT_WEIGHTS, *SIGNALS})
MONOTONE_FEATURES = frozenset({RAW_SCORE, *COMPONENT_WEIGHTS})
_DIGITS = 6
MAX_DEVIATION = 4.0
_Finite = Annotated[float, Field(allow_inf_nan=False)]
CalibrationMethod = Literal["identity", "isotonic", "logistic", "logistic+isotonic"]


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FeatureWeight(_FrozenModel):
    """How one feature counts: weight × (value − mean) / scale."""

    mean: _Finite
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight: _Finite


class LabelThresholds(_FrozenModel):
    """Scores in [0,1] from which a label holds; `precisions` has the precision that each was fitted for."""

    medium: UnitFloat
    high: UnitFloat
    precisions: dict[str, UnitFloat] = Field(default_factory=dict)


class _Regression(_FrozenModel):
    """A logistic regression, followed by an optional curve."""

    intercept: _Finite = 0.0
    features: dict[str, FeatureWeight] = Field(default_factory=dict)
    products: dict[str, _Finite] = Field(default_factory=dict, description="Weights of pairs of signals.")
    curve: tuple[tuple[UnitFloat, UnitFloat], ...] = Field((), description="Points (before, after), both ascending.")

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        unknown = sorted(set(self.features) - CALIBRATION_FEATURES)
        if unknown:
            raise ValueError(f"features that this version can't compute: {', '.join(unknown)}")
        if any(not _is_pair(name, self.features) for name in self.products):
            raise ValueError("products of two signals that are features too")
        if any(self.features[name].weight < 0 for name in MONOTONE_FEATURES & set(self.features)):
            raise ValueError("the raw score and the components with weights of 0 or more")
        if not _is_monotone([before for before, _ in self.curve]) or not _is_monotone(
            [after for _, after in self.curve]
        ):
            raise ValueError("a curve whose points rise")
        return self

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the probability in [0,1]; `values` holds the raw score, the components and the signals."""
        value = self._regress(values) if self.features else values[RAW_SCORE]
        return round(_interpolate(self.curve, value), _DIGITS)

    @cached_property
    def _pairs(self) -> list[tuple[str, str, float]]:
        split = ((name.partition("*"), weight) for name, weight in self.products.items())
        return [(one, other, weight) for (one, _, other), weight in split]

    def _regress(self, values: Mapping[str, float]) -> float:
        features = self.features.items()
        standard = {name: _clip((values[name] - feature.mean) / feature.scale) for name, feature in features}
        single = math.fsum(feature.weight * standard[name] for name, feature in features)
        paired = math.fsum(weight * _clip(standard[one] * standard[other]) for one, other, weight in self._pairs)
        return _logistic(self.intercept + single + paired)


class AnswerabilityModel(_Regression):
    """The mapping to the probability that memory holds an answer at all, and the threshold below which to abstain."""

    method: CalibrationMethod
    event: str = Field("", description="The event whose probability it is.")
    abstain_below: UnitFloat = Field(description="Below this the label is low: memory probably holds no answer.")
    wrongly: UnitFloat | None = Field(None, description="Share of answerable questions allowed below it.")
    figures: dict[str, Any] = Field(default_factory=dict, description="Measured out of fold.")


class Calibration(_Regression):
    """A fitted mapping, with its thresholds and the data it was fitted on."""

    version: Literal[1] = 1
    id: str = Field(min_length=1, max_length=100)
    method: CalibrationMethod
    event: str = Field("", description="The event whose probability the score is.")
    thresholds: LabelThresholds
    answerable: AnswerabilityModel | None = Field(
        None, description="For the probability that memory holds an answer at all."
    )
    attributed: Calibration | None = Field(
        None, description="Another mapping, for questions that name a speaker of the messages that were found."
    )
    fitted_on: dict[str, Any] = Field(default_factory=dict, description="Sets, counts, date.")
    figures: dict[str, Any] = Field(default_factory=dict, description="Measured out of fold, before and after.")

    def for_values(self, values: Mapping[str, float]) -> Calibration:
        """Return the mapping that applies: whether the named one said it matters where speakers are named only."""
        return self.attributed if self.attributed and values[SPEAKER_NAMED] > 0.0 else self

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.thresholds.medium > self.thresholds.high:
            raise ValueError("thresholds with medium at most high")
        return self

    def score(self, values: Mapping[str, float]) -> float:
        """Return the calibrated score in [0,1], at most `answer_probability`; `values` as in `probability`."""
        score, answerable = self.probability(values), self.answer_probability(values)
        return score if answerable is None else min(score, answerable)

    def answer_probability(self, values: Mapping[str, float]) -> float | None:
        """Return the probability that memory holds an answer at all; None if the mapping has no model of it."""
        return self.answerable.probability(values) if self.answerable else None


def _clip(value: float) -> float:
    """Bound the influence of a value far outside the range that the mapping was fitted on."""
    return min(max(value, -MAX_DEVIATION), MAX_DEVIATION)


def _is_pair(name: str, features: Mapping[str, FeatureWeight]) -> bool:
    signals = name.split("*")
    return len(signals) == 2 and all(signal in SIGNALS and signal in features for signal in signals)


def identity_calibration() -> Calibration:
    """Return the mapping that leaves the raw score as it is."""
    medium, high = DEFAULT_THRESHOLDS
    return Calibration(
        id=IDENTITY_CALIBRATION_ID, method="identity", thresholds=LabelThresholds(medium=medium, high=high)
    )


def _logistic(value: float) -> float:
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-min(value, 700.0)))
    power = math.exp(max(value, -700.0))
    return power / (1.0 + power)


def _interpolate(curve: Sequence[tuple[float, float]], value: float) -> float:
    """Interpolate linearly between the points of `curve`; constant before the first and after the last."""
    if not curve:
        return value
    at = bisect_right([before for before, _ in curve], value)
    if at == 0 or at == len(curve):
        return curve[min(at, len(curve) - 1)][1]
    (left, low), (right, high) = curve[at - 1], curve[at]
    return low + (high - low) * (value - left) / (right - left)


def _is_monotone(values: Sequence[float]) -> bool:
    return all(one <= other for one, other in pairwise(values))
