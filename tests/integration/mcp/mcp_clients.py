"""The SDK's own client, over HTTP and over standard input and output, and its parsed answers."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

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
