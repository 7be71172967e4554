"""The same run in the words of every provider: what is said, what is called, and what came of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from recall_loop.memory.parsing.chat_messages import parse_message, parse_messages
from recall_loop.memory.parsing.foreign_json import to_datetime, to_json_value
from recall_loop.memory.parsing.message_fields import parse_known_message
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import Role


class Part(BaseModel):
    """As the parts of Gemini's SDK: every kind has its field."""

    text: str | None = None
    thought: bool | None = None
    function_call: dict[str, Any] | None = None
    function_response: dict[str, Any] | None = None


class Content(BaseModel):
    role: str | None = None
    parts: list[Part] | None = None


class Item(BaseModel):
    """As the items of OpenAI's Responses API."""

    type: str
    role: str | None = None
    content: list[dict[str, Any]] | None = None
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None


WHO = {"who": "Ada"}
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Where is Ada?"}]},
    {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "look", "args": WHO}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"city": "Oslo"}}}]},
    {"role": "model", "parts": [{"text": "In Oslo."}]},
]
GEMINI_OBJECTS = [
    Content(role="user", parts=[Part(text="Where is Ada?")]),
    Content(role="model", parts=[Part(text="Hm.", thought=True), Part(function_call={"name": "look", "args": WHO})]),
    Content(role="user", parts=[Part(function_response={"name": "look", "response": {"city": "Oslo"}})]),
    Content(role="model", parts=[Part(text="In Oslo.")]),
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Where is Ada?"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": WHO}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"city": "Oslo"}}]}}]},
    {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "In Oslo."}]},
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "type": "message", "content": [{"type": "input_text", "text": "Where is Ada?"}]},
    {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "look", "arguments": json.dumps(WHO)},
    {"type": "function_call_output", "call_id": "c1", "output": '{"city": "Oslo"}'},
    {
        "role": "assistant",
        "type": "message",
        "content": [{"type": "output_text", "text": "In Oslo.", "annotations": []}],
    },
]
VERCEL = [
    {"role": "user", "parts": [{"type": "text", "text": "Where is Ada?"}]},
    {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": WHO}]},
    {
        "role": "tool",
        "content": [
            {"type": "tool-result", "toolCallId": "c1", "toolName": "look"}
            | {"output": {"type": "json", "value": {"city": "Oslo"}}}
        ],
    },
    {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "In Oslo."}]},
]
PYDANTIC_AI = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where is Ada?"}]},
    {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "look", "args": WHO, "tool_call_id": "c1"}]},
    {
        "kind": "request",
        "parts": [{"part_kind": "tool-return", "tool_name": "look", "content": {"city": "Oslo"}, "tool_call_id": "c1"}],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "In Oslo."}]},
]


@pytest.mark.parametrize(
    "given",
    [GEMINI, GEMINI_OBJECTS, BEDROCK, RESPONSES, [Item(**item) for item in RESPONSES], VERCEL, PYDANTIC_AI],
    ids=["gemini", "gemini objects", "bedrock", "responses", "responses objects", "vercel", "pydantic ai"],
)
def test_every_provider_tells_the_same(given: list[Any]) -> None:
    """Proves: TRAJ-1."""
    asked, called, found, told = parse_messages(given)
    assert (asked.role, asked.content) == (Role.USER, "Where is Ada?")
    ((call,), role) = (called.calls, called.role)
    assert (role, called.content, call.name, call.arguments) == (Role.ASSISTANT, "", "look", WHO)
    assert (found.role, found.content, found.error) == (Role.TOOL, '{"city": "Oslo"}', None)
    assert found.tool_call_id == call.id
    assert (told.role, told.content) == (Role.ASSISTANT, "In Oslo.")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": {"value": "In Oslo.", "annotations": []}}], "In Oslo."),
        ([Part(text="In Oslo.")], "In Oslo."),
        ({"text": "In Oslo."}, "In Oslo."),
        ({"role": "model", "parts": [{"text": "In Oslo."}]}, "In Oslo."),
        ([{"type": "input_audio", "transcript": "In Oslo."}], "In Oslo."),
        ([{"kind": "text", "text": "In Oslo."}, "Now."], "In Oslo.\nNow."),
        ([{"type": "thinking", "thinking": "Hm.", "text": "Hm."}], ""),
        ([{"image": {"source": "…"}}, {}, 7], ""),
    ],
)
def test_what_is_said_is_found_in_every_part(content: object, text: str) -> None:
    """Proves: TRAJ-1."""
    (message,) = parse_message({"role": "assistant", "content": content})
    assert message.content == text


def test_an_answer_in_sound_is_its_transcript() -> None:
    """Proves: TRAJ-1."""
    (message,) = parse_message({"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "In Oslo."}})
    assert (message.content, message.extra["audio"]) == ("In Oslo.", {"id": "a", "transcript": "In Oslo."})


@pytest.mark.parametrize(
    "part",
    [
        {"toolResult": {"toolUseId": "c1", "content": [{"text": "no such plan"}], "status": "error"}},
        {"type": "tool_result", "tool_use_id": "c1", "content": "no such plan", "is_error": True},
        {"tool_call_result": {"result": "no such plan", "error": True}},
    ],
)
def test_a_result_that_failed_is_an_error(part: dict[str, Any]) -> None:
    """Proves: TRAJ-1."""
    (found,) = parse_message({"role": "user", "content": [part]})
    assert found.error == "no such plan"


def test_a_call_that_is_told_twice_counts_once() -> None:
    """Proves: TRAJ-1."""
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": WHO}
    twice = AIMessage([call], tool_calls=[{"id": "c1", "name": "look", "args": WHO}])
    (message,) = parse_message(twice)
    assert [one.id for one in message.calls] == ["c1"]


@pytest.mark.parametrize("given", ["1700000000", "1700000000.000000", "1700000000000"])
def test_a_time_may_be_seconds_as_text(given: str) -> None:
    """Proves: TRAJ-1."""
    assert to_datetime(given) == to_datetime(1_700_000_000)
    assert to_datetime("2024") is None


class Lazy:
    """As objects of an SDK that fetch what is asked for, and fail."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields

    def __getattr__(self, name: str) -> Any:
        if name in ("content", "text", "arguments"):
            raise ConnectionError("gone")
        raise AttributeError(name)

    def __str__(self) -> str:
        raise ConnectionError("gone")

    __repr__ = __str__


class Unread:
    def __init__(self) -> None:
        self.__dict__["unread"] = "Hi."

    def __getattribute__(self, name: str) -> Any:
        if name == "unread":
            raise ConnectionError("gone")
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (Lazy(role="user"), "content"),
        ({"role": "user", "content": [Lazy(type="text", text="Hi."), Part(text="Hi."), Unread()]}, "unread"),
        ({"role": "assistant", "content": "Hm.", "tool_calls": [Lazy(name="look")]}, "arguments"),
    ],
)
def test_an_attribute_that_cannot_be_read_is_named(given: object, field: str) -> None:
    """Proves: API-2."""
    with pytest.raises(InvalidInputError, match=rf"messages\.3\.{field}: got ConnectionError\('gone'\); allowed: an"):
        parse_message(given, "messages.3")


def test_whatever_stands_beside_the_text_hinders_nobody() -> None:
    """Proves: TRAJ-1. Objects that can't be written or compared, odd names, things within themselves."""
    tree: dict[Any, Any] = {"name": "root"}
    tree["children"] = [{"parent": tree, "root": tree} for _ in range(3)]
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep, deep]
    extra = {"tree": tree, "array": np.ones(3), "lazy": Lazy(), "set": {Lazy()}, "deep": deep, 5: "x", None: "y"}
    (message,) = parse_known_message({"role": "user", "content": ["Hi.", tree, deep], **extra}, "message")
    assert message.content == "Hi." and message.extra["lazy"] == "<Lazy>" and message.extra["5"] == "x"
    within = {"parent": "<dict within itself>", "root": "<dict within itself>"}
    assert message.extra["tree"] == {"name": "root", "children": [within] * 3}


def test_a_result_within_a_result_stays_as_it_stands() -> None:
    """Proves: TRAJ-1. Nor is any depth too much."""
    result: dict[str, Any] = {"type": "tool_result", "content": "Oslo"}
    (message,) = parse_message({"role": "user", "content": [{"type": "tool_result", "content": [result, "Ok."]}]})
    assert message.content == "Ok." and message.extra == {"blocks": [result]}
    for _ in range(1_000):
        result = {"type": "tool_result", "content": [result, "Ok."]}
    assert parse_message({"role": "user", "content": [result]})[0].content == "Ok."
    result["content"] = [result, "Ok."]
    assert parse_message({"role": "user", "content": [result]})[0].content == "Ok."


def test_a_call_without_content_has_no_blocks() -> None:
    """Proves: TRAJ-1. As OpenAI writes it."""
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    (message,) = parse_message({"role": "assistant", "content": None, "tool_calls": [call]})
    assert [one.name for one in message.calls] == ["look"] and message.extra == {}


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": "", "parts": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": [], "blocks": [{"block_type": "text", "text": "Hi."}]},
    ],
)
def test_what_is_said_stands_in_the_field_that_is_not_empty(given: dict[str, Any]) -> None:
    """Proves: TRAJ-1."""
    assert [one.content for one in parse_message(given)] == ["Hi."]


def test_a_prompt_with_an_image_keeps_both() -> None:
    """Proves: TRAJ-1. As Pydantic AI writes it."""
    image = {"kind": "image-url", "url": "x"}
    prompt = {"part_kind": "user-prompt", "content": ["Who is this?", image]}
    (message,) = parse_message({"kind": "request", "parts": [prompt]})
    assert (message.role, message.content, message.extra) == ("user", "Who is this?", {"blocks": [image]})


def test_what_is_met_once_is_kept_beside_what_is_met_too_often() -> None:
    """Proves: TRAJ-1."""
    shared = {"unit": "km"}
    found = to_json_value([{"way": at, "of": shared} for at in range(10_005)])
    assert isinstance(found, list)
    assert found[-1] == {"way": 10_004, "of": "<dict again>"} and found[0] == {"way": 0, "of": shared}
