"""An agent's unmodified thread as a question to a `Memory`, and as records to add (API-1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import AsyncMemory, Memory, build_graph
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

CALL = {"name": "look_up", "args": {}, "id": "1"}
OPENAI_CALL = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
PICTURE = [{"type": "image_url", "image_url": {"url": "x"}}]
QUESTION = "When does the ferry Birk leave?"
THREADS: list[list[Any]] = [
    [
        SystemMessage("Be brief."),
        HumanMessage(QUESTION),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("", tool_call_id="1"),
    ],
    [{"role": "developer", "content": "Be brief."}, {"role": "human", "content": QUESTION}],
    [{"content": QUESTION}, {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}],
    [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}, {"role": "assistant", "content": ""}],
    [ChatMessage(content=QUESTION), AIMessage(""), HumanMessage(PICTURE)],
    [HumanMessage(PICTURE), {"role": "user", "name": "Ann", "content": QUESTION}],
]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        opened.add({"id": "n1", "text": "The ferry Birk leaves at nine."})
        yield opened


@pytest.mark.parametrize("thread", THREADS, ids=range(len(THREADS)))
async def test_a_thread_asks_what_its_user_said_last_in_words(memory: Memory, thread: list[Any]) -> None:
    """Proves: API-1, LOOP-9 (calls of tools and pictures say nothing, and are no error)."""
    asked = memory.recall(QUESTION)
    assert [fact.id for fact in asked.facts] == ["n1"]
    for told in (memory.recall(thread), await AsyncMemory(store=memory.store).recall(thread)):
        assert (told.facts[0].id, told.stop) == ("n1", asked.stop)


@pytest.mark.parametrize("thread", [[HumanMessage(PICTURE)], [AIMessage("Hello."), HumanMessage("")]])
def test_a_thread_whose_user_said_nothing_in_words_is_refused(memory: Memory, thread: list[Any]) -> None:
    """Proves: API-1, SEARCH-2."""
    with pytest.raises(InvalidInputError, match=r"messages\.\d\.content: got ''; allowed: text"):
        memory.recall(thread)


def test_now_is_when_the_thread_says_that_it_was_written(memory: Memory) -> None:
    """Proves: API-1, LOOP-9."""
    asked = HumanMessage(QUESTION, additional_kwargs={"timestamp": "2024-05-01T09:00:00Z"})
    assert memory.recall([asked]).reference_time == datetime(2024, 5, 1, 9, tzinfo=UTC)


def test_what_recall_appended_to_a_thread_neither_asks_nor_is_kept(memory: Memory) -> None:
    """Proves: API-1, LIVE-5 (memory doesn't remember itself)."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(memory.store))
    builder.add_edge(START, "recall")
    thread = builder.compile().invoke({"messages": [HumanMessage(QUESTION)]})["messages"]  # type: ignore[arg-type]
    assert [one.name for one in thread] == [None, "recall_loop"]
    assert memory.recall(thread).stop == memory.recall(QUESTION).stop
    added = memory.add(thread, user_id="ann")
    assert [record.text for record in memory.list(user_id="ann")] == [QUESTION]
    assert [(one.index, one.reason) for one in added.skipped] == [(1, "it was recalled from memory")]
