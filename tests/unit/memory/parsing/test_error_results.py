"""Tool results that report an error, from chat APIs that have no field for it."""

from __future__ import annotations

import pytest

from recall_loop.memory.parsing.error_results import is_error_result
from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.memory.trajectories.scoring.outcome_scoring import score_by_rules

ASKED = {"role": "user", "content": "Refund the boots."}
CALL = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order": "A-1"}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
LIMITED = "429 Too Many Requests: the limit of refunds is reached"


@pytest.mark.parametrize(
    "result",
    [
        "Error: not enough seats on flight HAT229",
        "ValueError: no such order",
        "requests.exceptions.HTTPError: 429 Client Error",
        "Error (503): try again",
        'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: 1',
        LIMITED,
        "HTTP 403 Forbidden",
        "HTTP/1.1 418",
        "exit code 128\nfatal: no repository",
        "Error executing tool get_weather: no such city",
        "An error occurred while running the tool. Please try again. Error: 503",
        '{"error": "ORDER_NOT_FOUND"}',
        '{"error": {"code": 429, "message": "Too many"}}',
        '{"errors": [{"message": "unknown field"}], "data": null}',
        '{"success": false, "reason": "shipped"}',
        '{"isError": true, "content": []}',
        '{"status": "error", "message": "payment method required"}',
        '{"type": "about:blank", "title": "Conflict", "status": 409}',
        '{"detail": "503 Service Unavailable"}',
    ],
)
def test_a_result_that_begins_like_an_error_is_one(result: str) -> None:
    """Proves: TRAJ-1."""
    assert is_error_result(result)


@pytest.mark.parametrize(
    "result",
    [
        "",
        "Booked, nine o'clock.",
        "No error: all is well",
        "Three errors were fixed last week.",
        "404 Main Street",
        "mean_absolute_error: 0.12",
        "error: null",
        "Terror: a film from 1978",
        "exit code 0",
        '{"error": null, "order": "A-1"}',
        '{"errors": 0, "passed": 12}',
        '{"errors": 2, "passed": 12}',
        '{"status": "failed", "payment": "p1"}',
        '{"status": 200, "ok": true}',
        '{"log": "ValueError: no such order"}',
        '{"error": ',
        '["error"]',
    ],
)
def test_other_results_are_not_errors(result: str) -> None:
    """Proves: TRAJ-1."""
    assert not is_error_result(result)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": LIMITED},
        {"role": "tool", "tool_call_id": "c1", "content": LIMITED},
        {"type": "tool", "data": {"content": LIMITED, "type": "tool", "tool_call_id": "c1", "status": "success"}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": LIMITED}]},
    ],
)
def test_an_unmarked_error_is_found_and_teaches_and_ends_a_run(message: dict[str, object]) -> None:
    """Proves: TRAJ-1, TRAJ-2, TRAJ-5 (as an error that its source marks)."""
    run = convert_run([ASKED, CALLED, message])
    assert run.execution.status == "error"
    assert f"Error: {LIMITED}" in searchable_text(run).splitlines()
    again = {**CALLED, "tool_calls": [{"id": "c2", "name": "credit", "arguments": {"order": "A-1"}}]}
    assert "corrected-errors" in score_by_rules(convert_run([ASKED, CALLED, message, again])).tags


@pytest.mark.parametrize("mark", [{"error": False}, {"is_error": False}])
def test_a_source_that_says_there_is_no_error_is_right(mark: dict[str, object]) -> None:
    """Proves: TRAJ-1."""
    run = convert_run([ASKED, CALLED, {"role": "tool", "tool_call_id": "c1", "content": LIMITED, **mark}])
    assert run.messages()[-1].error is None
