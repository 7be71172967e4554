"""A run as a whole: metadata, the lines of a file, and real runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.trajectories.capture.convert import RunInfo, convert_run
from recall_loop.memory.trajectories.capture.runs_file import read_runs, record_from_run
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import ExecutionStatus

ASKED = {"role": "user", "content": "Where is Ada?"}
ANSWERED = {"role": "assistant", "content": "In Oslo."}


def test_the_callers_fields_override_those_of_the_messages() -> None:
    """Proves: TRAJ-1."""
    start, end = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)
    info = RunInfo(
        "r", "Find", "Found", "completed", "end_turn", None, False, start, end, None, 5, 6, "m", "t", {"a": 1}
    )
    run = convert_run(
        [{**ASKED, "timestamp": "2023-01-01T00:00:00Z"}, {**ANSWERED, "usage": {"prompt_tokens": 1}}], info
    )
    metadata = run.metadata
    assert (run.task, run.summary, metadata.run_id, metadata.run_type) == ("Find", "Found", "r", "t")
    assert (metadata.start_time, metadata.end_time, metadata.duration_seconds) == (start, end, 86_400.0)
    assert (metadata.input_tokens, metadata.output_tokens, metadata.models) == (5, 6, ("m",))
    assert metadata.extra == {"a": 1, "run_status": "completed"}
    assert run.execution.status is ExecutionStatus.COMPLETED


def test_a_run_of_nothing_is_a_run() -> None:
    """Proves: TRAJ-1."""
    run = convert_run([])
    assert (run.task, run.turns, run.execution.status) == ("", (), ExecutionStatus.UNKNOWN)


def test_a_reward_or_verdict_is_kept_and_never_read_as_status() -> None:
    """Proves: TRAJ-1, TRAJ-2."""
    line: dict[str, Any] = {"id": "a", "messages": [ASKED, ANSWERED], "stop_reason": "end_turn"}
    for verdict in ({"status": "failure", "reward": 0.0}, {"status": "success", "reward": 1.0}):
        run = run_from_record(record_from_run({**line, **verdict}))
        assert run.execution == run_from_record(record_from_run(line)).execution
        assert run.metadata.extra == verdict
        assert run.outcome_score is None
    assert run_from_record(record_from_run({**line, "status": "cancelled"})).execution.status is ExecutionStatus.FAILED


def test_a_line_says_what_is_known_under_several_names() -> None:
    """Proves: TRAJ-1."""
    record = record_from_run(
        {
            "run_id": "a",
            "messages": [ASKED],
            "termination": "max_steps",
            "agent_model": "m",
            "timestamp": "2024-05-01T09:30:00Z",
            "duration_s": 2.5,
            "agent_id": "g",
            "tags": ["x", "x", " "],
            "colour": "red",
        }
    )
    run = run_from_record(record)
    assert (record.id, record.agent_id, record.tags) == ("a", "g", ("x",))
    assert record.created_at == datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    assert (run.metadata.duration_seconds, run.metadata.models) == (2.5, ("m",))
    assert run.execution.status is ExecutionStatus.INCOMPLETE
    assert run.metadata.extra == {"colour": "red"}


def test_ids_are_made_of_what_a_run_holds() -> None:
    """Proves: TRAJ-1, STORE-2."""
    first, again, other = (record_from_run({"messages": given}) for given in ([ASKED], [ASKED], [ASKED, ANSWERED]))
    assert first == again
    assert first.id != other.id


def test_a_converted_line_reads_back_as_itself() -> None:
    """Proves: TRAJ-1."""
    record = record_from_run({"id": "a", "messages": [ASKED, ANSWERED], "tags": ["x"]})
    assert record_from_run(json.loads(record.model_dump_json(exclude_defaults=True))) == record


def test_bad_lines_spoil_no_other(tmp_path: Path) -> None:
    """Proves: TRAJ-1."""
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps({"messages": [ASKED]}), "", "{", "[]", "{}", json.dumps({"messages": [7]}), "\xff"]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    found = list(read_runs(path))
    assert [(number, isinstance(run, Trajectory)) for number, run in found] == [
        (1, True),
        (3, False),
        (4, False),
        (5, False),
        (6, False),
        (7, False),
    ]
    assert "messages: got None" in found[3][1].reason
    assert "messages.0: got 7" in found[4][1].reason
    with pytest.raises(InvalidInputError, match="a list of messages"):
        record_from_run({"messages": "x"})


@pytest.mark.data
def test_real_runs_convert_and_nothing_is_dropped(data_dir: Path, tmp_path: Path) -> None:
    """Every third of them, and those with a rare end: recorded limits and errors are found, whatever the reward.

    Proves: TRAJ-1.
    """
    expected = {
        "max_steps": "incomplete",
        "too_many_errors": "error",
        "user_stop": "completed",
        "agent_stop": "completed",
    }
    every = (data_dir / "tau" / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [line for at, line in enumerate(every) if at % 3 == 0 or '"too_many_errors"' in line]
    given = [json.loads(line) for line in lines]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = list(read_runs(path))
    assert len(found) == len(given) > 150 and {source["termination"] for source in given} >= set(expected)
    for source, (_, line) in zip(given, found, strict=True):
        assert isinstance(line, Trajectory)
        run = run_from_record(line)
        said = [message for turn in run.turns for message in turn.messages]
        assert [message.content for message in said] == [message["content"] for message in source["messages"]]
        assert sum(len(message.tool_calls) for message in said) == source["n_tool_calls"]
        assert list(run.metadata.tools_used) == source["tools_used"]
        assert run.execution.status == expected.get(source["termination"], run.execution.status)
    runs = [run_from_record(line) for _, line in found if isinstance(line, Trajectory)]
    assert sum(run.execution.status == "unknown" for run in runs) < len(runs) / 5
