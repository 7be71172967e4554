"""How a run ended: the rules of the table, one by one."""

from __future__ import annotations

import re

import pytest

from recall_loop.memory.trajectories.capture import execution_status
from recall_loop.memory.trajectories.capture.execution_status import RunEnding, classify_execution, is_run_status
from recall_loop.state.records.trajectories import ToolUse, TurnMessage
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import Role

COMPLETED, INCOMPLETE = ExecutionStatus.COMPLETED, ExecutionStatus.INCOMPLETE
FAILED, ERROR, UNKNOWN = ExecutionStatus.FAILED, ExecutionStatus.ERROR, ExecutionStatus.UNKNOWN


def said(role: Role, content: str = "", **fields: object) -> TurnMessage:
    return TurnMessage.model_validate({"role": role, "content": content, **fields})


ASKED = said(Role.USER, "Where is it?")
ANSWERED = said(Role.ASSISTANT, "In the harbour.")
CALLED = said(Role.ASSISTANT, tool_calls=[ToolUse(name="look")])


@pytest.mark.parametrize(
    ("ending", "expected", "confidence"),
    [
        (RunEnding(error="ValueError: no", stop_reason="end_turn", run_status="completed"), ERROR, 0.95),
        (RunEnding(stop_reason="too_many_errors"), ERROR, 0.9),
        (RunEnding(stop_reason="tool_failure"), ERROR, 0.9),
        (RunEnding(run_status="error", stop_reason="end_turn"), ERROR, 0.9),
        (RunEnding(run_status="failed"), FAILED, 0.9),
        (RunEnding(stop_reason="content_filter"), FAILED, 0.9),
        (RunEnding(run_status="cancelled"), FAILED, 0.8),
        (RunEnding(run_status="cancelling"), FAILED, 0.8),
        (RunEnding(run_status="completed", stop_reason="max_tokens"), INCOMPLETE, 0.8),
        (RunEnding(stop_reason="MAX_STEPS"), INCOMPLETE, 0.8),
        (RunEnding(stop_reason="maxSteps"), INCOMPLETE, 0.8),
        (RunEnding(stop_reason="length"), INCOMPLETE, 0.8),
        (RunEnding(run_status="running"), INCOMPLETE, 0.8),
        (RunEnding(waiting=True, messages=[ASKED, ANSWERED]), INCOMPLETE, 0.8),
        (RunEnding(run_status="completed", stop_reason="end_turn"), COMPLETED, 0.8),
        (RunEnding(stop_reason="user_stop"), COMPLETED, 0.8),
        (RunEnding(run_status="completed"), COMPLETED, 0.7),
        (RunEnding(run_status="completed", messages=[ASKED] * 3), COMPLETED, 0.7),
        (RunEnding(run_status="completed", messages=[ASKED] * 4), COMPLETED, 0.8),
        (RunEnding(stop_reason="stop", messages=[ASKED] * 4), COMPLETED, 0.9),
        (RunEnding(messages=[CALLED, said(Role.TOOL, "no", error="no")]), ERROR, 0.7),
        (RunEnding(messages=[ASKED, CALLED]), INCOMPLETE, 0.6),
        (RunEnding(messages=[ASKED, said(Role.ASSISTANT, "Done. TERMINATE")]), COMPLETED, 0.7),
        (RunEnding(messages=[ASKED, ANSWERED]), COMPLETED, 0.6),
        (RunEnding(messages=[ASKED, ANSWERED, said(Role.USER, "Thanks, that's all.")]), COMPLETED, 0.6),
        (RunEnding(messages=[said(Role.USER, "Thanks in advance: where is it?")]), UNKNOWN, 0.5),
        (RunEnding(messages=[ASKED, CALLED, said(Role.TOOL, "here")]), UNKNOWN, 0.5),
        (RunEnding(stop_reason="tool_calls", messages=[CALLED, said(Role.TOOL, "here")]), UNKNOWN, 0.5),
        (RunEnding(), UNKNOWN, 0.5),
    ],
)
def test_the_first_rule_that_holds_decides(ending: RunEnding, expected: ExecutionStatus, confidence: float) -> None:
    """Proves: TRAJ-1."""
    found = classify_execution(ending)
    assert (found.status, found.confidence) == (expected, confidence)
    assert found.reasoning


def test_the_reason_names_the_words_of_the_source() -> None:
    """Proves: TRAJ-1."""
    assert "'max_turns'" in classify_execution(RunEnding(stop_reason="max_turns")).reasoning
    four = classify_execution(RunEnding(run_status="completed", stop_reason="stop", messages=[ASKED] * 4)).reasoning
    assert "'completed'" in four
    assert "'stop'" in four
    assert "4 user messages" in four


def test_verdicts_on_the_result_are_not_a_run_status() -> None:
    """Proves: TRAJ-1, TRAJ-2."""
    assert [word for word in ("success", "failure", "partial_success", "good") if is_run_status(word)] == []
    assert all(is_run_status(word) for word in ("completed", "failed", "cancelled", "error", "running"))


def test_the_documented_table_has_every_status_and_fifteen_rules() -> None:
    """Proves: TRAJ-1."""
    rows = re.findall(r"^\| (\d+) \| .+ \| (\w+) \| (\.\d+) \|$", execution_status.__doc__ or "", re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 16))
    assert {name for _, name, _ in rows} == {one.value for one in ExecutionStatus}
