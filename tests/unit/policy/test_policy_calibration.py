from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.nodes.runtime.resources import load_calibration
from recall_loop.policy.confidence.confidence_mapping import Calibration, identity_calibration
from recall_loop.policy.confidence.confidence_score import (
    COMPONENT_WEIGHTS,
    IDENTITY_CALIBRATION_ID,
    RAW_SCORE,
    compute_confidence,
    compute_confidence_score,
    should_abstain,
)
from recall_loop.policy.confidence.confidence_signals import SIGNALS, SPEAKER_NAMED
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel

SHIPPED = load_calibration(None)
DEFAULTS = Settings()
SMALL = {
    "id": "mine",
    "method": "logistic",
    "intercept": 0.0,
    "features": {
        "relevance": {"mean": 0.5, "scale": 0.5, "weight": 2.0},
        "names": {"mean": 0.0, "scale": 1.0, "weight": -1.0},
        "first_own": {"mean": 0.0, "scale": 1.0, "weight": 0.0},
    },
    "products": {"names*first_own": 1.0},
    "thresholds": {"medium": 0.4, "high": 0.8},
}

HOLDING = {
    "method": "logistic",
    "intercept": 1.0,
    "features": {"named_told": {"mean": 0.0, "scale": 0.25, "weight": 2.0}},
    "abstain_below": 0.6,
}


def values(**given):
    return {RAW_SCORE: 0.5, **dict.fromkeys(COMPONENT_WEIGHTS, 0.5), **dict.fromkeys(SIGNALS, 0.0), **given}


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_identity_leaves_the_raw_score():
    """Proves: CONF-1."""
    assert load_calibration("identity") == identity_calibration()
    assert identity_calibration().id == IDENTITY_CALIBRATION_ID
    assert [identity_calibration().score(values(raw_score=raw)) for raw in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]


def test_a_file_is_applied_as_it_says(tmp_path):
    """Proves: CONF-4 (worked out by hand: logistic of 2·(.75−.5)/.5 − .5 + .5·.5)."""
    mapping = load_calibration(write(tmp_path / "mine.json", SMALL))
    assert mapping.id == "mine"
    found = mapping.score(values(relevance=0.75, names=0.5, first_own=0.5))
    assert found == pytest.approx(1 / (1 + 2.718281828459045**-0.75), abs=1e-6)


def test_a_file_without_the_second_mapping_still_loads(tmp_path):
    """Proves: CONF-4 (files of earlier versions)."""
    mapping = load_calibration(write(tmp_path / "mine.json", SMALL))
    assert mapping.answerable is None
    assert mapping.answer_probability(values()) is None
    assert mapping.score(values(relevance=1.0)) == mapping.probability(values(relevance=1.0))
    assert identity_calibration().answer_probability(values()) is None


def test_the_score_is_at_most_the_chance_of_an_answer(tmp_path):
    """Proves: CONF-4 (worked out by hand: logistic of 1 + 2·x/.25; all evidence of no answer can't be found)."""
    mapping = load_calibration(write(tmp_path / "mine.json", SMALL | {"answerable": HOLDING}))
    for told, expected in ((0.0, 1 / (1 + 2.718281828459045**-1)), (-0.5, 1 / (1 + 2.718281828459045**3))):
        found = values(relevance=1.0, named_told=told)
        assert mapping.answer_probability(found) == pytest.approx(expected, abs=1e-6)
        assert mapping.score(found) == min(mapping.probability(found), mapping.answer_probability(found))
    assert mapping.score(values(relevance=1.0, named_told=-0.5)) < mapping.probability(values(relevance=1.0))


@pytest.mark.parametrize(
    ("given", "answerable", "threshold", "told"),
    [
        ({}, 0.5, 0.6, True),
        ({}, 0.6, 0.6, False),
        ({}, None, 0.6, False),
        ({}, 0.5, None, False),
        ({"conf_answerable": 0.4}, 0.5, 0.6, False),
        ({"conf_answerable": 0.7}, 0.65, 0.6, True),
    ],
)
def test_memory_that_holds_no_answer_is_low(given, answerable, threshold, told):
    """Proves: CONF-3."""
    chosen, full = Settings(**given), dict.fromkeys(COMPONENT_WEIGHTS, 1.0)
    assert should_abstain(answerable, chosen, threshold) is told
    label = compute_confidence(0.99, full, chosen, abstains=told)
    assert label is (ConfidenceLabel.LOW if told else ConfidenceLabel.HIGH)


def test_a_curve_is_a_line_between_its_points():
    """Proves: CONF-4."""
    thresholds = {"medium": 0.5, "high": 0.75}
    curve = {"id": "c", "method": "isotonic", "curve": [[0.2, 0.1], [0.4, 0.5]], "thresholds": thresholds}
    mapping = Calibration.model_validate(curve)
    scores = [mapping.score(values(raw_score=raw)) for raw in (0.0, 0.2, 0.3, 0.4, 1.0)]
    assert scores == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.5])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version"),
        ({"features": {"charm": {"mean": 0, "scale": 1, "weight": 1}}}, "charm"),
        ({"features": {"evidence": {"mean": 0, "scale": 1, "weight": -1}}, "products": {}}, "weights of 0 or more"),
        ({"features": {"evidence": {"mean": 0, "scale": 0, "weight": 1}}, "products": {}}, "scale"),
        ({"products": {"relevance*names": 1.0}}, "products of two signals"),
        ({"curve": [[0.1, 0.5], [0.2, 0.4]]}, "points rise"),
        ({"thresholds": {"medium": 0.9, "high": 0.8}}, "medium at most high"),
        ({"extra": 1}, "extra"),
        ({"answerable": HOLDING | {"abstain_below": 2}}, "abstain_below"),
        ({"answerable": HOLDING | {"features": {"charm": {"mean": 0, "scale": 1, "weight": 1}}}}, "charm"),
        (
            {"answerable": HOLDING | {"features": {"evidence": {"mean": 0, "scale": 1, "weight": -1}}}},
            "weights of 0 or more",
        ),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(tmp_path, change, told):
    """Proves: CONF-4."""
    with pytest.raises(InvalidInputError) as caught:
        load_calibration(write(tmp_path / "bad.json", SMALL | change))
    assert told in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_mapping_is_refused(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="calibration_file"):
        load_calibration(str(path))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InvalidInputError, match="calibration_file"):
        load_calibration(str(tmp_path / "none.json"))
    with pytest.raises(InvalidInputError, match="calibration_file"):
        load_calibration(str(tmp_path))


ATTRIBUTED = SHIPPED.attributed


def test_the_mapping_of_attributed_questions_says_what_it_was_fitted_on():
    """Proves: CONF-4 (versioned; with sets, counts, date, folds, and figures out of fold before and after)."""
    assert ATTRIBUTED.version == 1 and ATTRIBUTED.id.startswith("recall-loop-")
    assert ATTRIBUTED.fitted_on["date"] and len(ATTRIBUTED.fitted_on["sets"]) >= 4
    assert ATTRIBUTED.thresholds.precisions["high"] >= 0.85
    found = ATTRIBUTED.figures["parts"]["all"]
    assert found["after"]["auroc"] >= 0.8 > found["before"]["auroc"]
    assert found["after"]["ece"] <= 0.04 < found["before"]["ece"]
    assert found["after"]["brier"] <= 0.18 < found["before"]["brier"]
    high = found["after"]["labels"]["high"]
    assert high["precision"] >= 0.85 and high["coverage"] >= 0.25


def test_the_mapping_of_attributed_questions_tells_what_memory_cant_answer():
    """Proves: CONF-4 (out of fold: AUROC, calibration, and what abstaining costs)."""
    found = ATTRIBUTED.answerable.figures["parts"]
    assert found["all"]["auroc"] >= 0.8
    assert found["all"]["ece"] <= 0.04
    answerable = found["all"]["questions"] - found["all"]["unanswerable"]
    assert found["all"]["abstained"]["answerable"] <= ATTRIBUTED.answerable.wrongly * answerable
    assert found["all"]["abstained"]["unanswerable"] >= 0.4 * found["all"]["unanswerable"]
    assert found["foreign"]["abstained"]["unanswerable"] >= 0.9 * found["foreign"]["questions"]


def test_the_shipped_mapping_was_fitted_on_lives_of_every_size():
    """Proves: CONF-4, LIVE-3 (out of fold: whole lives held out)."""
    assert SHIPPED.fitted_on["date"]
    assert {f"lives among {size}" for size in (0, 20, 200, 2000)} <= set(SHIPPED.fitted_on["sets"])
    found = SHIPPED.figures["parts"]
    assert found["all"]["after"]["auroc"] >= 0.88 > found["all"]["before"]["auroc"]
    assert found["all"]["after"]["ece"] <= 0.05 < found["all"]["before"]["ece"]
    assert found["all"]["after"]["brier"] <= 0.18 < found["all"]["before"]["brier"]
    assert found["all"]["after"]["labels"]["high"]["precision"] >= 0.94
    sizes = [found[f"set lives among {size}"]["after"]["labels"]["high"] for size in (0, 20, 200, 2000)]
    assert all(size["precision"] >= 0.9 for size in sizes)
    assert max(size["coverage"] for size in sizes) - min(size["coverage"] for size in sizes) <= 0.1
    assert SHIPPED.answerable.figures["parts"]["all"]["auroc"] >= 0.8


def test_a_named_speaker_chooses_the_mapping():
    """Proves: CONF-4 (one who is named may have said it, or somebody else)."""
    assert SHIPPED.for_values({SPEAKER_NAMED: 1.0}) is ATTRIBUTED
    assert SHIPPED.for_values({SPEAKER_NAMED: 0.0}) is SHIPPED
    assert ATTRIBUTED.for_values({SPEAKER_NAMED: 1.0}) is ATTRIBUTED


UNIT = st.floats(0, 1)
PARTS = st.fixed_dictionaries(dict.fromkeys(COMPONENT_WEIGHTS, UNIT))
SIGNAL_VALUES = st.fixed_dictionaries(dict.fromkeys(SIGNALS, st.floats(-1, 1)))


@settings(max_examples=50, deadline=None)
@given(parts=PARTS, signals=SIGNAL_VALUES, higher=UNIT)
def test_the_shipped_score_is_bounded_and_rises_with_each_component(parts, signals, higher):
    """Proves: CONF-1, CONF-3."""

    def shipped(components):
        values = {RAW_SCORE: compute_confidence_score(components), **components, **signals}
        return SHIPPED.score(values), SHIPPED.answer_probability(values)

    low, before = shipped(parts)
    for name in COMPONENT_WEIGHTS:
        high, after = shipped(parts | {name: max(parts[name], higher)})
        assert 0.0 <= low <= high <= 1.0
        assert low <= before <= after <= 1.0 and high <= after
    edges = (SHIPPED.thresholds.medium, SHIPPED.thresholds.high)
    irrelevant = parts | {"relevance": 0.99 * DEFAULTS.conf_min_relevance * parts["relevance"]}
    assert compute_confidence(1.0, irrelevant, DEFAULTS, edges) is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({}, ["low", "medium", "high", "high"]),
        ({"conf_high": 0.9}, ["low", "medium", "medium", "high"]),
        ({"conf_high": 0.3}, ["low", "high", "high", "high"]),
        ({"conf_medium": 0.85}, ["low", "low", "low", "high"]),
        ({"conf_medium": 0.7, "conf_high": 0.95}, ["low", "low", "medium", "high"]),
    ],
)
def test_given_thresholds_stand_over_the_mappings_own(given, labels):
    """Proves: CONF-1."""
    full = dict.fromkeys(COMPONENT_WEIGHTS, 1.0)
    found = [compute_confidence(score, full, Settings(**given), (0.4, 0.7)) for score in (0.2, 0.5, 0.8, 0.96)]
    assert [label.value for label in found] == labels
