"""The SDK's own client, over HTTP and over standard input and output, and its parsed answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.processes.forked_process import ForkedProcess

READ_TOOLS = {"retrieve", "search", "search_trajectories", "list", "history"}
RECORDS: list[dict[str, Any]] = [
    {
        "id": "f1",
        "kind": "fact",
        "text": "The ferry leaves at nine.",
        "agent_id": "lena",
        "group_id": "hill",
        "user_id": "u1",
    },
    {
        "id": "f2",
        "kind": "fact",
        "text": "Tove repairs the jetty.",
        "agent_id": "tomas",
        "group_id": "hill",
        "user_id": "u2",
    },
    {"id": "f3", "kind": "fact", "text": "Nothing leaves on Sundays, not even the ferry.", "agent_id": "oskar"},
    {"id": "t1", "kind": "trajectory", "text": "Booked the ferry for Joel.", "agent_id": "lena"},
]
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
OTHERS = [{"id": "s1", "kind": "fact", "text": "The secret ferry leaves at midnight."}]


def data(result: Any) -> Any:
    assert not result.is_error, result.content
    return result.structured_content


def fault(result: Any) -> dict[str, Any]:
    assert result.is_error
    error = result.structured_content["error"]
    assert error["message"] == result.content[0].text
    return error


def ids(result: Any) -> set[str]:
    return {hit["id"] for hit in data(result)["hits"]}


@asynccontextmanager
async def client_of(served: Any, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    service, keys = served
    headers = {"Authorization": f"Bearer {keys[key]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{service.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def spoken(place: Path | str, *words: str) -> AsyncIterator[Client]:
    command = ["-m", "recall_loop.cli", "mcp", "--store", str(place), "--log-level", "debug", *words]
    # Everything of this process's environment, for the command is to run the same code.
    async with Client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))) as client:
        yield client


def request_line(method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})


class Peer:
    """The server in a process of its own, spoken to line by line."""

    def __init__(self, process: ForkedProcess) -> None:
        self._process = process
        self.server = self.result("initialize", **OPENING)
        self.say(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def say(self, line: str) -> None:
        """Send a line."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def asked(self, line: str) -> dict[str, Any]:
        """Send a line, and return the next that comes."""
        self.say(line)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def answer(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its answer."""
        return self.asked(request_line(method, **params))

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return the result."""
        found: dict[str, Any] = self.answer(method, **params)["result"]
        return found

    def called(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its data."""
        result = self.result("tools/call", name=tool, arguments=arguments)
        assert not result["isError"], result
        found: dict[str, Any] = result["structuredContent"]
        return found
