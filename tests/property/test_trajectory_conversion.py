"""Laws of conversion over generated runs: nothing is dropped, nothing secret is kept, nothing breaks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.parsing.foreign_json import clean_text
from recall_loop.memory.trajectories.capture.convert import RunInfo, convert_run
from recall_loop.memory.trajectories.capture.execution_status import RunEnding, classify_execution
from recall_loop.memory.trajectories.capture.masking import MASK
from recall_loop.state.records.records import RECORD_ADAPTER
from recall_loop.state.records.trajectories import run_from_record, trajectory_record

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["content", "name", "id", "error", "step_id", "timestamp", "usage", "model", "tool_call_id"])
CALLS = st.lists(
    st.dictionaries(st.sampled_from(["name", "arguments", "args", "id", "function", "x"]), VALUES, max_size=4),
    max_size=2,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "human", "ai", "planner"])
ANY_MESSAGE = st.builds(
    lambda role, fields, calls: {**fields, "role": role, "tool_calls": calls},
    ROLES,
    st.dictionaries(NAMES | st.text(max_size=6), VALUES, max_size=4),
    CALLS,
)
PLAIN_MESSAGE = st.fixed_dictionaries({"role": ROLES, "content": st.text(max_size=30)})
WORDS = st.sampled_from([None, "completed", "failed", "max_steps", "end_turn", "tool_error", "odd", "cancelled"])


@given(st.lists(ANY_MESSAGE, min_size=1, max_size=6))
def test_any_json_like_messages_convert_and_can_be_stored(messages: list[dict[str, Any]]) -> None:
    """Proves: TRAJ-1."""
    run = convert_run(messages)
    said = [message for turn in run.turns for message in turn.messages]
    assert len(said) == run.metadata.message_count >= len(messages)
    assert sum(len(message.tool_calls) for message in said) >= sum(len(one["tool_calls"]) for one in messages)
    record = trajectory_record(run, id="t")
    assert run_from_record(RECORD_ADAPTER.validate_json(record.model_dump_json())) == run


@given(st.lists(PLAIN_MESSAGE, max_size=12))
def test_texts_and_their_order_stay(messages: list[dict[str, str]]) -> None:
    """Proves: TRAJ-1."""
    run = convert_run(messages)
    said = [message.content for turn in run.turns for message in turn.messages]
    assert said == [clean_text(message["content"]) for message in messages] or MASK in "".join(said)
    assert all(turn.messages for turn in run.turns)


@given(st.text("abcdefgh123456789!", min_size=6, max_size=30).filter(lambda text: not text.isalpha()), VALUES)
def test_a_named_secret_is_nowhere_in_the_run(secret: str, other: Any) -> None:
    """Proves: TRAJ-1."""
    secret = f"%{secret}%"  # so that no other word of the run holds it by chance
    call = {"name": "login", "arguments": {"deep": [{"api_key": secret}], "other": other}}
    messages = [
        {"role": "user", "content": f"my key is {secret}."},
        {"role": "assistant", "content": "", "tool_calls": [call], "note": {"again": secret}},
        {"role": "tool", "content": f"{secret} is fine", "error": f"no: {secret}"},
    ]
    run = convert_run(messages, RunInfo(error=f"bad {secret}", task=f"use {secret}", extra={"a": [secret]}))
    assert secret not in run.model_dump_json()


@given(WORDS, WORDS, st.none() | st.text(max_size=5), st.booleans(), st.lists(PLAIN_MESSAGE, max_size=4))
def test_every_ending_has_a_status_with_a_reason(
    status: str | None, reason: str | None, error: str | None, waiting: bool, messages: list[dict[str, str]]
) -> None:
    """Proves: TRAJ-1."""
    said = [message for turn in convert_run(messages).turns for message in turn.messages]
    found = classify_execution(RunEnding(status, reason, error, waiting, said))
    assert 0.5 <= found.confidence <= 1.0
    assert found.reasoning
    assert (found.status == "error") >= bool(error)
