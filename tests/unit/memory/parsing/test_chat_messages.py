"""Messages of several frameworks, read into one shape with nothing dropped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from recall_loop.memory.parsing.chat_messages import parse_message
from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.trajectories import RunData, ToolUse, TurnMessage
from recall_loop.state.types import Role

LANGCHAIN = [
    SystemMessage("Be brief."),
    HumanMessage("Where is Ada?"),
    AIMessage(
        "",
        tool_calls=[{"name": "look", "args": {"who": "Ada"}, "id": "c1"}],
        response_metadata={"model_name": "m-1", "finish_reason": "tool_calls"},
        usage_metadata={"input_tokens": 10, "output_tokens": 4, "total_tokens": 14},
    ),
    ToolMessage("Oslo", tool_call_id="c1", name="look"),
    AIMessage("In Oslo.", response_metadata={"model_name": "m-1", "finish_reason": "stop"}),
]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who": "Ada"}'}}
OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is Ada?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "Oslo"},
    {"role": "assistant", "content": "In Oslo."},
]
FLAT = [
    *OPENAI[:2],
    {"role": "assistant", "content": "", "tool_calls": [{"name": "look", "arguments": {"who": "Ada"}}]},
    {"role": "tool", "content": "Oslo", "name": "look"},
    OPENAI[4],
]
BLOCKS = [
    *OPENAI[:2],
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"who": "Ada"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Oslo"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "In Oslo."}]},
]


def messages(run: RunData) -> list[TurnMessage]:
    return [message for turn in run.turns for message in turn.messages]


@pytest.mark.parametrize(
    "given",
    [
        LANGCHAIN,
        messages_to_dict(LANGCHAIN),
        [message.model_dump() for message in LANGCHAIN],
        [message.to_json() for message in LANGCHAIN],
        OPENAI,
        FLAT,
        BLOCKS,
    ],
    ids=["langchain", "langchain dicts", "langchain dumps", "langchain json", "openai", "flat", "blocks"],
)
def test_every_source_gives_the_same_run(given: list[Any]) -> None:
    """Proves: TRAJ-1."""
    run = convert_run(given)
    assert run.task == "Where is Ada?"
    assert [message.role for message in messages(run)] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    assert [message.content for message in messages(run)] == ["Be brief.", "Where is Ada?", "", "Oslo", "In Oslo."]
    (call,) = messages(run)[2].tool_calls
    assert (call.name, call.arguments) == ("look", {"who": "Ada"})
    assert [len(turn.messages) for turn in run.turns] == [4, 1]
    assert (run.metadata.step_count, run.metadata.message_count, run.metadata.tools_used) == (2, 5, ("look",))
    assert run.execution.status == "completed"


def test_langchain_messages_have_models_tokens_and_reasons() -> None:
    """Proves: TRAJ-1."""
    run = convert_run(LANGCHAIN)
    assert (run.metadata.input_tokens, run.metadata.output_tokens, run.metadata.models) == (10, 4, ("m-1",))
    assert run.metadata.stop_reason == "stop"
    assert [turn.stop_reason for turn in run.turns] == ["tool_calls", "stop"]
    assert messages(run)[3].tool_call_id == "c1"


def test_errors_of_tools_are_kept() -> None:
    """Proves: TRAJ-1."""
    given = [
        {"role": "tool", "content": "no such plan", "error": True},
        {"role": "tool", "content": "fine", "error": False},
        {"role": "tool", "content": "x", "error": "Timeout"},
        ToolMessage("broke", tool_call_id="1", status="error"),
        {"role": "user", "content": [{"type": "tool_result", "content": "bad", "is_error": True}]},
    ]
    assert [message.error for message in messages(convert_run(given))] == [
        "no such plan",
        None,
        "Timeout",
        "broke",
        "bad",
    ]
    assert convert_run(given[:1]).execution.status == "error"


def test_calls_that_cannot_be_read_are_kept_as_they_stand() -> None:
    """Proves: TRAJ-1."""
    invalid = AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{oops", "id": "i", "error": "bad JSON"}])
    calls = [
        {"function": {"name": "f", "arguments": "{oops"}},
        {"function": {"name": "g", "arguments": "[1, 2]"}},
        {"name": "h", "arguments": [1]},
        {"arguments": None},
        "just a name",
    ]
    found = messages(convert_run([invalid, {"role": "assistant", "tool_calls": calls}]))
    assert found[0].tool_calls == (ToolUse(name="f", arguments="{oops", id="i", error="bad JSON"),)
    assert [(call.name, call.arguments) for call in found[1].tool_calls] == [
        ("f", "{oops"),
        ("g", "[1, 2]"),
        ("h", "[1]"),
        ("(unnamed)", {}),
        ("(unnamed)", {}),
    ]
    assert found[1].tool_calls[4].extra == {"value": "just a name"}


def test_unknown_fields_go_to_extra() -> None:
    """Proves: TRAJ-1."""
    picture = {"type": "image_url", "image_url": {"url": "a.png"}}
    given = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Look"}, picture],
        "id": "m1",
        "weight": 2,
        "when": datetime(2024, 5, 1, tzinfo=UTC),
        "tool_calls": [{"name": "f", "requestor": "user"}],
    }
    (found,) = messages(convert_run([given]))
    assert found.content == "Look"
    assert found.extra == {"id": "m1", "weight": 2, "when": "2024-05-01T00:00:00+00:00", "blocks": [picture]}
    assert found.tool_calls[0].extra == {"requestor": "user"}


def test_odd_roles_texts_pairs_and_objects_are_read() -> None:
    """Proves: TRAJ-1."""
    given = ["Hello", ("ai", "Hi"), {"role": "planner", "content": "Plan"}, AIMessageChunk("More")]
    given += [SimpleNamespace(role="developer", content="Rules"), {"type": "human", "content": None}]
    found = messages(convert_run(given))
    assert [message.role.value for message in found] == [
        "user",
        "assistant",
        "assistant",
        "assistant",
        "system",
        "user",
    ]
    assert found[2].extra == {"role": "planner"}


def test_an_invalid_message_is_named() -> None:
    """Proves: TRAJ-1."""
    with pytest.raises(InvalidInputError, match=r"messages\.1: got 7"):
        convert_run(["x", 7])
    for given in ({"role": "user"}, "text", b"x"):
        with pytest.raises(InvalidInputError, match="a list of messages"):
            convert_run(given)  # type: ignore[arg-type]


def test_texts_that_no_store_can_hold_are_made_fit() -> None:
    """Proves: TRAJ-1."""
    deep: Any = "bottom"
    for _ in range(200):
        deep = [deep]
    call = {"name": "f\x00", "arguments": {"\ud800": float("nan"), "deep": deep, "big": 1 << 5000}}
    run = convert_run([{"role": "user", "content": "a\x00b\ud800", "tool_calls": [call]}])
    assert run.task == "a\ufffdb\ufffd"
    assert json.loads(run.model_dump_json())["turns"][0]["messages"][0]["tool_calls"][0]["name"] == "f\ufffd"


def test_steps_that_a_source_names_make_the_turns() -> None:
    """Messages without a step stay, between those that have one.

    Proves: TRAJ-1.
    """
    steps = ["1", "1", None, None, "2", "2"]
    roles = ["assistant", "tool", "assistant", "tool", "assistant", "tool"]
    given = [{"role": role, "content": "x", "step_id": step} for role, step in zip(roles, steps, strict=True)]
    run = convert_run(given)
    assert [(turn.step_id, len(turn.messages)) for turn in run.turns] == [("1", 2), (None, 2), ("2", 2)]
    assert run.metadata.step_count == 3


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2024-05-01T09:30:00Z", datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        (1_714_555_800, datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        (1_714_555_800_000, datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        (datetime(2024, 5, 1, 9, 30), datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
    ],
)
def test_times_in_several_spellings(value: Any, moment: datetime) -> None:
    """Proves: TRAJ-1."""
    run = convert_run([{"role": "user", "content": "x", "created_at": value}])
    assert messages(run)[0].timestamp == moment
    assert (run.metadata.start_time, run.metadata.end_time, run.metadata.duration_seconds) == (moment, moment, 0.0)


def test_an_invalid_time_stays_in_extra() -> None:
    """Proves: TRAJ-1."""
    (heard,) = parse_message({"role": "user", "content": "x", "timestamp": "yesterday"})
    assert heard.timestamp is None
    assert heard.extra == {"timestamp": "yesterday"}
