"""Confidence from retrieval signals (CONF-1 to CONF-3); deterministic, and monotone in each component.

raw_score = 0.35 relevance + 0.20 evidence + 0.25 novelty_coverage + 0.20 reliability. `confidence_mapping` turns it
into the score (CONF-4); under the mapping `identity-1` the score is the raw score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.run.state_entries import ToolCallEntry
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel

COMPONENT_WEIGHTS: Mapping[str, float] = {
    "relevance": 0.35,
    "evidence": 0.20,
    "novelty_coverage": 0.25,
    "reliability": 0.20,
}
RAW_SCORE = "raw_score"
IDENTITY_CALIBRATION_ID = "identity-1"
DEFAULT_THRESHOLDS = (0.5, 0.75)
TOP_FACTS = 3
COMPONENT_DEPTH = 10
_ENOUGH_SOURCES = 3.0
FULL_LEAD = 0.4
_DIGITS = 6


@dataclass(frozen=True)
class ConfidenceInputs:
    """The measurements of a run from which confidence is computed.

    Attributes:
        ranked: the returned facts, best first; only relevant ones count for evidence and novelty.
        coverage: supported share of the request, in [0,1].
        best_single: share that the best single record supports, in [0,1].
        calls: all search calls.
        least_similarity: similarity from which a fact is relevant, in [0,1].
    """

    ranked: Sequence[RankedEntry]
    coverage: float
    best_single: float
    calls: Sequence[ToolCallEntry]
    least_similarity: float


def confidence_components(inputs: ConfidenceInputs) -> dict[str, float]:
    """Return the four components, each in [0,1]; all 0 without facts."""
    if not inputs.ranked:
        return dict.fromkeys(COMPONENT_WEIGHTS, 0.0)
    relevant = [item for item in inputs.ranked if item.entry["similarity"] >= inputs.least_similarity]
    relevant = relevant[:COMPONENT_DEPTH]
    components = {
        "relevance": _relevance([item.entry["similarity"] for item in inputs.ranked[:COMPONENT_DEPTH]]),
        "evidence": _evidence(relevant),
        "novelty_coverage": 0.5 * inputs.best_single + 0.3 * inputs.coverage + 0.2 * _saturate(len(relevant), 5.0),
        "reliability": _reliability(relevant, inputs.calls),
    }
    return {name: round(min(max(value, 0.0), 1.0), _DIGITS) for name, value in components.items()}


def _mean(values: Sequence[float]) -> float:
    # Not fmean: its last bit differs, and scores compare across versions.
    return sum(values) / len(values) if values else 0.0


def _relevance(similarities: Sequence[float]) -> float:
    """Combine the mean similarity of the best three with the lead of the first over the mean of the rest.

    A store always has something nearest; a real answer stands out from what merely resembles the request. The rest is
    always of nine: in a memory of two records the second alone is no crowd to stand out from (LIVE-3).
    """
    lead = similarities[0] - sum(similarities[1:]) / (COMPONENT_DEPTH - 1)
    return 0.5 * _mean(similarities[:TOP_FACTS]) + 0.5 * min(max(lead, 0.0) / FULL_LEAD, 1.0)


def _saturate(count: float, scale: float) -> float:
    return 1.0 - math.exp(-count / scale)


def _evidence(relevant: Sequence[RankedEntry]) -> float:
    """Combine the number of sources of all relevant facts with the number of each."""
    if not relevant:
        return 0.0
    sources = {key for item in relevant for key in item.entry["evidence_keys"]}
    each = _mean([min(len(item.entry["evidence_keys"]) / _ENOUGH_SOURCES, 1.0) for item in relevant])
    return 0.6 * _saturate(len(sources), _ENOUGH_SOURCES) + 0.4 * each


def _reliability(relevant: Sequence[RankedEntry], calls: Sequence[ToolCallEntry]) -> float:
    """Combine the share of attempts that succeeded, the agreement of queries on the best facts, and few rounds."""
    attempts = sum(call["attempts"] for call in calls)
    clean = sum(1 for call in calls if call["success"]) / attempts if attempts else 0.0
    agreement = _mean([_saturate(len(item.entry["matches"]), 2.0) for item in relevant[:TOP_FACTS]])
    return 0.3 * clean + 0.3 * agreement + 0.4 / math.sqrt(max(len(calls), 1))


def compute_confidence_score(parts: Mapping[str, float]) -> float:
    """Return the weighted sum of the components, in [0,1].

    Raises:
        InvalidInputError: a component is missing, unknown, or not a number in [0,1].
    """
    if set(parts) != set(COMPONENT_WEIGHTS):
        raise InvalidInputError("components", sorted(parts), f"exactly {', '.join(COMPONENT_WEIGHTS)}")
    for name, value in parts.items():
        if not 0.0 <= value <= 1.0:
            raise InvalidInputError(f"components.{name}", value, "a number from 0 to 1")
    return round(min(sum(COMPONENT_WEIGHTS[name] * value for name, value in parts.items()), 1.0), _DIGITS)


def compute_confidence(
    score: float,
    parts: Mapping[str, float],
    settings: Settings,
    thresholds: tuple[float, float] = DEFAULT_THRESHOLDS,
    *,
    abstains: bool = False,
) -> ConfidenceLabel:
    """Map a score to its label; weak relevance caps it at low, however well the tools ran (CONF-3).

    Args:
        score: the score, in [0,1].
        parts: the four components, each in [0,1].
        settings: holds the least relevance, and thresholds that override the mapping's.
        thresholds: the mapping's scores for medium and high, in [0,1].
        abstains: memory probably holds no answer, see `should_abstain`; the label is low.
    """
    medium, high = _thresholds(settings, thresholds)
    if abstains or parts["relevance"] < settings.conf_min_relevance or score < medium:
        return ConfidenceLabel.LOW
    return ConfidenceLabel.HIGH if score >= high else ConfidenceLabel.MEDIUM


def should_abstain(answerable: float | None, settings: Settings, threshold: float | None) -> bool:
    """Tell whether memory probably holds no answer: the probability `answerable` in [0,1] is below the threshold.

    `threshold` is the mapping's; the setting `conf_answerable` overrides it. False if the mapping gives no probability.
    """
    least = threshold if settings.conf_answerable is None else settings.conf_answerable
    return answerable is not None and least is not None and answerable < least


def _thresholds(settings: Settings, thresholds: tuple[float, float]) -> tuple[float, float]:
    """Return the effective thresholds; if one is set, the mapping's other one gives way to it."""
    medium, high = settings.conf_medium, settings.conf_high
    if medium is None:
        medium = thresholds[0] if high is None else min(thresholds[0], high)
    return medium, max(thresholds[1], medium) if high is None else high
