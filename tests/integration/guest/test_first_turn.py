"""A graph that names its store by path, and what it is told where that can't be (GRAPH-1, SEARCH-2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import Memory, build_graph, remember
from recall_loop.state.errors import InvalidInputError, StoreLockedError, StoreUnavailableError
from recall_loop.state.settings.settings import Settings

TOLD: Any = {"messages": [("user", "I live in Bergen.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


def alone(node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("memory", node)
    builder.add_edge(START, "memory")
    return builder.compile()


def test_a_recall_before_there_is_a_store_says_what_makes_one(tmp_path: Path) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    settings = Settings(store_path=str(tmp_path / "memory"))
    with pytest.raises(StoreUnavailableError, match=r"no store there; `MemoryStore\.open` .* make one"):
        alone(build_graph(settings=settings)).invoke(TOLD)


def test_a_second_writer_of_the_same_process_is_told_so(tmp_path: Path) -> None:
    """Proves: OPS-5, STORE-4."""
    settings = Settings(store_path=str(tmp_path / "memory"))
    first, second = (alone(remember(settings=settings)) for _ in range(2))
    first.invoke(TOLD, THREAD)
    with pytest.raises(
        StoreLockedError, match=r"this one\) has this store open; .* hand over that store itself, as `store=`"
    ):
        second.invoke(TOLD, THREAD)


@pytest.mark.parametrize("build", [build_graph, remember])
def test_a_memory_is_no_store_but_has_one(build: Any) -> None:
    """Proves: SEARCH-2."""
    with Memory() as memory:
        with pytest.raises(InvalidInputError, match="a MemoryStore, such as `store` of a Memory"):
            build(memory)
        build(memory.store)
