"""What a review of trajectories found: odd files, secrets in other shapes, old records, and scoring meanwhile."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.adapters.tools import trajectory_tool
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import RunInfo, convert_run
from recall_loop.memory.trajectories.capture.masking import make_masking
from recall_loop.memory.trajectories.capture.runs_file import read_runs, record_from_run
from recall_loop.memory.trajectories.scoring.outcome_scoring import score_by_rules
from recall_loop.memory.trajectories.scoring.pending_scores import add_trajectories, score_pending
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import RunData, run_attributes, run_from_record
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

SAID = [{"role": "user", "content": "Book the ferry."}, {"role": "assistant", "content": "Booked."}]


def called(arguments: Any, *results: str, **options: Any) -> str:
    call = {"id": "1", "function": {"name": "send", "arguments": arguments}}
    said = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    return convert_run([*said, *({"role": "tool", "content": text} for text in results)], **options).model_dump_json()


def upgraded(attributes: dict[str, Any]) -> RunData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return run_from_record(Trajectory(id="t", text="old", attributes=attributes))


def test_a_role_of_no_kind_spoils_no_other_line(tmp_path: Path) -> None:
    """Proves: TRAJ-1."""
    path = tmp_path / "runs.jsonl"
    lines: list[Any] = [{"messages": [{"role": ["user"], "content": "x"}]}, {"messages": SAID}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert [isinstance(run, Trajectory) for _, run in read_runs(path)] == [True, True]


@pytest.mark.parametrize("none", [False, 0, {}, [], "", None])
def test_an_error_field_that_is_false_is_not_an_error(none: Any) -> None:
    """Proves: TRAJ-1."""
    call = {"name": "send", "arguments": {}, "error": none}
    messages = [SAID[0], {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "ok", "error": none}]
    run = run_from_record(record_from_run({"error": none, "exception": none, "messages": [*messages, SAID[1]]}))
    assert run.execution.status == "completed" and run.metadata.error is None
    spoken = [message for turn in run.turns for message in turn.messages]
    assert not any(message.error or any(call.error for call in message.tool_calls) for message in spoken)


def test_equal_words_of_two_agents_or_of_two_days_are_two_runs() -> None:
    """Proves: TRAJ-1."""
    lines = [
        {"messages": SAID, "agent_id": "a"},
        {"messages": SAID, "agent_id": "b"},
        {"messages": SAID, "start_time": "2024-05-01T00:00:00Z"},
    ]
    assert len({record_from_run(line).id for line in lines}) == 3
    assert record_from_run(lines[0]).id == record_from_run(lines[0]).id


def test_written_snapshots_are_read_and_odd_tags_are_kept() -> None:
    """Proves: TRAJ-1."""
    run = run_from_record(record_from_run({"states": [{"values": {"messages": SAID}, "next": []}], "tags": "urgent"}))
    assert run.task == "Book the ferry." and run.metadata.extra["tags"] == "urgent"


@pytest.mark.parametrize(
    "arguments",
    [
        {"api_keys": ["zz11yy22"], "passwords": {"root": "zz11yy22"}, "new_password1": "zz11yy22"},
        {"fields": [{"name": "password", "value": "zz11yy22"}], "headers": [{"key": "X-Api-Key", "value": "zz11yy22"}]},
        {"body": json.dumps({"cookie": "zz11yy22", "deep": [json.dumps({"ssn": "zz11yy22"})]})},
        [{"cookie": "zz11yy22"}, {"ssn": "zz11yy22"}],
        json.dumps([{"otp": "zz11yy22"}]),
        '{"cookie": "zz11yy22", "ssn": "zz11yy22", "cut": "o',
    ],
)
def test_secrets_in_every_shape_of_arguments(arguments: Any) -> None:
    """Proves: TRAJ-1 (secrets in tool arguments, and the same values elsewhere)."""
    written = called(arguments, masking=make_masking(keys=["^ssn$"]))
    assert "zz11yy22" not in written and "[masked]" in written


def test_numbers_and_long_words_are_masked_where_they_stand_again() -> None:
    """Proves: TRAJ-1."""
    written = called({"password": "correcthorsebattery", "otp": 84736251}, "I typed correcthorsebattery and 84736251")
    assert "correcthorse" not in written and "84736251" not in written


def test_counts_of_tokens_and_deep_arguments_stay() -> None:
    """Proves: TRAJ-1."""
    assert '"max_tokens":4096' in called({"max_tokens": 4096, "tokens": 12})
    assert "[[[" in called(json.dumps({"body": "[" * 900 + "]" * 900}))


def test_a_reason_to_stop_is_masked() -> None:
    """Proves: TRAJ-1."""
    messages = [SAID[0], {**SAID[1], "stop_reason": "error: token=abcdef123"}]
    written = convert_run(messages, RunInfo(stop_reason="error: password=hunter22x")).model_dump_json()
    assert "abcdef123" not in written and "hunter22x" not in written


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["a." * 400_000 + " http://x", "eyJ-" * 200_000], ids=["dots", "keys"])
def test_masking_takes_time_in_proportion(text: str) -> None:
    """Proves: TRAJ-1 (in quadratic time this took minutes)."""
    convert_run([("user", text)])


@pytest.mark.parametrize(
    "odd",
    [{"complexity_level": {}}, {"metadata": {"x": 1, "extra": "y"}}, {"turns": [{"messages": 5}]}, {"turns": [3, {}]}],
)
def test_an_odd_old_record_breaks_no_search(odd: dict[str, Any]) -> None:
    """Proves: TRAJ-4."""
    assert upgraded({"outcome": "success", **odd}).execution.status == "completed"


def test_nothing_of_an_old_turn_is_lost_and_none_pushes_the_others_out() -> None:
    """Proves: TRAJ-4."""
    call = {"type": "odd", "name": "outer", "function": {"name": "search", "arguments": "{}"}}
    good = {"role": "user", "content": [{"type": "text", "text": "make a world"}], "extra": "kept-extra"}
    turns = [
        {"step_id": "s1", "tokens": 71, "messages": [good, {"role": "human", "content": "more", "tool_calls": [call]}]},
        {"step_id": "s2", "tokens": 72, "messages": []},
        {"step_id": "s3", "messages": "kept-odd"},
    ]
    run = upgraded({"outcome": "success", "turns": turns, "extra": {"task": "kept-one"}, "task": {"kept": "two"}})
    spoken = [message for turn in run.turns for message in turn.messages]
    assert [(message.role, message.content) for message in spoken] == [("user", "make a world"), ("user", "more")]
    assert spoken[1].tool_calls[0].name == "search"
    written = json.dumps(run_attributes(run))
    for word in ("71", "72", "kept-extra", "kept-odd", "kept-one", "two", "odd", "outer", "human"):
        assert word in written


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "old", [{"outcome": {"type": "success", "score": 0.8}}, {"data": {"turns": [], "outcome_score": 0.8}}]
)
def test_scoring_leaves_the_score_of_an_old_record(old: dict[str, Any]) -> None:
    """Proves: TRAJ-2, TRAJ-4."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([Trajectory(id="t", text="old", attributes=old)])
        assert score_pending(store, score_by_rules).scored == 0
        assert upgraded(dict(store.get(["t"], scope=Scope())[0].attributes)).outcome_score == 0.8


def test_what_was_erased_or_changed_while_a_scorer_thought_stays_so() -> None:
    """Proves: TRAJ-2, STORE-6."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert(
            [Trajectory(id=name, text=name, attributes={"task": name}) for name in ("gone", "changed", "left")]
        )

        def scorer(run: RunData) -> Any:
            store.delete(["gone"])
            store.upsert([Trajectory(id="changed", text="new", attributes={"task": "new"})])
            return score_by_rules(run)

        assert score_pending(store, scorer).scored == 1
        found = {record.id: run_from_record(record) for record in store.get(["gone", "changed", "left"], scope=Scope())}
        assert set(found) == {"changed", "left"} and found["changed"].task == "new"
        assert found["changed"].outcome_score is None and found["left"].outcome_score is not None


def test_the_tool_says_which_argument_is_wrong() -> None:
    """Proves: TRAJ-5."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        tool = trajectory_tool(store, Scope())
        assert "limit" in tool.invoke({"query": "x", "limit": 0})
        assert "tenant" in tool.invoke({"query": "x", "tenant": "acme"})


def test_a_learning_value_and_a_category_beside_the_messages_stay() -> None:
    """Another score or verdict is kept with the run, and judges nothing. Proves: TRAJ-1, TRAJ-2."""
    judged = {"outcome_score": 0.9, "task_category": "refund"}
    record = record_from_run({"messages": SAID, "score": 3, "complexity_level": None, **judged})
    run = run_from_record(record)
    assert (run.outcome_score, run.task_category, run.metadata.extra) == (0.9, "refund", {"score": 3})
    score = score_by_rules(run_from_record(record_from_run({"messages": SAID, "task_category": "refund"})))
    assert score.task_category == "refund" and "refund" in score.tags
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        (added,) = add_trajectories(store, [record], tenant="default", scorer=score_by_rules)
        assert (
            run_from_record(store.get([record.id], scope=Scope())[0]).outcome_score == 0.9 and added.status == "created"
        )


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"messages": SAID, "outcome_score": 9}, "outcome_score"),
        ({"messages": []}, "messages"),
        ({"states": [{"messages": []}]}, "states"),
        ({"messages": SAID, "states": [{"messages": SAID}]}, "states"),
        ({"messages": [{"role": "user", "contents": "Book it."}]}, "messages.0.contents"),
        (
            {"messages": [*SAID, {"role": "tool", "content": "x", "tool_cal_id": "1"}]},
            "messages.2.tool_cal_id",
        ),
        ({"messages": SAID, "run_status": "bogus"}, "run_status"),
        ({"messages": SAID, "start_time": "2024-05-02T00:00:00Z", "end_time": "2024-05-01T00:00:00Z"}, "end_time"),
        ({"messages": SAID, "started_at": 1_700_000_100, "finished_at": 1_700_000_000}, "finished_at"),
    ],
)
def test_what_holds_no_run_or_no_such_value_is_refused(line: dict[str, Any], field: str) -> None:
    """Proves: TRAJ-1."""
    with pytest.raises(InvalidInputError) as raised:
        record_from_run(line)
    assert raised.value.field == field


@pytest.mark.parametrize("status", ["expired", "cancelling", "requires_action", "incomplete", "queued"])
def test_states_of_hosted_runs_are_known(status: str) -> None:
    """Proves: TRAJ-1 (those of OpenAI's Assistants)."""
    assert record_from_run({"messages": SAID, "run_status": status}).text


def test_a_run_expires_when_its_line_says_so() -> None:
    """Also where only that has changed; a line that says nothing of it leaves it. Proves: TRAJ-1, LIVE-7."""
    lines = [{"id": "r", "messages": SAID, **more} for more in ({}, {"expires_at": "2999-01-01T00:00:00Z"}, {})]
    lines.append({**lines[0], "expires_at": "2020-01-01T00:00:00Z"})
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        add = lambda line: add_trajectories(store, [record_from_run(line)], tenant="default")[0].status  # noqa: E731
        assert [add(line) for line in lines] == ["created", "replaced", "unchanged", "replaced"]
        assert store.get(["r"], scope=Scope()) == []
