"""The graph in LangGraph's own local server, asked over HTTP as Studio and remote graphs ask it (OPS-2)."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.agent_state import InputState
from recall_loop.state.context import Context
from recall_loop.state.types import ContentType
from tests.integration.graph.worlds import (
    DIRECT,
    NOTHING,
    NOW,
    TWO_HOPS,
    VALLEY,
    comparable_json,
    filled_store,
    valley_request,
)
from tests.ports import free_port

NEEDED = ("langgraph_cli", "langgraph_api", "langgraph_sdk")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
START_SECONDS = 90
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (the extra `studio` has them)"),
]
QUIET = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "1"}


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ok", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not answers(url):
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, embedder: Any) -> Path:
    """A store on disk."""
    path = tmp_path_factory.mktemp("memory") / "store"
    with filled_store(embedder, path):
        return path


@pytest.fixture(scope="module")
def local(folder: Path, embedder: Any) -> Iterator[Any]:
    """The same graph in this process, over the same store."""
    with MemoryStore.open(folder, embedder=embedder, create=False, read_only=True) as store:
        yield build_graph(store)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, folder: Path, root: Path) -> Iterator[str]:
    """A running server. It works in a folder of its own: what it writes stays out of the project."""
    home = tmp_path_factory.mktemp("server")
    config = json.loads((root / "langgraph.json").read_text(encoding="utf-8"))
    (home / "langgraph.json").write_text(json.dumps({**config, "dependencies": [str(root)]}), encoding="utf-8")
    port, log = free_port(), home / "server.log"
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=home,
            env={**os.environ, **QUIET, "RECALL_LOOP_STORE_PATH": str(folder), "RECALL_LOOP_TENANT": VALLEY},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


async def test_the_forms_that_studio_shows(url: str) -> None:
    """Proves: OPS-2, STOP-4 (messages to fill in; a context whose fields have bounds and a description)."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as client:
        (assistant,) = await client.assistants.search()
        assert assistant["graph_id"] == "recall_loop"
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        drawing = await client.assistants.get_graph(assistant["assistant_id"])
    given = schemas["input_schema"]
    assert given["properties"]["messages"]["type"] == "array"
    assert not given.get("required")
    fields = schemas["context_schema"]["properties"]
    assert set(fields) == set(Context.model_fields)
    for name, field in (given["properties"] | fields).items():
        assert field.get("title"), name
        assert field.get("description"), name
    for name in ("max_facts", "max_iterations", "max_context_tokens"):
        assert number_of(fields[name]) == number_of(given["properties"][name])
    for name, field in fields.items():
        number = number_of(field)
        if number is not None:
            assert None not in number, name
    assert given["properties"]["content_types"]["items"]["enum"] == list(ContentType)
    nodes = [node["id"] for node in drawing["nodes"]]
    assert nodes == ["__start__", *build_graph().builder.nodes, "__end__"]
    assert {edge["source"] for edge in drawing["edges"] if edge.get("conditional")} == {"evaluate_progress"}


def number_of(field: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the least and the most of a number's field; None for other fields."""
    for part in field.get("anyOf", [field]):
        if part.get("type") in ("integer", "number"):
            return part.get("minimum", part.get("exclusiveMinimum")), part.get("maximum")
    return None


async def test_a_plain_question_is_enough(url: str) -> None:
    """Proves: OPS-2 (what Studio's form sends where only messages are filled in: text, pairs or mappings)."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as client:
        for messages in (
            "Hello?",
            [["user", "Hello?"]],
            [{"type": "human", "content": [{"type": "text", "text": "Hello?"}]}],
        ):
            output = await client.runs.wait(None, "recall_loop", input={"messages": messages})
            assert [message["name"] for message in output["messages"]] == [None, "recall_loop"]
            # Nothing, or what the service beside it was given for the same tenant.
            assert output["stop"]["reason"] in ("nothing_in_scope", "exhausted")


@pytest.mark.parametrize("question", [DIRECT, TWO_HOPS, NOTHING])
async def test_a_run_gives_what_a_local_one_gives(url: str, local: Any, question: str) -> None:
    """Proves: LOOP-9, OPS-2 (over the client, with the tenant from the context)."""
    from langgraph_sdk import get_client

    request = {name: value for name, value in valley_request(question, debug=True).items() if name != "tenant"}
    async with get_client(url=url) as client:
        output = await client.runs.wait(None, "recall_loop", input=request, context={"tenant": VALLEY})
    assert comparable_json(output) == comparable_json(local.invoke(valley_request(question, debug=True)))
    assert output["messages"][-1]["name"] == "recall_loop"


async def test_as_a_remote_graph(url: str, local: Any) -> None:
    """Proves: LOOP-9, OPS-2 (a graph elsewhere calls it as one of its own)."""
    from langgraph.pregel.remote import RemoteGraph
    from langgraph_sdk import get_client, get_sync_client

    expected = comparable_json(local.invoke(valley_request(DIRECT)))
    async with get_client(url=url) as client:
        with get_sync_client(url=url) as sync_client:
            remote = RemoteGraph("recall_loop", client=client, sync_client=sync_client)
            assert comparable_json(await asyncio.to_thread(remote.invoke, valley_request(DIRECT))) == expected
            assert comparable_json(await remote.ainvoke(valley_request(DIRECT))) == expected


def events_of(parts: Iterable[Any]) -> list[Any]:
    """Return progress events without their durations."""
    return [{name: value for name, value in part.items() if name != "duration_ms"} for part in parts]


async def test_events_of_a_remote_graph(url: str, local: Any) -> None:
    """Proves: OPS-3, OPS-2 (streamed, alone and inside a graph of somebody else, they are those of a local run)."""
    from langgraph.graph import START, StateGraph
    from langgraph.pregel.remote import RemoteGraph
    from langgraph_sdk import get_client, get_sync_client

    expected = events_of(local.stream(valley_request(TWO_HOPS), stream_mode="custom"))
    assert {event["type"] for event in expected} == {"queries_planned", "call_done", "novelty", "stopped"}
    async with get_client(url=url) as client:
        with get_sync_client(url=url) as sync_client:
            remote = RemoteGraph("recall_loop", client=client, sync_client=sync_client)
            found = await asyncio.to_thread(lambda: list(remote.stream(valley_request(TWO_HOPS), stream_mode="custom")))
            assert events_of(found) == expected
            assert (
                events_of([part async for part in remote.astream(valley_request(TWO_HOPS), stream_mode="custom")])
                == expected
            )
            parent = StateGraph(InputState)  # a remote node is handed the state, and no context
            parent.add_node("recall", remote)
            parent.add_edge(START, "recall")
            graph = parent.compile()
            parts = [
                part async for part in graph.astream(valley_request(TWO_HOPS), stream_mode="custom", subgraphs=True)
            ]
    assert events_of(event for _, event in parts) == expected
    assert {place[0].partition(":")[0] for place, _ in parts} == {"recall"}


async def test_two_turns_on_a_thread_of_the_server(url: str) -> None:
    """Proves: LOOP-2, LOOP-10 (the server's checkpoints carry nothing from turn to turn)."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as client:
        thread = (await client.threads.create())["thread_id"]
        turns = []
        for question, moment in ((TWO_HOPS, NOW), (DIRECT, "2024-07-01T00:00:00+00:00")):
            message = {"role": "user", "content": question, "additional_kwargs": {"timestamp": moment}}
            given = {"messages": [message], "tenant": VALLEY}
            turns.append(await client.runs.wait(thread, "recall_loop", input=given))
    assert turns[0]["request_id"] != turns[1]["request_id"]
    assert turns[1]["reference_time"].startswith("2024-07-01T00:00:00")
    assert [message["name"] for message in turns[1]["messages"]] == [None, "recall_loop"] * 2
    assert turns[1]["metadata"]["iterations"] == len(turns[1]["metadata"]["new_facts_by_iteration"])


async def test_progress_events_come_over_the_wire(url: str) -> None:
    """Proves: OPS-3."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as client:
        parts = client.runs.stream(None, "recall_loop", input=valley_request(DIRECT), stream_mode="custom")
        kinds = [part.data["type"] async for part in parts if part.event == "custom"]
    assert kinds[0] == "queries_planned"
    assert kinds[-1] == "stopped"


async def test_bad_input_is_told(url: str) -> None:
    """Proves: SEARCH-2 (the error's type and text reach the client)."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as client:
        output = await client.runs.wait(
            None, "recall_loop", input=valley_request(DIRECT, max_facts=0), raise_error=False
        )
    assert "InvalidInputError" in json.dumps(output)
    assert "max_facts" in json.dumps(output)


async def test_only_a_parents_own_keys_are_passed_over(url: str) -> None:
    """Proves: GRAPH-1, SEARCH-2 (a misspelt input of a client is told; a remote node is handed the parent's state)."""
    from langgraph.graph import START, StateGraph
    from langgraph.pregel.remote import RemoteGraph
    from langgraph_sdk import get_client, get_sync_client

    class Desk(InputState, total=False):
        ticket: str

    given = valley_request(DIRECT)
    async with get_client(url=url) as client:
        output = await client.runs.wait(None, "recall_loop", input={**given, "user": "ada"}, raise_error=False)
        assert "user: got 'ada'" in json.dumps(output)
        with get_sync_client(url=url) as sync_client:
            desk = StateGraph(Desk)
            desk.add_node("recall", RemoteGraph("recall_loop", client=client, sync_client=sync_client))
            desk.add_edge(START, "recall")
            called = await desk.compile().ainvoke({**given, "ticket": "T-1"})
    assert called["ticket"] == "T-1"
    assert called["messages"][-1].name == "recall_loop"


def test_the_service_is_served_beside_it(url: str, local: Any) -> None:
    """Proves: OPS-1, OPS-2 (one server for Studio and for the HTTP routes, with the same answers and errors)."""
    asked = {name: value for name, value in valley_request(DIRECT).items() if name != "tenant"}
    answer = httpx.post(f"{url}/api/memory/retrieve", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    assert comparable_json(answer.json()) == comparable_json(local.invoke(valley_request(DIRECT)))
    assert httpx.get(f"{url}/ready", timeout=60).json()["status"] == "ready"
    bad = httpx.post(f"{url}/api/memory/retrieve", json={**asked, "max_facts": 0}, timeout=60)
    assert (bad.status_code, bad.headers["content-type"]) == (422, "application/problem+json")
    foreign = {"Host": "rebound.example"}
    assert httpx.post(f"{url}/api/memory/retrieve", json=asked, headers=foreign, timeout=60).status_code == 403
    assert httpx.get(f"{url}/info", headers=foreign, timeout=60).status_code == 200  # its own routes are its own
    assert "/api/memory/retrieve" in httpx.get(f"{url}/openapi.json", timeout=60).json()["paths"]


def test_nothing_is_left_in_the_project(url: str, root: Path) -> None:
    """Proves: OPS-2."""
    assert answers(url)
    written = max((path.stat().st_mtime for path in (root / ".langgraph_api").glob("*")), default=0.0)
    assert written < psutil.Process().create_time()  # what a developer's own server left there may be older
