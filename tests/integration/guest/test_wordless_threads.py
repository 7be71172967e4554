"""A thread without any text from the user: the recall node finds nothing, and its host continues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

from recall_loop import MemoryStore, build_graph

PICTURE = HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}], id="p")


class Host(MessagesState, total=False):
    chat: list[AnyMessage]
    stop: dict[str, Any]
    context: str


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine."}])
        yield store


def host(graph: Any, *, sent: bool = False) -> Any:
    builder = StateGraph(Host)
    builder.add_node("recall", graph)
    if sent:
        builder.add_conditional_edges(START, lambda state: [Send("recall", {**state, "user_id": "ann"})], ["recall"])
    else:
        builder.add_edge(START, "recall")
    return builder.compile()


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize(
    "talk",
    [[PICTURE], [SystemMessage("Be brief."), PICTURE], [HumanMessage("")], [AIMessage("How can I help?"), PICTURE]],
)
async def test_a_lone_picture_ends_no_run_of_the_host(store: MemoryStore, talk: list[AnyMessage], sent: bool) -> None:
    """Proves: GRAPH-1."""
    graph = host(build_graph(store), sent=sent)
    for told in (graph.invoke({"messages": talk}), await graph.ainvoke({"messages": talk})):
        said = [one.content for one in told["messages"]]
        assert said == [*(one.content for one in talk), "No memories were found for the last question."]


def test_its_result_says_that_nothing_was_asked(store: MemoryStore) -> None:
    """Proves: GRAPH-1, STOP-2 (a model isn't asked for what nobody asked)."""
    model = FakeListChatModel(responses=["a model that is asked"])
    for key, llm in (("messages", None), ("chat", None), ("chat", model)):
        graph = build_graph(store, llm, inputs={"messages": key}, outputs=["stop", "context", "messages"])
        told = host(graph).invoke({"messages": [HumanMessage("hello")], key: [PICTURE]})
        assert (told["stop"]["reason"], told["stop"]["iteration"], told["context"]) == ("exhausted", 0, "")
        assert told["messages"][-1].name == "recall_loop"
    assert model.i == 0


def test_each_recall_of_a_wordless_turn_has_the_same_block(store: MemoryStore) -> None:
    """Proves: GRAPH-2."""
    graph = host(build_graph(store))
    told = graph.invoke({"messages": [PICTURE]})["messages"]
    assert len(graph.invoke({"messages": told})["messages"]) == 2
    told = graph.invoke({"messages": [*told, HumanMessage("When does the ferry Birk leave?")]})["messages"]
    assert "[n1]" in told[-1].content
