"""Each filter of trajectories, alone, asks for trajectories, wherever it is given (SEARCH-3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from recall_loop.cli.main import main
from recall_loop.graph.run import retrieve
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import Record
from recall_loop.state.scope import TRAJECTORY_FILTERS, Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from tests.service_server import ServiceThread, running_service

QUESTION = "Who books the ferry?"
RUN = {
    "task": "Book the ferry.",
    "execution": {"status": "failed"},
    "outcome_score": 0.8,
    "metadata": {"tools_used": ["book"]},
    "task_category": "travel",
    "complexity_level": "complex",
}
RECORDS: list[dict[str, Any]] = [
    {"id": "f", "kind": "fact", "text": "Tove books the ferry."},
    {"id": "m", "kind": "message", "text": "I book the ferry.", "role": "user"},
    {"id": "a", "kind": "archival", "text": "Who books the ferry pays for it.", "label": "rules"},
    {"id": "t", "kind": "trajectory", "text": "Booked the ferry.", "attributes": RUN},
]
FILTERS: dict[str, Any] = {
    "execution_status": "failed",
    "min_outcome_score": 0.5,
    "max_outcome_score": 0.9,
    "above_outcome_score": 0.5,
    "below_outcome_score": 0.9,
    "scored": True,
    "tools_used": ["book"],
    "task_category": "travel",
    "complexity_level": "complex",
}
EACH = [{name: value} for name, value in FILTERS.items()]


@pytest.fixture(scope="module")
def folder(embedder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "store"
    with MemoryStore.open(path, embedder=embedder) as store:
        store.upsert(Record(**one) for one in RECORDS)
    return path


@pytest.fixture(scope="module")
def served(embedder, folder: Path) -> Iterator[ServiceThread]:
    settings = Settings(store_path=str(folder))
    with running_service(settings=settings, embedder=embedder, config={"read_only": True}) as service:
        yield service


def test_every_filter_is_tried() -> None:
    """Proves: SEARCH-3."""
    assert set(FILTERS) == set(TRAJECTORY_FILTERS)


@pytest.mark.parametrize("filters", EACH, ids=list(FILTERS))
def test_in_the_library_and_on_the_command_line(
    folder: Path, filters: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: SEARCH-3."""
    with MemoryStore.open(folder, read_only=True) as store:
        found = search(store, QUESTION, scope=Scope(), params=SearchParams(filters=Filters(**filters)))
        recalled = retrieve({"messages": [{"content": QUESTION}], "filters": filters}, store=store)
    assert [hit.record.id for hit in found.hits] == [fact.id for fact in recalled.facts] == ["t"]
    ((name, value),) = filters.items()
    text = value[0] if isinstance(value, list) else json.dumps(value).strip('"')
    for verb, key in (("search", "hits"), ("retrieve", "facts")):
        assert main([verb, QUESTION, "--store", str(folder), "--json", "--filter", f"{name}={text}"]) == 0
        assert [one["id"] for one in json.loads(capsys.readouterr().out)[key]] == ["t"]


@pytest.mark.parametrize("filters", EACH, ids=list(FILTERS))
async def test_over_http_and_mcp(served: ServiceThread, filters: dict[str, Any]) -> None:
    """Proves: SEARCH-3."""
    with served.client() as client:
        found = client.post("/api/memory/search", json={"query": QUESTION, "filters": filters}).json()
        asked = {"messages": [{"content": QUESTION}], "filters": filters}
        recalled = client.post("/api/memory/retrieve", json=asked).json()
    assert [one["id"] for one in found["hits"]] == [one["id"] for one in recalled["facts"]] == ["t"]
    async with Client(streamable_http_client(f"{served.url}/mcp")) as mcp:
        found = (await mcp.call_tool("search", {"query": QUESTION, "filters": filters})).structured_content
        recalled = (await mcp.call_tool("retrieve", {"question": QUESTION, "filters": filters})).structured_content
    assert [one["id"] for one in found["hits"]] == ["t"]
    assert len(recalled["facts"]) + recalled["left_out"] == 1  # weak ones are counted only


def test_types_that_are_named_win(folder: Path) -> None:
    """Proves: SEARCH-3 (what is asked for is searched, and nothing there can meet the filter)."""
    request = {"messages": [{"content": QUESTION}], "filters": {"scored": True}, "content_types": ["fact"]}
    with MemoryStore.open(folder, read_only=True) as store:
        assert not retrieve(request, store=store).facts
        assert {fact.id for fact in retrieve(QUESTION, store=store).facts} == {"f", "m", "a"}
