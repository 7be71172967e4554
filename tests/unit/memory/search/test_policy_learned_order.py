"""The learned order: trees as they are written, walked one by one, against all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recall_loop.memory.search.rerank.learned_order import (
    LONG_TURNS,
    MAX_LEAVES,
    ORDER_FEATURES,
    LearnedRanker,
    default_ranker,
    has_long_turns,
)

NUMBERS = st.floats(-5, 5, allow_nan=False)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """A tree of up to sixteen leaves, parents before children."""
    nodes: list[list[Any]] = []
    leaves: list[float] = []

    def grow(room: int) -> int:
        if room < 2 or not draw(st.booleans()):
            leaves.append(draw(NUMBERS))
            return -len(leaves)
        at, left = len(nodes), draw(st.integers(1, room - 1))
        nodes.append([draw(st.integers(0, len(ORDER_FEATURES) - 1)), draw(NUMBERS), 0, 0])
        nodes[at][2] = grow(left)
        nodes[at][3] = grow(room - left)
        return at

    grow(MAX_LEAVES)
    return {"nodes": nodes, "leaves": leaves}


def order_of(*grown: dict[str, Any]) -> LearnedRanker:
    return LearnedRanker.model_validate({"id": "test", "features": ORDER_FEATURES, "trees": grown})


def walked(tree: dict[str, Any], row: list[float]) -> float:
    at = 0 if tree["nodes"] else -1
    while at >= 0:
        feature, threshold, left, right = tree["nodes"][at]
        at = left if row[feature] <= threshold else right
    return float(tree["leaves"][-at - 1])


@given(st.lists(trees(), max_size=4), st.integers(0, 2**32 - 1))
def test_all_trees_at_once_give_what_each_gives_alone(grown: list[dict[str, Any]], seed: int) -> None:
    """Proves: RANK-2, LOOP-9."""
    rows = np.random.default_rng(seed).uniform(-5, 5, (7, len(ORDER_FEATURES))).round(1)
    gains = order_of(*grown).gains(rows)
    assert gains == pytest.approx([sum(walked(tree, row) for tree in grown) for row in rows.tolist()])


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"nodes": [[0, 0.5, -1, -2]], "leaves": [1.0]}, "or existing leaves"),
        ({"nodes": [[0, 0.5, 0, -1]], "leaves": [1.0, 2.0]}, "children that come later"),
        ({"nodes": [[len(ORDER_FEATURES), 0.5, -1, -2]], "leaves": [1.0, 2.0]}, "features numbered"),
        ({"nodes": [[0, 0.5, -1, -1]], "leaves": [1.0, 2.0]}, "under one node"),
        ({"nodes": [[0, float("nan"), -1, -2]], "leaves": [1.0, 2.0]}, "finite"),
        ({"nodes": [], "leaves": []}, "at least 1"),
    ],
)
def test_a_tree_that_is_none_is_refused(tree: dict[str, Any], words: str) -> None:
    """Proves: RANK-2 (a damaged file is told, and not walked)."""
    with pytest.raises(ValidationError, match=words):
        order_of(tree)


def test_an_order_fitted_for_other_features_is_refused() -> None:
    """Proves: RANK-2."""
    with pytest.raises(ValidationError, match="features in this order"):
        LearnedRanker.model_validate({"id": "x", "features": ORDER_FEATURES[::-1], "trees": []})


@pytest.mark.parametrize("long_turns", [False, True])
def test_what_ships_has_trees_and_says_what_it_learned_from(long_turns: bool) -> None:
    """Proves: RANK-2."""
    order = default_ranker(long_turns)
    assert len(order.trees) >= 50
    assert set(order.fitted_on) >= {"questions", "method"}
    assert {name.partition(" ")[0] for name in order.fitted_on["questions"]} <= {"talk", "realmem"}
    assert np.isfinite(order.gains(np.zeros((3, len(ORDER_FEATURES))))).all()


def test_turns_are_long_where_the_median_of_the_pool_is() -> None:
    """Proves: RANK-2 (one long turn among short ones changes nothing)."""
    assert not has_long_turns([LONG_TURNS - 1] * 3 + [400])
    assert has_long_turns([3, LONG_TURNS, 400])
