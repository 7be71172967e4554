"""A graph that names its store by path, and its errors if that is impossible (GRAPH-1, SEARCH-2)."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import (
    Memory,
    MemoryStore,
    RecallLoopStore,
    add_tool,
    build_graph,
    memory_tools,
    remember,
    retrieve,
    retrieve_tool,
)
from recall_loop.memory.store.open_writers import OPEN_WRITERS
from recall_loop.state.context import Context
from recall_loop.state.errors import EmbedderMismatchError, InvalidInputError, StoreUnavailableError
from recall_loop.state.settings.settings import Settings

TOLD: Any = {"messages": [("user", "I live in Bergen.")]}
ASKED: Any = {"messages": [("user", "Where do I live?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


def texts(output: Any) -> list[str]:
    return [fact["text"] for fact in output["facts"] if fact["content_type"] == "message"]


def alone(node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("memory", node)
    builder.add_edge(START, "memory")
    return builder.compile()


def test_a_path_without_a_store_says_how_to_create_one(tmp_path: Path) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    graph = build_graph(settings=Settings(store_path=str(tmp_path / "memory")))
    with pytest.raises(StoreUnavailableError, match=r"no store there; `MemoryStore\.open` .* create one"):
        graph.invoke(TOLD, context=Context(store_path=str(tmp_path / "another")))
    assert not (tmp_path / "another").exists()


def test_a_recall_before_there_is_a_store_finds_nothing_and_then_what_was_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: GRAPH-1, OPS-5."""
    settings = Settings(store_path=str(tmp_path / "memory"))
    recall = build_graph(settings=settings)
    for found in (recall.invoke(ASKED), retrieve("Where do I live?", settings=settings).model_dump()):
        assert found["stop"]["reason"] == "nothing_in_scope" and found["degraded"]
        (warning,) = found["warnings"]
        assert f"nothing is found until something is written: {tmp_path / 'memory'}: no store there" in warning
        assert warning in caplog.text and not (tmp_path / "memory").exists()
    writes = remember(settings=settings)
    alone(writes).invoke(TOLD, THREAD)
    found = recall.invoke(ASKED)
    assert texts(found) == ["I live in Bergen."] and not found["degraded"] and found["warnings"] == []


def test_a_graph_follows_the_store_at_its_path(tmp_path: Path) -> None:
    """Proves: GRAPH-1, STORE-4. Also one that was removed, and one that was made there since."""
    settings = Settings(store_path=str(tmp_path / "memory"))
    recall, writes = build_graph(settings=settings), alone(remember(settings=settings))
    writes.invoke(TOLD, THREAD)
    assert texts(recall.invoke(ASKED)) == ["I live in Bergen."]
    shutil.rmtree(tmp_path / "memory")
    assert recall.invoke(ASKED)["warnings"] != []
    writes.invoke({"messages": [("user", "I live in Oslo.")]}, {"configurable": {"thread_id": "2"}})
    assert texts(recall.invoke(ASKED)) == ["I live in Oslo."]


def test_a_store_that_its_writer_has_not_finished_yet_holds_nothing(tmp_path: Path) -> None:
    """Proves: GRAPH-1. Recall and remember may run side by side in the first turn."""
    (tmp_path / "sidecar.sqlite3").touch()
    recall = build_graph(settings=Settings(store_path=str(tmp_path)))
    assert recall.invoke(ASKED)["stop"]["reason"] == "nothing_in_scope"


def test_a_lost_sidecar_is_not_an_empty_memory(tmp_path: Path) -> None:
    """Proves: GRAPH-1, STORE-4."""
    with MemoryStore.open(tmp_path) as store:
        store.upsert([{"text": "I live in Bergen."}])
    for file in tmp_path.glob("sidecar.sqlite3*"):
        file.unlink()
    with pytest.raises(StoreUnavailableError, match="open it once for writing to rebuild it"):
        build_graph(settings=Settings(store_path=str(tmp_path))).invoke(ASKED)
    (tmp_path / "sidecar.sqlite3").touch()
    with pytest.raises(StoreUnavailableError, match="never finished; open it once for writing"):
        build_graph(settings=Settings(store_path=str(tmp_path))).invoke(ASKED)


@pytest.mark.parametrize("recall_first", [True, False])
def test_graphs_of_one_process_write_the_same_path(tmp_path: Path, recall_first: bool) -> None:
    """Proves: OPS-5, STORE-4."""
    settings = Settings(store_path=str(tmp_path / "memory"), capture_runs=True)
    recall, first, second = build_graph(settings=settings), *(remember(settings=settings) for _ in range(2))
    if recall_first:
        recall.invoke(ASKED)
    alone(first).invoke(TOLD, THREAD)
    assert texts(recall.invoke(ASKED)) == ["I live in Bergen."]
    alone(second).invoke({"messages": [("user", "My boat is called Merle.")]}, {"configurable": {"thread_id": "2"}})
    del first, second
    gc.collect()
    assert "My boat is called Merle." in texts(recall.invoke({"messages": [("user", "What is my boat called?")]}))
    del recall
    gc.collect()
    with MemoryStore.open(tmp_path / "memory", re_embed=True) as store:  # nobody else has it any more
        assert store.count(content_types=["message"]) == 2 and store.repairs == []


async def test_a_graph_that_goes_on_an_event_loop_does_not_hold_it_up(tmp_path: Path) -> None:
    """A server's factory makes one for each run. Proves: OPS-5, STORE-4."""
    path, taken, released = tmp_path / "memory", threading.Event(), threading.Event()
    node = remember(settings=Settings(store_path=str(path)))
    await alone(node).ainvoke(TOLD, THREAD)

    def take_turn() -> bool:
        with OPEN_WRITERS.turn(path):
            taken.set()
            return released.wait(10)

    other = asyncio.create_task(asyncio.to_thread(take_turn))
    await asyncio.to_thread(taken.wait)
    del node
    gc.collect()
    released.set()
    assert await other
    with await asyncio.to_thread(MemoryStore.open, path, re_embed=True, wait_seconds=10) as store:
        assert store.count() == 1 and store.repairs == []


def test_a_path_shared_with_another_embedder_names_the_stores_embedder(tmp_path: Path) -> None:
    """Proves: OPS-5, STORE-5."""
    path = str(tmp_path / "memory")
    first = remember(settings=Settings(store_path=path))
    alone(first).invoke(TOLD, THREAD)
    second = remember(settings=Settings(store_path=path, embedder="minilm-plain"))
    with pytest.raises(EmbedderMismatchError, match=r"made with embedder .*minilm.*, opened with"):
        alone(second).invoke(TOLD, THREAD)


@pytest.mark.parametrize("build", [build_graph, remember, RecallLoopStore, add_tool, retrieve_tool, memory_tools])
def test_a_memory_is_not_a_store_but_has_one(build: Any) -> None:
    """Proves: SEARCH-2."""
    with Memory() as memory:
        with pytest.raises(InvalidInputError, match="a MemoryStore, such as `store` of a Memory"):
            build(memory)
        with pytest.raises(InvalidInputError, match=r"got './kept'; allowed: a MemoryStore"):
            build("./kept")
        build(memory.store)


def test_a_path_instead_of_a_store_says_where_paths_go() -> None:
    """Proves: SEARCH-2."""
    with pytest.raises(InvalidInputError, match=r"got './kept'; allowed: a MemoryStore.*the `path` of Memory\(…\)"):
        Memory(store="./kept")  # type: ignore[arg-type]
