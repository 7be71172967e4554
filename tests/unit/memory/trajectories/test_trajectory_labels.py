"""Words and labels of runs: two things, never mixed up."""

from __future__ import annotations

import pytest

from recall_loop.memory.trajectories.contrast.results import (
    LEARNING_EXPLAINED,
    STATUS_EXPLAINED,
    execution_text,
    execution_tooltip,
    format_score,
    format_stars,
    learning_value_text,
    learning_value_tooltip,
    run_texts,
)
from recall_loop.state.records.trajectories import Execution, RunData
from recall_loop.state.scope import ExecutionStatus


def test_the_labels_are_those_of_the_requirement() -> None:
    """Proves: TRAJ-3."""
    run = RunData(execution=Execution(status=ExecutionStatus.COMPLETED), outcome_score=0.5)
    assert run_texts(run) == ("Execution: ✅ Completed", "Learning value: ⭐⭐⭐☆☆ (0.50)")


@pytest.mark.parametrize(
    ("score", "full"),
    [(0.0, 0), (0.099, 0), (0.1, 1), (0.3, 2), (0.5, 3), (0.7, 4), (0.89, 4), (0.9, 5), (1.0, 5)],
)
def test_stars_are_floor_of_five_times_score_plus_a_half(score: float, full: int) -> None:
    """Proves: TRAJ-3."""
    assert format_stars(score) == "⭐" * full + "☆" * (5 - full)


def test_zero_is_a_score_and_nothing_is_none() -> None:
    """Proves: TRAJ-3, TRAJ-6."""
    assert learning_value_text(0.0) == "Learning value: ☆☆☆☆☆ (0.00)"
    assert format_score(0.0) == "0.00"
    assert learning_value_text(None) == "Learning value: not scored"
    assert learning_value_text(None, pending=True) == "Learning value: not scored yet, waiting to be scored"


def test_everything_is_explained_and_nothing_is_called_a_success() -> None:
    """Proves: TRAJ-3."""
    assert set(STATUS_EXPLAINED) == set(ExecutionStatus)
    for status in ExecutionStatus:
        words = execution_text(status) + execution_tooltip(status)
        assert "success" not in words.lower()
        assert "nothing about the quality" in words
    assert learning_value_tooltip(0.0) == LEARNING_EXPLAINED
    assert "not the same as a low score" in learning_value_tooltip(None)
