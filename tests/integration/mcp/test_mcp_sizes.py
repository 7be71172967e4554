"""What a model pays for: the tools before every conversation, and a result's data beside its text (OPS-6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema

from recall_loop.service.mcp.mcp_specs import TOOL_SPECS
from tests.integration.mcp.mcp_clients import client_of, data

_QUESTION = "Who repairs the jetty?"


def nulls(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from nulls(each)
    elif value is None:
        yield value


async def test_what_is_recalled_comes_as_data_once_and_as_far_as_the_text_shows_it(served: Any) -> None:
    """Proves: OPS-6 (nothing empty, no figures of the ranking; what the text leaves out is counted)."""
    service, keys = served
    new = [
        {"id": "j1", "kind": "fact", "text": "The mason repairs the jetty wall.", "source_ids": ["f2"]},
        {"id": "j2", "kind": "message", "role": "user", "text": "Could somebody repair the jetty?"},
    ]
    async with client_of(served, "write") as client:
        await client.call_tool("add", {"records": new})
        answer = await client.call_tool("retrieve", {"question": _QUESTION})
        with service.client(keys["write"]) as http:
            whole = http.post("/api/memory/retrieve", json={"messages": [{"content": _QUESTION}]})
        await client.call_tool("erase", {"ids": ["j1", "j2"]})
    result, text = data(answer), answer.content[0].text
    assert [fact["id"] for fact in result["facts"]] == re.findall(r"(?m)^\[(\w+)\] ", text)
    assert len(result["facts"]) + result["left_out"] == len(whole.json()["facts"]) > len(result["facts"]) >= 1
    assert not list(nulls(result)) and not {"context", "metadata"} & result.keys()
    assert result["confidence"].keys() == {"label", "score", "answerable"}
    shown = {fact["id"]: fact for fact in result["facts"]}
    assert shown["j1"]["source_ids"] == ["f2"] and shown["j1"]["text"] in text
    assert "source_ids" not in shown["f2"]


async def test_a_text_that_the_context_cuts_is_not_whole_in_the_data(served: Any) -> None:
    """Proves: OPS-6 (a pasted log doesn't fill a model's window)."""
    async with client_of(served, "other") as client:
        await client.call_tool("add", {"text": "The gull said: " + "gull " * 90_000})
        answer = await client.call_tool("retrieve", {"question": "What did the gull say?", "max_facts": 1})
    (fact,) = data(answer)["facts"]
    assert fact["text"].startswith("The gull said") and len(fact["text"]) <= len(answer.content[0].text) < 100_000


def test_the_list_of_tools_takes_less_than_60_kilobytes() -> None:
    """Proves: OPS-6 (records of any kind still match what is told of them)."""
    tools = {name: spec.tool for name, spec in TOOL_SPECS.items()}
    assert sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools.values()) < 60_000
    assert max(len(json.dumps(tool.output_schema)) for tool in tools.values()) < 5_000
    for kind in ("fact", "archival", "message", "trajectory"):
        record = {"id": "x", "kind": kind, "text": "The jetty.", "tags": []}
        jsonschema.validate({"records": [record]}, tools["list"].output_schema)
        jsonschema.validate({"record": record}, tools["update"].output_schema)
