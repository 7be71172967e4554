"""A recall node in a wrapper or a chain of LangChain's: the same guest as without (GRAPH-1)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableBranch, RunnableConfig, RunnableLambda
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import MemoryStore, build_graph
from recall_loop.state.errors import InvalidInputError

WRAPPERS: dict[str, Any] = {
    "retry": lambda graph: graph.with_retry(),
    "fallbacks": lambda graph: RunnableLambda(failing).with_fallbacks([graph.with_retry()]),
    "listeners": lambda graph: graph.with_listeners(on_start=lambda _: None),
    "bind": lambda graph: graph.bind().with_config(tags=["memory"]),
    "lambda": lambda graph: RunnableLambda(graph.invoke, afunc=graph.ainvoke),
    "method": lambda graph: graph.invoke,
    "branch": lambda graph: RunnableBranch((lambda _: False, failing), graph),
}
GIVEN: Any = {"messages": [("user", "When does the ferry Birk leave?")], "user_id": 7, "context": "mine"}
# LangGraph warns of the annotation of its own `invoke`.
LANGGRAPHS_OWN_ANNOTATION = pytest.mark.filterwarnings("ignore:The 'config' parameter:UserWarning")


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


async def run(node: Any, asynchronous: bool, **options: Any) -> dict[str, Any]:
    builder = StateGraph(Desk)
    builder.add_node("recall", node, **options)
    builder.add_edge(START, "recall")
    parent: Any = builder.compile()
    tenant = {"context": {"tenant": "acme"}}
    found = await parent.ainvoke(GIVEN, **tenant) if asynchronous else parent.invoke(GIVEN, **tenant)
    return dict(found)


@LANGGRAPHS_OWN_ANNOTATION
@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_wrapped_node_keeps_to_its_keys(store: MemoryStore, wrapper: Any, asynchronous: bool) -> None:
    """Proves: GRAPH-1 (neither read nor overwritten)."""
    output = await run(wrapper(build_graph(store)), asynchronous)
    assert (output["user_id"], output["context"]) == (7, "mine")
    assert "[n1]" in output["messages"][-1].content and len(output["messages"]) == 2


@pytest.mark.parametrize("wrapper", [lambda graph: graph, *WRAPPERS.values()], ids=["none", *WRAPPERS])
@LANGGRAPHS_OWN_ANNOTATION
async def test_a_node_with_a_time_limit_keeps_to_its_keys(store: MemoryStore, wrapper: Any) -> None:
    """Proves: GRAPH-1."""
    if inspect.ismethod(node := wrapper(build_graph(store))):
        node = node.__self__.ainvoke  # only what an event loop runs has a time limit
    output = await run(node, asynchronous=True, timeout=60)
    assert (output["user_id"], output["context"], len(output["messages"])) == (7, "mine", 2)


@LANGGRAPHS_OWN_ANNOTATION
async def test_a_task_of_langgraphs_is_a_direct_call(store: MemoryStore) -> None:
    """Proves: GRAPH-1 (its arguments are its caller's, not a state)."""
    graph = build_graph(store)
    at_once, awaited = task(graph.invoke), task(graph.ainvoke)

    @entrypoint()
    async def flow(request: dict[str, Any]) -> list[str]:
        found = [await at_once(request), await awaited(request)]
        return [each["facts"][0]["id"] for each in found]

    assert await flow.ainvoke({"messages": GIVEN["messages"], "tenant": "acme"}) == ["n1", "n1"]


@pytest.mark.parametrize("wrapper", [lambda chain: chain, lambda chain: chain.with_retry()], ids=["none", "retry"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_step_before_the_graph_hands_it_an_input_of_its_own(
    store: MemoryStore, wrapper: Any, asynchronous: bool
) -> None:
    """Proves: GRAPH-1 (a user that was handed in and not read would be everybody)."""

    def chain(**handed: Any) -> Any:
        given = {"messages": GIVEN["messages"], "tenant": "acme", **handed}
        return wrapper(RunnableLambda(lambda _: given) | build_graph(store))

    for user_id, found in ((None, True), ("ada", False)):
        output = await run(chain(user_id=user_id), asynchronous)
        assert (output["user_id"], output["context"], len(output["messages"])) == (7, "mine", 2)
        assert ("[n1]" in output["messages"][-1].content) is found
    with pytest.raises(InvalidInputError, match="usr: got 'ada'"):
        await run(chain(usr="ada"), asynchronous)


async def test_a_step_behind_the_graph_gets_what_it_writes(store: MemoryStore) -> None:
    """Proves: GRAPH-1."""
    chain = build_graph(store, outputs=["context"]) | RunnableLambda(lambda found: {"context": found["context"][-20:]})
    output = await run(chain, asynchronous=True)
    assert output["user_id"] == 7 and output["context"].endswith("</memories>\n") and len(output["context"]) == 20


CALLED = {name: wrapper for name, wrapper in WRAPPERS.items() if name != "method"}


@pytest.mark.parametrize("wrapper", CALLED.values(), ids=CALLED)
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
