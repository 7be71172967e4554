"""Runs as attributes of records, in the new shape and in the old ones."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.legacy_trajectories import STATUS_OF_OLD_TYPE, is_legacy, upgrade_legacy
from recall_loop.state.records.records import RECORD_ADAPTER, Trajectory
from recall_loop.state.records.trajectories import (
    Execution,
    RunData,
    RunMetadata,
    Scoring,
    SubScores,
    ToolUse,
    Turn,
    TurnMessage,
    run_as_text,
    run_attributes,
    run_from_record,
    trajectory_record,
)
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import ComplexityLevel, Role

FULL = RunData(
    task="Find Ada",
    summary="Ada was found.",
    execution=Execution(status=ExecutionStatus.ERROR, confidence=0.95, reasoning="boom"),
    outcome_score=0.0,
    scoring=Scoring(
        scorer="rules-2",
        sub_scores=SubScores(interaction_depth=0.1, task_complexity=0.2, tool_usage=0.3, learning_value=0.4),
        reasoning="why",
        scored_at="2024-05-01T09:30:00Z",
    ),
    complexity_level=ComplexityLevel.EXPERT,
    metadata=RunMetadata(start_time="2024-05-01T09:30:00.123456+02:00", step_count=1, tools_used=("look",)),
    turns=(
        Turn(
            step_id="1",
            messages=(
                TurnMessage(role=Role.USER, content="Find Ada", extra={"id": "m"}),
                TurnMessage(role=Role.ASSISTANT, tool_calls=(ToolUse(name="look", arguments={"who": ["Ada", None]}),)),
            ),
        ),
    ),
    extra={"note": None},
)


def old(**attributes: Any) -> Trajectory:
    return Trajectory(id="t", text="old run", attributes=attributes)


def read_old(**attributes: Any) -> RunData:
    with pytest.warns(DeprecationWarning, match="recall-loop trajectories migrate"):
        return run_from_record(old(**attributes))


def test_a_run_reads_back_as_it_was_stored() -> None:
    """Proves: TRAJ-1, TRAJ-2."""
    record = trajectory_record(FULL, id="t", tags=("a",), agent_id="g")
    again = RECORD_ADAPTER.validate_json(record.model_dump_json())
    assert run_from_record(again) == FULL
    assert (again.tags, again.agent_id, again.created_at) == (("a",), "g", FULL.metadata.start_time)
    assert again.attributes["outcome_score"] == 0.0


def test_filters_find_status_and_score_where_they_look() -> None:
    """Proves: TRAJ-8, SEARCH-3."""
    attributes = run_attributes(FULL)
    assert attributes["execution"]["status"] == "error"  # type: ignore[index, call-overload]
    assert run_attributes(RunData(task="x")) == {"task": "x"}


def test_a_record_always_has_a_text() -> None:
    """Proves: TRAJ-1."""
    assert trajectory_record(RunData(), id="t").text == "Execution: unknown"
    assert trajectory_record(FULL, id="t", text=" ").text == run_as_text(FULL)
    assert len(trajectory_record(RunData(task="x" * 2_000_000), id="t").text) == 1_000_000
    with pytest.raises(InvalidInputError, match=r"trajectory\.id"):
        trajectory_record(FULL, id="")


@pytest.mark.parametrize("attributes", [{}, {"domain": "x"}, {"execution": {"status": "failed"}, "outcome_score": 0.5}])
def test_records_that_hold_less_are_read_too(attributes: dict[str, Any]) -> None:
    """Proves: TRAJ-1."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = run_from_record(old(**attributes))
    assert run.task == "old run"
    assert run.execution.status == attributes.get("execution", {}).get("status", "unknown")
    assert run.extra == ({"domain": "x"} if "domain" in attributes else {})


def test_one_odd_field_spoils_no_other() -> None:
    """Proves: TRAJ-1, TRAJ-6."""
    run = run_from_record(old(execution={"status": "flying"}, outcome_score="high", task="Find Ada", extra={"a": 1}))
    assert (run.task, run.execution.status, run.outcome_score) == ("Find Ada", ExecutionStatus.UNKNOWN, None)
    assert run.extra == {"a": 1, "execution": {"status": "flying"}, "outcome_score": "high"}


@pytest.mark.parametrize(("kind", "status"), STATUS_OF_OLD_TYPE.items())
def test_old_types_become_statuses_and_never_scores(kind: str, status: str) -> None:
    """Proves: TRAJ-4."""
    run = read_old(outcome={"type": kind, "confidence": 0.8, "reasoning": ["a", "b"]})
    assert (run.execution.status, run.execution.confidence, run.outcome_score) == (status, 0.8, None)
    assert run.execution.reasoning == f"a; b; from the old outcome type {kind!r}"
    assert run.extra == {}


def test_the_shape_of_note_001_is_read_whole() -> None:
    """Proves: TRAJ-4."""
    function = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    data = {
        "run_id": "r1",
        "outcome": {"type": "success", "confidence": 0.8, "reasoning": ["Run completed successfully"]},
        "metadata": {"duration": 3.5, "status": "completed", "tokens": {"total": 9}, "stop_reason": "end_turn"},
        "turns": [
            {
                "step_id": "s",
                "tokens": 9,
                "messages": [{"role": "assistant", "content": None, "tool_calls": [function]}],
            }
        ],
    }
    given = {"data": data, "outcome_score": 0.5, "score_reasoning": "Single turn.", "searchable_summary": "A look."}
    run = read_old(**given, processing_status="completed", complexity_level="simple")
    assert (run.outcome_score, run.summary, run.complexity_level) == (0.5, "A look.", ComplexityLevel.SIMPLE)
    assert run.scoring == Scoring(scorer="legacy", reasoning="Single turn.")
    assert (run.metadata.run_id, run.metadata.duration_seconds, run.metadata.stop_reason) == ("r1", 3.5, "end_turn")
    assert run.metadata.extra == {"status": "completed", "tokens": {"total": 9}}
    assert run.turns[0].messages[0].tool_calls == (ToolUse(name="look", arguments="{}", id="c"),)
    assert run.turns[0].messages[0].extra == {"turn": {"tokens": 9}}
    assert run.extra == {"processing_status": "completed"}


@pytest.mark.parametrize(
    ("attributes", "expected", "extra"),
    [
        ({"outcome": "failure"}, "failed", {}),
        ({"outcome": "splendid"}, "unknown", {}),
        ({"outcome": None}, "unknown", {}),
        ({"outcome": {"type": "error", "more": 1}}, "error", {"outcome": {"more": 1}}),
        ({"outcome": {"type": "success", "score": 7}}, "completed", {"outcome": {"score": 7}}),
        (
            {"outcome": {"type": "success"}, "execution": {"status": "incomplete"}},
            "incomplete",
            {"outcome_type": "success"},
        ),
    ],
)
def test_other_old_shapes(attributes: dict[str, Any], expected: str, extra: dict[str, Any]) -> None:
    """Proves: TRAJ-4."""
    run = read_old(**attributes)
    assert run.execution.status == expected
    assert run.extra == extra


def test_a_score_inside_the_outcome_is_the_learning_value_and_nothing_is_made_up() -> None:
    """Proves: TRAJ-4, TRAJ-2."""
    assert read_old(outcome={"type": "failure", "score": 0.0}).outcome_score == 0.0
    assert read_old(outcome={"type": "failure"}).outcome_score is None


def test_upgraded_is_new() -> None:
    """Proves: TRAJ-4."""
    new = upgrade_legacy({"outcome": {"type": "success"}, "turns": []}, warn=False)
    assert not is_legacy(new)
    assert is_legacy({"data": {"turns": []}})
    assert not is_legacy({"data": {"x": 1}})
