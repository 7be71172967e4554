"""A recall node in a wrapper of LangChain's: the same guest as without (GRAPH-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import MemoryStore, build_graph

WRAPPERS: dict[str, Any] = {
    "retry": lambda graph: graph.with_retry(),
    "fallbacks": lambda graph: RunnableLambda(failing).with_fallbacks([graph.with_retry()]),
    "listeners": lambda graph: graph.with_listeners(on_start=lambda _: None),
    "bind": lambda graph: graph.bind().with_config(tags=["memory"]),
}
GIVEN: Any = {"messages": [("user", "When does the ferry Birk leave?")], "user_id": 7, "context": "mine"}


class Desk(MessagesState, total=False):
    """A parent that has keys of its own under our names."""

    user_id: int
    context: str


def failing(_: Any) -> Any:
    raise OSError("down")


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine."}], tenant="acme")
        yield store


async def run(node: Any, asynchronous: bool) -> dict[str, Any]:
    builder = StateGraph(Desk)
    builder.add_node("recall", node)
    builder.add_edge(START, "recall")
    parent, options = builder.compile(), {"context": {"tenant": "acme"}}
    found: Any = await parent.ainvoke(GIVEN, **options) if asynchronous else parent.invoke(GIVEN, **options)  # type: ignore[call-overload]
    return dict(found)


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_wrapped_node_keeps_to_its_keys(store: MemoryStore, wrapper: Any, asynchronous: bool) -> None:
    """Proves: GRAPH-1 (neither read nor overwritten)."""
    output = await run(wrapper(build_graph(store)), asynchronous)
    assert (output["user_id"], output["context"]) == (7, "mine")
    assert "[n1]" in output["messages"][-1].content and len(output["messages"]) == 2


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
async def test_a_function_that_calls_a_wrapper_gets_the_whole_result(store: MemoryStore, wrapper: Any) -> None:
    """Proves: GRAPH-1 (also in a task of its own)."""
    wrapped = wrapper(build_graph(store))

    async def gathered(state: Desk, config: RunnableConfig) -> dict[str, Any]:
        (found,) = await asyncio.gather(wrapped.ainvoke({"messages": state["messages"], "tenant": "acme"}, config))
        return {"context": found["context"]}

    def called(state: Desk, config: RunnableConfig) -> dict[str, Any]:
        return {"context": wrapped.invoke({"messages": state["messages"], "tenant": "acme"}, config)["context"]}

    for node in (gathered, called):
        assert "[n1]" in (await run(node, asynchronous=True))["context"]
