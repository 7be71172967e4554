"""Parsing replies, and the requested schema."""

from __future__ import annotations

import json
from enum import StrEnum

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic import BaseModel, ConfigDict, Field

from recall_loop.llm.endpoint.failures import CallError, FailureReason
from recall_loop.llm.structured.output_methods import reply_schema
from recall_loop.llm.structured.reply_parsing import message_text, parse_reply, validate_reply
from recall_loop.text.words.snippets import estimate_tokens


class Tone(StrEnum):
    CALM = "calm"


class Part(BaseModel):
    """A part."""

    text: str = Field(min_length=1)


class Plan(BaseModel):
    """Searches to make."""

    model_config = ConfigDict(extra="forbid")

    queries: list[str]
    tone: Tone = Tone.CALM
    parts: list[Part] = []
    default: Part | None = None


WANTED = {"queries": ["a {b}", 'c "d"']}
JSON = json.dumps(WANTED)


def call(args):
    return {"name": "Plan", "args": args, "id": "1", "type": "tool_call"}


def broken_call(text):
    return {"name": "Plan", "args": text, "id": "1", "error": "no JSON", "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    "result",
    [
        AIMessage(JSON),
        AIMessage(f"Sure!\n```json\n{JSON}\n```\nDoes {{that}} help?"),
        AIMessage(f"```\n{JSON}\n```"),
        AIMessage(f"I think {{so}}: {JSON} and that is {{all}}."),
        AIMessage(f'<think>Maybe {{"queries": ["draft"]}}?</think>{JSON}'),
        AIMessage(f"<thinking>a<think>b</think>{JSON}<think>{{}}</thinking>"),
        AIMessage([{"type": "text", "text": JSON[:9]}, {"type": "text", "text": JSON[9:]}]),
        AIMessage([JSON]),
        AIMessage([{"type": "reasoning", "reasoning": "{}"}, {"type": "output_text", "text": JSON}]),
        AIMessage("", tool_calls=[call(WANTED)]),
        AIMessage("Calling.", tool_calls=[call(WANTED)]),
        AIMessage("", invalid_tool_calls=[broken_call(f"```json\n{JSON}```")]),
        AIMessage("", additional_kwargs={"parsed": WANTED}),
        AIMessage("", additional_kwargs={"parsed": Plan(**WANTED)}),
        AIMessage(json.dumps({"name": "Plan", "arguments": WANTED})),
        AIMessage(json.dumps({"Plan": WANTED})),
        AIMessage('{"queries": ["a {b}", "c \\"d\\""], "parts": [{"text": "line\nbreak"}]}'),
        {"raw": AIMessage("none here"), "parsed": WANTED, "parsing_error": None},
        {"raw": AIMessage(JSON), "parsed": None, "parsing_error": ValueError("no")},
        WANTED,
        Plan(**WANTED),
        JSON,
    ],
)
def test_an_object_is_read_in_whichever_form_it_comes(result):
    """Proves: LOOP-8."""
    assert validate_reply(parse_reply(result), Plan).queries == WANTED["queries"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (AIMessage(""), FailureReason.EMPTY),
        (AIMessage(" \n"), FailureReason.EMPTY),
        (None, FailureReason.EMPTY),
        (AIMessage("No JSON {at} all {"), FailureReason.NOT_JSON),
        (AIMessage("[1, 2]"), FailureReason.NOT_JSON),
        (AIMessage("null"), FailureReason.NOT_JSON),
        (AIMessage("{" * 5000), FailureReason.NOT_JSON),
        (AIMessage('{"a":' * 5000), FailureReason.NOT_JSON),
        (AIMessage("[" * 100_000), FailureReason.NOT_JSON),
        (AIMessage("```json\n" + "[" * 20_000 + "\n```"), FailureReason.NOT_JSON),
        (AIMessage('{"a":' * 5000 + "1" + "}" * 5000), FailureReason.NOT_JSON),
        # A second and not minutes: thoughts that begin and never end.
        (AIMessage("</think>" + "<think>" * 25_000), FailureReason.NOT_JSON),
        (AIMessage("x" * 1_000_001), FailureReason.TOO_LONG),
        (AIMessage("", tool_calls=[call({**WANTED, "more": "x" * 1_000_000})]), FailureReason.TOO_LONG),
        (AIMessage("", invalid_tool_calls=[broken_call("[" * 20_000)]), FailureReason.NOT_JSON),
        (AIMessage('{"queries": "one"}'), FailureReason.INVALID),
        (AIMessage('{"queries": ["\\ud800"]}'), FailureReason.INVALID),
        (AIMessage("", tool_calls=[call({})]), FailureReason.INVALID),
        (AIMessage(json.dumps(reply_schema(Plan).schema)), FailureReason.INVALID),
        (AIMessage("", additional_kwargs={"refusal": "no"}), FailureReason.REFUSED),
        (AIMessage([{"type": "refusal", "refusal": "no"}]), FailureReason.REFUSED),
        (AIMessage(JSON, response_metadata={"finish_reason": "content_filter"}), FailureReason.REFUSED),
        (AIMessage(JSON[:-2], response_metadata={"finish_reason": "length"}), FailureReason.TRUNCATED),
        (AIMessage(JSON[:-2], response_metadata={"stop_reason": "max_tokens"}), FailureReason.TRUNCATED),
        (
            AIMessage("", response_metadata={"incomplete_details": {"reason": "max_output_tokens"}}),
            FailureReason.TRUNCATED,
        ),
    ],
)
def test_an_invalid_value_has_a_reason(result, reason):
    """Proves: LOOP-8."""
    assert validate_reply(parse_reply(result), Plan).reason is reason


def test_a_whole_value_at_the_limit_is_fine_but_a_part_of_one_is_not():
    """Proves: LOOP-8."""
    cut = {"finish_reason": "length"}
    assert validate_reply(parse_reply(AIMessage(JSON, response_metadata=cut)), Plan).queries == WANTED["queries"]
    inner = AIMessage('{"parts": [{"text": "x"}, {"te', response_metadata=cut)
    assert validate_reply(parse_reply(inner), Part).reason is FailureReason.TRUNCATED


def test_an_object_without_any_known_field_is_never_a_value_by_defaults():
    """Proves: LOOP-8."""

    class Lenient(BaseModel):
        stop: bool = False

    assert validate_reply(parse_reply(AIMessage('{"stop": true}')), Lenient) == Lenient(stop=True)
    found = validate_reply(parse_reply(AIMessage('{"halt": true}')), Lenient)
    assert isinstance(found, CallError)
    assert found.reason is FailureReason.INVALID


def test_a_detail_names_fields_of_the_schema_only():
    """Proves: LOOP-8 (no words of a reply in a reason)."""
    found = validate_reply(
        parse_reply(AIMessage('{"queries": ["x"], "parts": [{"text": ""}], "secret words": 1}')), Plan
    )
    assert "secret" not in found.failure.detail
    assert found.failure.detail == "2 wrong, first parts.0.text: string_too_short"
    extra = validate_reply(parse_reply(AIMessage('{"queries": ["x"], "secret words": 1}')), Plan)
    assert extra.failure.detail == "1 wrong, first the object: extra_forbidden"


def test_pieces_of_a_tool_call_are_read_as_text_and_not_as_guessed():
    """Proves: LOOP-8."""
    chunks = [{"name": "Plan", "args": part, "id": "1", "index": 0} for part in (JSON[:14], JSON[14:])]
    first, second = (AIMessageChunk("", tool_call_chunks=[chunk]) for chunk in chunks)
    assert message_text(first) == JSON[:14]
    assert validate_reply(parse_reply(first + second), Plan).queries == WANTED["queries"]
    half = AIMessageChunk("", tool_call_chunks=[{**chunks[0], "args": '{"queries": ["a", "b'}])
    assert half.tool_calls[0]["args"] == {"queries": ["a", "b"]}
    assert validate_reply(parse_reply(half), Plan).reason is FailureReason.NOT_JSON


def test_the_schema_is_what_strict_mode_takes():
    """Proves: LOOP-8."""
    shape = reply_schema(Plan)
    schema = shape.schema
    assert list(schema)[:2] == ["title", "description"]
    assert (schema["title"], schema["description"]) == ("Plan", "Searches to make.")
    assert schema["required"] == ["queries", "tone", "parts", "default"]
    part = schema["$defs"]["Part"]
    assert part["required"] == ["text"]
    assert part["additionalProperties"] is False is schema["additionalProperties"]
    assert "minLength" not in part["properties"]["text"]
    assert schema["properties"]["tone"] == {"$ref": "#/$defs/Tone"}
    assert "default" not in schema["properties"]["parts"]
    assert shape.names == {"queries", "tone", "parts", "default", "text"}
    assert shape.tokens > 50


@pytest.mark.parametrize("system", ["", "You plan.", "Wörter\n\n" * 40, "{{}}" * 99])
def test_the_tokens_of_an_appended_schema_can_be_reserved(system):
    """Proves: LOOP-3, LOOP-8."""
    assert estimate_tokens(system + reply_schema(Plan).text) <= estimate_tokens(system) + reply_schema(Plan).tokens


def test_the_schemas_of_the_prompts_are_strict_throughout():
    """Proves: LOOP-8."""
    from recall_loop.prompts import replies

    kinds = [
        kind
        for kind in vars(replies).values()
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.__module__ == replies.__name__
    ]
    assert kinds

    def check(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            assert not {"oneOf", "allOf", "minLength", "maxLength"} & set(node)
            assert "$ref" not in node or list(node) == ["$ref"]
            for inner in node.values():
                check(inner)
        elif isinstance(node, list):
            for inner in node:
                check(inner)

    for kind in kinds:
        check(reply_schema(kind).schema)
