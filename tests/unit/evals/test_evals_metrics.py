"""Retrieval metrics: hand-made cases, and properties that hold for every ranking."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.evals.measures import quality_metrics
from recall_loop.evals.runs.prompts import ReplayPrompt
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.result import Evidence, RecalledFact
from recall_loop.state.types import ContentType

ids = st.text("abcdefgh", min_size=1, max_size=2)
rankings = st.lists(ids, max_size=40)
golds = st.sets(ids, min_size=1, max_size=15)
cuts = st.integers(1, 50)


def recalled(id_: str, kind: ContentType, *sources: str) -> RecalledFact:
    evidence = tuple(Evidence(source_id=source, snippet="…") for source in sources)
    return RecalledFact(id=id_, content_type=kind, text=id_, similarity=0.5, score=0.5, evidence=evidence)


def test_hand_made_ranking() -> None:
    """Two of three gold ids on ranks 2 and 4.

    Proves: OPS-4.
    """
    ranked, gold = ["x", "a", "y", "b", "z"], {"a", "b", "c"}
    assert quality_metrics.recall_at_k(ranked, gold, 3) == pytest.approx(1 / 3)
    assert quality_metrics.recall_at_k(ranked, gold, 5) == pytest.approx(2 / 3)
    assert quality_metrics.all_at_k(ranked, gold, 5) == 0.0
    assert quality_metrics.all_at_k([*ranked, "c"], gold, 6) == 1.0
    assert quality_metrics.mrr(ranked, gold) == 0.5
    gain, ideal = 1 / math.log2(3) + 1 / math.log2(5), 1 + 1 / math.log2(3) + 0.5
    assert quality_metrics.ndcg_at_10(ranked, gold) == pytest.approx(gain / ideal)


def test_ideal_of_ndcg_is_cut_at_ten() -> None:
    """Twelve gold ids, ten of them on the first ten ranks, are a perfect list.

    Proves: OPS-4.
    """
    gold = [f"g{number}" for number in range(12)]
    assert quality_metrics.ndcg_at_10(gold[:10], gold) == pytest.approx(1.0)


def test_nothing_found_is_zero_not_an_error() -> None:
    """An empty ranking scores 0 everywhere.

    Proves: OPS-4.
    """
    assert set(quality_metrics.score_ranking([], {"a"}, (1, 5)).values()) == {0.0}


@pytest.mark.parametrize("k", [0, -3])
def test_bad_cut_is_refused(k: int) -> None:
    """Proves: OPS-4."""
    with pytest.raises(InvalidInputError, match="k: got"):
        quality_metrics.recall_at_k(["a"], {"a"}, k)


def test_question_without_gold_is_refused() -> None:
    """Proves: OPS-4."""
    for scored in (quality_metrics.mrr, quality_metrics.ndcg_at_10):
        with pytest.raises(InvalidInputError, match="gold"):
            scored(["a"], set())


def test_expand_maps_facts_to_sources_in_rank_order() -> None:
    """Messages and archival entries give their own id, facts their sources, without duplicates.

    Proves: OPS-4.
    """
    facts = [
        recalled("m2", ContentType.MESSAGE, "m2"),
        recalled("f1", ContentType.FACT, "m3", "m2", "m1"),
        recalled("p1", ContentType.ARCHIVAL, "m9"),
        recalled("f2", ContentType.FACT),
        recalled("f3", ContentType.FACT, "f3"),
        recalled("f4", ContentType.FACT, "f4", "m7"),
        recalled("m1", ContentType.MESSAGE),
    ]
    assert quality_metrics.expand_to_sources(facts) == ["m2", "m3", "m1", "p1", "f2", "f3", "m7"]


def test_expand_comes_before_the_cut() -> None:
    """A fact's second source takes a rank of its own.

    Proves: OPS-4.
    """
    ranked = quality_metrics.expand_to_sources(
        [recalled("f", ContentType.FACT, "a", "b"), recalled("c", ContentType.MESSAGE)]
    )
    assert quality_metrics.recall_at_k(ranked, {"c"}, 2) == 0.0
    assert quality_metrics.recall_at_k(ranked, {"c"}, 3) == 1.0


@given(rankings, golds, cuts)
def test_metrics_lie_between_0_and_1(ranked: list[str], gold: set[str], k: int) -> None:
    """Proves: OPS-4."""
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in quality_metrics.score_ranking(ranked, gold, (k,)).values())


@given(rankings, golds, cuts)
def test_recall_and_all_rise_with_k(ranked: list[str], gold: set[str], k: int) -> None:
    """Proves: OPS-4."""
    for metric in (quality_metrics.recall_at_k, quality_metrics.all_at_k):
        assert metric(ranked, gold, k) <= metric(ranked, gold, k + 1)
    assert quality_metrics.all_at_k(ranked, gold, k) <= quality_metrics.recall_at_k(ranked, gold, k)


@given(golds, rankings)
def test_perfect_ranking_gives_1(gold: set[str], rest: list[str]) -> None:
    """Gold first, whatever follows: every metric is 1.

    Proves: OPS-4.
    """
    scores = quality_metrics.score_ranking([*sorted(gold), *rest], gold, (len(gold), len(gold) + 5))
    assert all(value == pytest.approx(1.0) for value in scores.values())


@given(rankings, golds, cuts)
def test_repeated_ids_change_nothing(ranked: list[str], gold: set[str], k: int) -> None:
    """Proves: OPS-4."""
    doubled = [each for id_ in ranked for each in (id_, id_)]
    assert quality_metrics.score_ranking(doubled, gold, (k,)) == quality_metrics.score_ranking(ranked, gold, (k,))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_macro_average_lies_within_its_values(values: list[float]) -> None:
    """Proves: OPS-4."""
    average = quality_metrics.macro_average([{"m": value} for value in values])["m"]
    assert min(values) - 1e-9 <= average <= max(values) + 1e-9


def test_no_question_has_no_average() -> None:
    """Proves: OPS-4."""
    assert quality_metrics.macro_average([]) == {}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_percentile_lies_within_its_values(values: list[float], share: float) -> None:
    """Proves: OPS-4."""
    assert min(values) <= quality_metrics.percentile(values, share) <= max(values) + 1e-6
    assert quality_metrics.percentile(values, 0.0) == min(values)
    assert quality_metrics.percentile(values, 1.0) == max(values)


def test_percentile_interpolates() -> None:
    """Proves: OPS-4."""
    assert quality_metrics.percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert math.isnan(quality_metrics.percentile([], 0.5))


_REQUEST = RetrieveRequest(messages=(ChatMessage(content="Who?"),))
# The summary holds what both turns say.
_SUMMED = ReplayPrompt(_REQUEST, ("one", "two"), True, groups=(("sum", "one"), ("sum", "two")))
_CHAINED = ReplayPrompt(_REQUEST, ("a", "b", "c"), True, groups=(("a", "b"), ("b", "c")))


@pytest.mark.parametrize(
    ("prompt", "ids", "share"),
    [
        (_SUMMED, ["one"], 0.5),
        (_SUMMED, ["two"], 0.5),
        (_SUMMED, ["two", "x", "one"], 1.0),
        (_SUMMED, ["x", "sum"], 1.0),
        (_CHAINED, ["a"], 0.5),
        (_CHAINED, ["c"], 0.5),
        (_CHAINED, ["b"], 1.0),
        (_SUMMED, ["x"], 0.0),
    ],
)
def test_groups_that_share_a_document_stay_two_parts(prompt: ReplayPrompt, ids: list[str], share: float) -> None:
    """Proves: OPS-4 (what holds one part doesn't count for the other)."""
    assert quality_metrics.recall_at_k(prompt.counted(ids), prompt.counted(prompt.gold), 10) == share
    assert prompt.complete(ids) is (share == 1.0)


def test_what_holds_several_parts_takes_their_ranks_and_none_twice() -> None:
    """Proves: OPS-4 (as a fact with several sources does; an id outside of all groups is a part of its own)."""
    assert len(_SUMMED.counted(["one", "sum", "x", "two"])) == 3
    assert _SUMMED.counted(["x"]) == ["x"]
