"""A message's misspelt field is told, wherever messages come in; an application's or a provider's own are ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, messages_to_dict
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import InvalidInputError, Memory, MemoryStore, build_graph, remember, retrieve
from recall_loop.memory.intake.files.ingest import IngestOptions, default_rejects_path, ingest_file
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

SAID = datetime(2024, 5, 1, 10, tzinfo=UTC)
USER = {"role": "user", "content": "The tent leaks."}
CALL = {"name": "look", "args": {"who": "Ada"}, "id": "c1"}
FROM_LANGCHAIN = [
    HumanMessage("The tent leaks."),
    AIMessage("Noted.", tool_calls=[CALL], response_metadata={"model_name": "m-1"}),
    AIMessageChunk("Noted.", id="x"),
    ToolMessage("Oslo", tool_call_id="c1", artifact={"a": 1}),
]
FROM_APIS = [
    {"role": "assistant", "content": "Noted.", "refusal": None, "annotations": [], "audio": None},
    {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Noted."}]}
    | {"model": "m-1", "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1}},
    {"role": "assistant", "content": "Noted.", "reasoning_content": "Hm.", "metadata": {"mine": 1}},
    {
        "role": "assistant",
        "content": "Noted.",
        "provider_specific_fields": None,
        "thinking_blocks": [],
        "logprobs": None,
    },
    {"role": "user", "content": "The tent leaks.", "options": None, "attachments": [], "thread_id": "t", "cost": 0.1},
]


class Plain(TypedDict):
    messages: list[Any]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        yield opened


def remembering(store: MemoryStore, message: Any, state: type = Plain) -> Any:
    builder = StateGraph(state)
    builder.add_node("remember", remember(store))
    builder.add_edge(START, "remember")
    return builder.compile().invoke({"messages": [message]}, {"configurable": {"thread_id": "t"}})


WAYS: dict[str, Callable[[Memory, Any], Any]] = {
    "content.0": lambda memory, message: memory.add(message),
    "messages.0": lambda memory, message: remembering(memory.store, message),
    "message": lambda memory, message: memory.recall(message),
    "messages.1": lambda memory, message: retrieve({"messages": [HumanMessage("Hi."), message]}, store=memory.store),
    "messages.2": lambda memory, message: build_graph(memory.store).invoke({"messages": ["Hi.", "Ho.", message]}),
}


@pytest.mark.parametrize("place", WAYS)
@pytest.mark.parametrize(("name", "value"), [("contents", "It leaks."), ("timestmp", "2024-05-01"), ("user", "ada")])
def test_an_unknown_field_is_named_with_those_that_there_are(memory: Memory, place: str, name: str, value: str) -> None:
    """Proves: API-1, API-2 (nothing is kept of it)."""
    with pytest.raises(InvalidInputError) as caught:
        WAYS[place](memory, {**USER, name: value})
    assert (caught.value.field, caught.value.value) == (f"{place}.{name}", repr(value))
    assert "role, content, name, author, language, timestamp, created_at" in caught.value.allowed
    assert not memory.store.count(Scope())


@pytest.mark.parametrize("place", WAYS)
@pytest.mark.parametrize("role", ["user", "human", "system"])
def test_text_under_a_name_that_nobody_reads_is_told(memory: Memory, place: str, role: str) -> None:
    """Proves: API-1, API-2 (the message would be left out, as one without text)."""
    with pytest.raises(InvalidInputError) as caught:
        WAYS[place](memory, {"role": role, "body": "The tent leaks."})
    assert not memory.store.count(Scope())
    if place != "message":  # what has no content is no message but a request's fields
        assert caught.value.field == f"{place}.content"
        assert "'body': 'The tent leaks.'" in caught.value.value
        assert "under the name content, parts or blocks" in caught.value.allowed


@pytest.mark.parametrize(
    "silent",
    [
        {"role": "assistant", "refusal": "I can't."},
        {"role": "assistant", "reasoning_content": "Hm.", "model": "m-1"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "model"},
        {"role": "user", "parts": [], "mine": "x"},
        {"role": "user", "attachments": [{"url": "https://example.org/a.png"}]},
        {"role": "user", "content": "", "mine": "x"},
        {"role": "user", "content": None, "mine": "x"},
        {"role": "user", "author": "Ada", "id": "m1", "language": "en"},
    ],
)
def test_a_message_may_have_no_text(memory: Memory, silent: dict[str, Any]) -> None:
    """Proves: API-1 (a provider's without content, or an application's beside it)."""
    assert len(memory.add([USER, silent], user_id="ada").ids) == 1
    assert retrieve([silent, USER], store=memory.store).facts
    with_fields = {"role": "user", "user_id": "ada", "session": "s"}  # a record's
    assert len(memory.add([USER, with_fields], user_id="ada").ids) == 1


def test_an_error_in_a_file_names_the_line_and_the_field(memory: Memory, tmp_path: Path) -> None:
    """Proves: STORE-2."""
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"messages": [USER, {**USER, "timestmp": "2024-05-01"}]}))
    ingest_file(file, memory.store, IngestOptions(format_name="openai"))
    (rejected,) = default_rejects_path(file).read_text().splitlines()
    assert "message.timestmp: got '2024-05-01'" in rejected
    assert memory.store.count(Scope()) == 1


@pytest.mark.parametrize(
    "messages",
    [
        FROM_LANGCHAIN,
        [message.model_dump() for message in FROM_LANGCHAIN],
        messages_to_dict(FROM_LANGCHAIN),
        [message.to_json() for message in FROM_LANGCHAIN],
        FROM_APIS,
    ],
    ids=["objects", "dumps", "dicts", "json", "apis"],
)
def test_what_chat_frameworks_write_passes(memory: Memory, messages: list[Any]) -> None:
    """Proves: API-1."""
    assert memory.add(messages).ids
    assert build_graph(memory.store).invoke({"messages": [*FROM_LANGCHAIN[:1], *FROM_APIS[:1]]})["facts"]


@pytest.mark.parametrize("name", ["timestamp", "created_at", "createdAt", "created", "time", "date"])
def test_a_time_counts_under_every_name_that_messages_have_for_it(memory: Memory, name: str) -> None:
    """Proves: API-1, OPS-5 (in LangGraph's messages, which keep it aside, and as a keyword of LangChain's, too)."""
    stated = {name: SAID.isoformat()}
    remembering(memory.store, {**USER, **stated}, MessagesState)
    memory.add([{**USER, **stated}, HumanMessage("The tent leaks.", **stated)])
    assert [record.created_at for record in memory.store.scan(Scope())] == [SAID] * 3
    asked = build_graph(memory.store).invoke({"messages": [{**USER, **stated}]})
    assert datetime.fromisoformat(asked["reference_time"]) == SAID


@pytest.mark.parametrize("own", [{"date": "Monday"}, {"time": 3.2}, {"created": True}, {"time": ""}])
def test_what_is_no_time_counts_as_none_under_a_name_with_other_meanings(memory: Memory, own: dict[str, Any]) -> None:
    """Proves: API-1."""
    assert build_graph(memory.store).invoke({"messages": [HumanMessage("where?", additional_kwargs=own)]})["stop"]
    remembering(memory.store, {**USER, **own}, MessagesState)
    (record,) = memory.store.scan(Scope())
    assert record.created_at is not None and record.created_at.year > 2024
