from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from recall_loop.cli.main import main
from recall_loop.evals.confidence import abstention
from recall_loop.evals.confidence.calibration_examples import CalibrationExample, read_examples
from recall_loop.evals.confidence.calibration_fit import CalibrationPlan, calibrate, high_threshold
from recall_loop.evals.confidence.calibration_report import bar, check_plot, draw_reliability
from recall_loop.evals.confidence.mapping_fit import (
    SCORE_MODELS,
    CalibrationSample,
    out_of_fold_scores,
    precision_threshold,
)
from recall_loop.evals.measures import quality_metrics as measure
from recall_loop.nodes.runtime.resources import load_calibration
from recall_loop.policy.confidence.confidence_mapping import identity_calibration
from recall_loop.policy.confidence.confidence_score import COMPONENT_WEIGHTS, RAW_SCORE, compute_confidence_score
from recall_loop.policy.confidence.confidence_signals import SIGNALS
from recall_loop.state.errors import InvalidInputError

pytestmark = pytest.mark.slow

SCORES = np.array([0.9, 0.8, 0.4, 0.1])
OUTCOMES = np.array([True, False, True, False])
PLAIN = "logistic, components"


def drawn(count=400, seed=0, origin="made", groups=8, wrong=0.0):
    """Invented examples whose outcome follows relevance and one signal; `wrong` of them are unanswerable.

    What the named tell lies higher where there is an answer.
    """
    draw = random.Random(seed)
    found = []
    for at in range(count):
        parts = {name: round(draw.random(), 6) for name in COMPONENT_WEIGHTS}
        signals = {name: round(draw.uniform(-1, 1), 6) for name in SIGNALS}
        answerable = draw.random() >= wrong
        if wrong:
            signals["named_told"] = round(min(max(draw.gauss(0.2 if answerable else -0.2, 0.25), -1.0), 1.0), 6)
        chance = 1 / (1 + 2.718 ** -(5 * parts["relevance"] - 2.5 + 2 * signals["named_own"]))
        values = {RAW_SCORE: compute_confidence_score(parts), **parts, **signals}
        found.append(
            CalibrationExample(
                origin, f"c{at % groups}", f"q{at}", values, answerable, answerable and draw.random() < chance
            )
        )
    return found


# Measures


def test_brier_is_the_mean_squared_distance():
    """Proves: CONF-4 (worked out by hand)."""
    assert measure.brier(SCORES, OUTCOMES) == pytest.approx((0.01 + 0.64 + 0.36 + 0.01) / 4)


def test_auroc_counts_pairs_in_order():
    """Proves: CONF-4 (3 of 4 pairs of a true and a false outcome are in order)."""
    assert measure.auroc(SCORES, OUTCOMES) == pytest.approx(0.75)
    assert measure.auroc(SCORES, np.array([True] * 4)) is None
    assert measure.auroc(np.array([0.5, 0.5, 0.1]), np.array([True, False, False])) == pytest.approx(0.75), "a tie"
    assert measure.optional_auroc([0.2, None], [True, False]) is None


def test_ece_is_taken_over_bins_of_equal_mass():
    """Proves: CONF-4 (two bins: |.25 − .5| and |.85 − .5|, half the questions each)."""
    assert measure.ece(SCORES, OUTCOMES, bins=2) == pytest.approx(0.5 * 0.25 + 0.5 * 0.35)
    assert [part["questions"] for part in measure.reliability_bins(SCORES, OUTCOMES, bins=2)] == [2, 2]


def test_few_questions_show_an_error_even_when_calibrated():
    """Proves: CONF-4."""
    draw = np.random.default_rng(1)
    few, many = (measure.ece_of_perfect(draw.random(count)) for count in (50, 5000))
    assert few["mean"] > 3 * many["mean"] > 0 and few["p95"] > few["mean"]
    assert measure.ece_of_perfect(SCORES) == measure.ece_of_perfect(SCORES), "seeded"


def test_the_confusion_matrix_counts_labels_against_outcomes():
    """Proves: CONF-4."""
    table = measure.label_counts(["high", "high", "low", "low"], OUTCOMES)
    assert table["high"] == {"true": 1, "false": 1, "precision": 0.5, "coverage": 0.5}
    assert table["medium"] == {"true": 0, "false": 0, "precision": None, "coverage": 0.0}


def test_a_threshold_is_the_least_score_with_the_precision():
    """Proves: CONF-4."""
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    outcomes = np.array([True, True, False, True, False])
    assert precision_threshold(scores, outcomes, 0.75) == pytest.approx(0.6)
    assert precision_threshold(scores, outcomes, 0.99) == pytest.approx(0.8)
    assert precision_threshold(scores, ~outcomes & False, 0.5) == 1.0
    assert precision_threshold(scores, outcomes, 0.5, below=0.8) == pytest.approx(0.6)
    assert precision_threshold(np.array([0.5, 0.5]), np.array([True, False]), 0.9) == 1.0, "equal scores get one label"


# Fitting


def test_no_group_is_on_both_sides_of_a_fold():
    """Proves: CONF-4."""
    sample = CalibrationSample(drawn(80))
    for seen, unseen in sample.folds(4):
        assert not {sample.examples[at].group for at in seen} & {sample.examples[at].group for at in unseen}
        assert len(seen) + len(unseen) == 80


def test_sets_weigh_as_the_balance_says():
    """Proves: CONF-4."""
    both = drawn(90, origin="large") + drawn(10, origin="small")
    for balance, ratio in ((0.0, 1.0), (0.5, 3.0), (1.0, 9.0)):
        weights = CalibrationSample(both, balance).weights
        assert weights[-1] / weights[0] == pytest.approx(ratio) and weights.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", SCORE_MODELS, ids=[kind.name for kind in SCORE_MODELS])
def test_every_candidate_is_better_than_the_raw_score(kind):
    """Proves: CONF-4."""
    sample = CalibrationSample(drawn(600, wrong=0.4))
    after = out_of_fold_scores(sample, kind, 4)
    assert measure.brier(after, sample.outcomes) < measure.brier(sample.column(RAW_SCORE), sample.outcomes)
    assert after.min() >= 0.0 and after.max() <= 1.0


def test_the_fit_finds_the_predictive_signal_and_reports_its_steps():
    """Proves: CONF-4."""
    examples = drawn(400, wrong=0.2)
    mapping = calibrate(examples, CalibrationPlan("made-1", date="2026-01-01", folds=4, high=0.7, medium=0.5))
    found = mapping.figures["parts"]["all"]
    assert mapping.method.startswith("logistic") and mapping.features["named_own"].weight > 0
    assert found["after"]["auroc"] > found["before"]["auroc"] + 0.05
    assert found["after"]["ece"] < found["before"]["ece"]
    assert set(mapping.figures["parts"]) == {"all", "set made", *(f"fold {at}" for at in range(1, 5))}
    assert mapping.fitted_on["sets"]["made"]["questions"] == 400 and mapping.fitted_on["date"] == "2026-01-01"
    high = found["after"]["labels"]["high"]
    assert high["precision"] >= 0.68 and mapping.thresholds.precisions == {"medium": 0.5, "high": 0.7}
    assert calibrate(examples, CalibrationPlan("made-1", date="2026-01-01", folds=4, high=0.7, medium=0.5)) == mapping


def test_components_never_lower_the_score():
    """Proves: CONF-3 (even where more of one went with worse outcomes)."""
    turned = [
        CalibrationExample(
            e.origin, e.group, e.id, e.values | {"evidence": 1.0 - float(e.complete)}, e.answerable, e.complete
        )
        for e in drawn(300)
    ]
    mapping = calibrate(turned, CalibrationPlan("m", folds=3))
    assert not mapping.features or mapping.features["evidence"].weight == 0.0


@pytest.mark.parametrize(
    "examples",
    [[], drawn(20, groups=1), [e for e in drawn(200) if e.complete]],
    ids=["none", "one group", "one outcome"],
)
def test_uninformative_examples_are_rejected(examples):
    """Proves: CONF-4."""
    with pytest.raises(InvalidInputError, match="examples"):
        calibrate(examples, CalibrationPlan("m"))


@pytest.mark.parametrize(
    "bad",
    [{"folds": 1}, {"high": 1.5}, {"wrongly": 2.0}, {"balance": -1}, {"medium": 0.9, "high": 0.5}, {"method": "magic"}],
)
def test_a_bad_plan_is_refused_by_name(bad):
    with pytest.raises(InvalidInputError) as caught:
        CalibrationPlan("m", **bad)
    assert caught.value.field in bad


# Whether memory holds an answer


def test_unanswerable_questions_are_recognised_and_cap_the_score():
    """Proves: CONF-4."""
    examples = drawn(900, wrong=0.3)
    mapping = calibrate(examples, CalibrationPlan("made-1", folds=4, wrongly=0.1, method=PLAIN))
    found = mapping.answerable.figures["parts"]["all"]
    unanswerable = sum(not example.answerable for example in examples)
    assert found["questions"] == 900 and found["unanswerable"] == unanswerable
    assert found["auroc"] > 0.8 and found["ece"] < 0.08
    assert found["abstained"]["answerable"] <= 0.1 * (900 - unanswerable) < found["abstained"]["unanswerable"]
    assert mapping.answerable.features["named_told"].weight > 0
    assert all(part.weight >= 0 for part in mapping.answerable.features.values())
    for example in examples[:50]:
        assert mapping.score(example.values) <= mapping.answer_probability(example.values)


def test_without_unanswerable_questions_nothing_is_said_of_them():
    """Proves: CONF-4."""
    assert calibrate(drawn(200), CalibrationPlan("m", folds=3, method=PLAIN)).answerable is None
    alone = [replace(each, answerable=each.group != "c0" or each.complete) for each in drawn(200)]
    assert not all(each.answerable for each in alone)
    assert calibrate(alone, CalibrationPlan("m", folds=3, method=PLAIN)).answerable is None, (
        "one collection has them all"
    )


def test_foreign_questions_teach_and_are_measured_apart():
    """Proves: CONF-4 (without them what memory holds nothing on at all isn't told)."""
    own = drawn(400, wrong=0.2)
    nothing = dict.fromkeys(COMPONENT_WEIGHTS, 0.05)
    foreign = [
        replace(
            each,
            id=f"{each.id}f",
            values=each.values | nothing,
            answerable=False,
            complete=False,
            cross_collection=True,
        )
        for each in drawn(120, seed=5, origin="made, foreign")
    ]
    without, taught = (calibrate(given, CalibrationPlan("m", folds=4, method=PLAIN)) for given in (own, own + foreign))
    assert taught.figures["parts"]["all"]["after"]["questions"] == 400
    assert set(taught.figures["parts"]) == set(without.figures["parts"])
    assert taught.answerable.figures["parts"]["all"]["questions"] == 400
    assert taught.answerable.figures["parts"]["foreign"]["unanswerable"] == 120
    assert taught.fitted_on["sets"]["made, foreign"]["questions"] == 120
    means = [np.mean([mapping.answer_probability(each.values) for each in foreign]) for mapping in (without, taught)]
    assert means[1] < 0.2 < means[0]


def test_a_threshold_leaves_most_answerable_questions_above():
    """Proves: CONF-4."""
    scores, answerable = np.array([0.1, 0.2, 0.3, 0.4, 0.9]), np.array([False, True, True, True, True])
    assert abstention.abstention_threshold(scores, answerable, 0.25) == pytest.approx(0.3)
    assert abstention.abstention_threshold(scores, answerable, 0.0) == pytest.approx(0.2)
    assert abstention.abstention_threshold(scores, answerable, 1.0) == pytest.approx(0.9)


def test_high_holds_in_each_set_if_it_is_to():
    """Proves: CONF-4 (where the precision never holds, no result of the set reaches the threshold)."""
    scores = np.array([0.9, 0.8, 0.6, 0.85, 0.7])
    outcomes = (True, True, False, False, False)
    origins = ("one", "one", "one", "other", "other")
    sample = CalibrationSample(
        [
            replace(each, origin=origin, complete=complete)
            for each, origin, complete in zip(drawn(5), origins, outcomes, strict=True)
        ]
    )
    plan = CalibrationPlan("x", high=0.6, medium=0.5)
    assert high_threshold(scores, sample, plan) == pytest.approx(0.8)
    assert 0.85 < high_threshold(scores, sample, replace(plan, each_set=True)) < 0.86


# Files and the verb


def lines(examples):
    for example in examples:
        values = dict(example.values)
        yield {
            "id": example.id,
            "collection": example.group,
            "ids": ["a", "b"],
            "gold": ["a"] if example.complete or not example.answerable else ["z"],
            "answerable": example.answerable,
            "latency_ms": 1.0,
            "confidence_detail": {
                "label": "low",
                "raw_score": values.pop(RAW_SCORE),
                "components": {name: values.pop(name) for name in COMPONENT_WEIGHTS},
                "signals": values,
            },
        }


@pytest.fixture
def replayed(tmp_path):
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines(drawn(240, wrong=0.2))), encoding="utf-8")
    return path


def test_examples_are_read_back(replayed):
    """Proves: CONF-4 (unanswerable questions are never complete, whatever was found)."""
    assert read_examples(replayed) == drawn(240, origin="made", wrong=0.2)


def test_a_line_that_says_whether_all_was_found_is_believed(tmp_path):
    """Groups of ids that count as one are known where the question was asked.

    Proves: CONF-4.
    """
    path = tmp_path / "groups.jsonl"
    asked = list(lines(drawn(2, groups=2)))
    for line, told in zip(asked, (True, False), strict=True):
        line |= {"ids": ["a", "b"], "gold": ["a", "z"] if told else ["a"], "complete": told}
    path.write_text("".join(json.dumps(line) + "\n" for line in asked), encoding="utf-8")
    assert [example.complete for example in read_examples(path)] == [True, False]


def test_a_set_of_one_pool_has_its_questions_as_groups(tmp_path):
    """Proves: CONF-4."""
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines(drawn(12, groups=1))), encoding="utf-8")
    assert len({example.group for example in read_examples(path)}) == 12


def test_a_line_from_another_version_is_reported(tmp_path):
    path = tmp_path / "old.jsonl"
    line = next(lines(drawn(1)))
    line["confidence_detail"]["signals"] = {}
    path.write_text(json.dumps(line), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"old.jsonl line 1.confidence_detail.signals"):
        read_examples(path)


def test_the_verb_writes_a_file_that_settings_can_name(replayed, tmp_path, capsys):
    """Proves: CONF-4."""
    out, plot = tmp_path / "mine.json", tmp_path / "mine.png"
    assert (
        main(
            [
                "calibrate",
                "--replay",
                str(replayed),
                "-o",
                str(out),
                "--folds",
                "3",
                "--date",
                "2026-01-01",
                "--plot",
                str(plot),
            ]
        )
        == 0
    )
    assert plot.stat().st_size > 1000
    shown = capsys.readouterr().out
    for word in ("AUROC", "reliability", "unanswerable", "candidates", "high", "whether memory holds an answer"):
        assert word in shown
    mapping = load_calibration(str(out))
    assert mapping.id == "mine"
    assert 0.0 <= mapping.score(drawn(1)[0].values) <= 1.0


@pytest.mark.parametrize(("name", "start"), [("p.svg", b"<?xml"), ("p.png", b"\x89PNG"), ("p.html", b"<!doctype")])
def test_the_reliability_is_drawn(tmp_path, name, start):
    """Before and after stand in one picture; the same figures draw the same bytes.

    Proves: CONF-4.
    """
    bins = {when: measure.reliability_bins(SCORES, OUTCOMES, bins=2) for when in ("before", "after")}
    mapping = identity_calibration().model_copy(update={"id": "a<b", "figures": {"reliability": bins}})
    made = []
    for at in range(2):
        check_plot(tmp_path / f"{at}-{name}")
        draw_reliability(mapping, tmp_path / f"{at}-{name}")
        made.append((tmp_path / f"{at}-{name}").read_bytes())
    assert made[0] == made[1]
    assert made[0].startswith(start)
    if name != "p.png":
        assert b"before" in made[0]
        assert b"after" in made[0]
        assert b"a<b" not in made[0]


def test_bars_show_where_the_score_is_wrong():
    """Proves: CONF-4."""
    assert bar(0.5, 0.5, 10) == "=====+...."
    assert bar(0.2, 0.8, 10) == "==|=====.."
    assert bar(1.0, 0.0, 10) == ".........|"


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (["--plot", "p.gif"], "--plot: got 'p.gif'"),
        (["--high", "2"], "high: got 2"),
        (["--wrongly", "2"], "wrongly: got 2"),
        (["--foreign", "3"], "--foreign: got 3; allowed: a number together with --data"),
        (["--folds", "1"], "allowed: an integer from 2"),
        (["--method", "magic"], "method: got 'magic'; allowed: 'isotonic, raw score' | "),
        (["--data", "missing"], "data"),
        (["--replay", "missing.jsonl"], "missing.jsonl"),
        # Before a question is asked, which may take hours.
        (["--data", "missing", "-o", "none/out.json"], "--output: got 'none/out.json'; allowed: a file in an existing"),
        (["--data", "missing", "-o", "."], "--output: got '.'"),
        (["--data", "missing", "--attributed", "none.json"], "none.json"),
    ],
)
def test_a_bad_argument_is_one_line_and_exit_code_2(extra, told, replayed, tmp_path, capsys):
    given = [] if "--replay" in extra else ["--replay", str(replayed)]
    assert main(["calibrate", *given, "-o", str(tmp_path / "out.json"), *extra]) == 2
    complaint = capsys.readouterr().err
    assert told in complaint and complaint.count("\n") == 1


def test_a_missing_sample_is_reported(tmp_path, capsys):
    assert main(["calibrate", "-o", str(tmp_path / "out.json")]) == 2
    assert "--replay FILE or --data PATH" in capsys.readouterr().err
