"""What a comparison of policies says: differences with intervals, confusion, reliability, iterations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from recall_loop.evals.measures.quality_metrics import score_ranking
from recall_loop.evals.replay.policy_comparison import (
    by_iteration,
    differences,
    label_confusion,
    paired_interval,
    policy_figures,
    score_reliability,
)
from recall_loop.evals.runs.loop_policy import PolicyResult
from recall_loop.evals.runs.prompts import ReplayPrompt
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.state.request import ChatMessage, RetrieveRequest

REQUEST = RetrieveRequest(messages=(ChatMessage(content="Who sells bread?"),))


def run(ids: str, gold: str = "a", *, policy: str = "new", answerable: bool | None = True, **done: Any) -> ReplayRun:
    """A run that returned the letters of `ids`; every letter was found in iteration 1 unless `found_in` says else."""
    found_in = done.pop("found_in", dict.fromkeys(ids, 1))
    latency = done.pop("latency_ms", 10.0)
    done["answerable"] = done.pop("holds", None)
    prompt = ReplayPrompt(REQUEST, tuple(gold), answerable)
    values: dict[str, Any] = {"iterations": 1, "executed": 3, "repeated": 0, "stop_reason": "covered", "label": "low"}
    return ReplayRun(
        policy=policy,
        prompt=prompt,
        result=PolicyResult(facts=(), found_in=(), **({"new_facts": [1]} | values | done)),
        facts=len(ids),
        ids=list(ids),
        found_in=found_in,
        scores=score_ranking(list(ids), prompt.gold, (1, 10)) if prompt.scored else {},
        gold_found=len(set(gold) & set(ids)) if prompt.scored else None,
        relevant=len(ids),
        complete=prompt.complete(list(ids)),
        latency_ms=latency,
    )


def test_differences_that_even_out_are_none() -> None:
    """Proves: OPS-4 (1e-16 would earn a star)."""
    baseline = np.array([0.63, 0.7, 0.3, 0.3, 0.1, 0.1])
    difference, _, _ = paired_interval(baseline, baseline[[4, 5, 1, 2, 0, 3]], statistic="mean", resamples=500, seed=0)
    assert difference == 0.0


def test_an_interval_holds_the_difference_and_is_the_same_each_time() -> None:
    """Proves: OPS-4."""
    random = np.random.default_rng(1)
    baseline = random.random(200)
    other = baseline + 0.1 + 0.05 * random.standard_normal(200)
    first = paired_interval(baseline, other, statistic="mean", resamples=500, seed=3)
    assert first == paired_interval(baseline, other, statistic="mean", resamples=500, seed=3)
    difference, low, high = first
    assert low < difference < high
    assert math.isclose(difference, float(np.mean(other - baseline)))
    error = float(np.std(other - baseline)) / math.sqrt(200)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_pairing_narrows_the_interval() -> None:
    """Prompts differ more than policies do; only a paired draw sees the policies.

    Proves: OPS-4.
    """
    baseline = np.linspace(0.0, 1.0, 100)
    difference, low, high = paired_interval(baseline, baseline + 0.1, statistic="mean", resamples=200, seed=0)
    assert difference == pytest.approx(0.1)
    assert high - low < 1e-9


def test_intervals_of_a_known_null_difference_hold_zero() -> None:
    """Proves: OPS-4."""
    held = 0
    for seed in range(60):
        both = np.random.default_rng(seed).random((2, 80))
        _, low, high = paired_interval(both[0], both[1], statistic="mean", resamples=400, seed=0)
        held += low <= 0.0 <= high
    assert held >= 52  # 57 on average


def test_differences_are_of_the_same_prompts() -> None:
    """Prompts without gold count for iterations and latency, not for recall.

    Proves: OPS-4.
    """
    old = [run("b"), run("a"), run("z", gold="", answerable=None)]
    new = [run("a", iterations=3), run("a", iterations=2), run("z", gold="", answerable=None, latency_ms=70.0)]
    found = {each.measure: each for each in differences(old, new, resamples=100, seed=0)}
    assert (found["recall@10"].difference, found["recall@10"].prompts) == (0.5, 2)
    assert (found["iterations"].difference, found["iterations"].prompts) == (1.0, 3)
    assert (found["latency_ms"].statistic, found["latency_ms"].difference) == ("median", 0.0)
    assert found["gold_found"].difference == 0.5


def test_figures_of_one_policy() -> None:
    """Proves: OPS-4."""
    runs = [
        run("ab", gold="ab", iterations=2, new_facts=[1, 1], found_in={"a": 1, "b": 2}, llm_calls=2, llm_tokens=50),
        run("c", gold="ab", stop_reason="exhausted"),
    ]
    found = policy_figures(runs)
    assert (found["gold_found"], found["gold"], found["recall@10"]) == (2, 4, 0.5)
    assert found["stop_reasons"] == {"covered": 1, "exhausted": 1}
    assert (found["queries_executed"], found["llm_calls"], found["llm_tokens"]) == (6, 2, 50)
    assert found["categories"] == {"uncategorised": {"prompts": 2, **{k: found[k] for k in runs[0].scores}}}


def test_figures_without_any_label() -> None:
    """A log that nobody labelled can be replayed too.

    Proves: OPS-4.
    """
    found = policy_figures([run("a", gold="", answerable=None)])
    assert found["scored"] == found["gold_found"] == 0
    assert "recall@10" not in found
    assert sum(count for counts in found["confusion"].values() for count in counts.values()) == 0


def test_unanswerable_prompts_are_ranked_below() -> None:
    """Proves: OPS-4, CONF-4 (a policy that doesn't tell has no figure; unlabelled prompts don't count)."""
    runs = [
        run("a", score=0.4, holds=0.9),
        run("a", answerable=False, score=0.6, holds=0.2),
        run("a", gold="", answerable=None, score=0.9, holds=0.1),
    ]
    assert policy_figures(runs)["answerable_auroc"] == {"score": 0.0, "answerable": 1.0}
    assert policy_figures([run("a"), run("a", answerable=False)])["answerable_auroc"]["answerable"] is None


def test_the_event_is_all_gold_in_the_top_ten() -> None:
    """What memory can't answer never counts as complete, whatever was found.

    Proves: OPS-4, CONF-4.
    """
    letters = "bcdefghijkl"
    runs = [
        run("a", label="high"),
        run(letters + "a", label="high"),
        run("a", answerable=False, label="medium"),
        run("a", gold="", answerable=None, label="low"),
    ]
    found = label_confusion(runs)
    assert found["high"] == {"complete": 1, "incomplete": 1}
    assert found["medium"] == {"complete": 0, "incomplete": 1}
    assert found["low"] == {"complete": 0, "incomplete": 0}


def test_reliability_has_bins_of_equal_mass() -> None:
    """Proves: OPS-4, CONF-4."""
    bins = score_reliability([(at / 100, at >= 50) for at in range(100)])
    assert [part["runs"] for part in bins] == [10] * 10
    assert [part["complete"] for part in bins] == [0.0] * 5 + [1.0] * 5
    assert score_reliability([]) == []
    assert [part["runs"] for part in score_reliability([(0.5, True)] * 3)] == [1, 1, 1]


def test_recall_grows_with_iterations() -> None:
    """A run that had stopped counts with what it had.

    Proves: OPS-4.
    """
    runs = [
        run("ab", gold="ab", iterations=2, new_facts=[1, 4], found_in={"a": 1, "b": 2}),
        run("a", gold="ab", new_facts=[2]),
    ]
    assert by_iteration(runs) == [
        {"iteration": 1, "runs": 2, "new_facts": 1.5, "found": 0.5},
        {"iteration": 2, "runs": 1, "new_facts": 4.0, "found": 0.75},
    ]
