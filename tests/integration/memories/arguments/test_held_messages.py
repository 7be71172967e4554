"""A state, a prompt and a model's whole reply are read as the messages in them, everywhere; other objects aren't taken
apart (API-1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from recall_loop import InvalidInputError, Memory, Settings, build_graph, retrieve
from tests.embedders import WordHashEmbedder

SAID = "Tea is at four."
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": SAID}}
COMPLETION: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}
ITEM = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": SAID, "annotations": []}],
}
REPLY: dict[str, Any] = {"id": "r", "object": "response", "output": [{"type": "reasoning", "summary": []}, ITEM]}


class State(BaseModel):
    messages: list[Any]
    steps: int = 0


class Point(BaseModel):
    colour: str = "red"
    size: int = 3


HOLDERS: list[tuple[Any, str]] = [
    (ChatCompletion.model_validate(COMPLETION), "assistant"),
    (COMPLETION, "assistant"),
    (Response.model_construct(**{**REPLY, "output": [ITEM]}), "assistant"),
    (REPLY, "assistant"),
    (ChatPromptValue(messages=[HumanMessage(SAID)]), "user"),
    (StringPromptValue(text=SAID), "user"),
    ({"messages": [("user", SAID)]}, "user"),
    ({"messages": SAID}, "user"),
    ({"messages": HumanMessage(SAID)}, "user"),
    (State(messages=[HumanMessage(SAID)]), "user"),
]
NAMES = [type(one).__name__ for one, _ in HOLDERS]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        yield opened


@pytest.mark.parametrize(("given", "role"), HOLDERS, ids=NAMES)
def test_the_messages_that_something_holds_are_added_and_ask(memory: Memory, given: Any, role: str) -> None:
    """Proves: API-1."""
    for content in (given, [given]):
        (record_id,) = memory.add(content, user_id="ada").ids
        record = memory.get(record_id)
        assert record is not None
        assert (record.kind, record.text, record.role, record.user_id) == ("message", SAID, role, "ada")
        memory.delete(record_id)
    memory.add({"id": "n", "text": SAID})
    assert [fact.id for fact in memory.recall(given).facts] == ["n"]
    assert [fact.id for fact in retrieve(given, store=memory.store).facts] == ["n"]


@pytest.mark.parametrize("told", [[("user", SAID)], SAID, [HumanMessage(SAID)], HumanMessage(SAID)], ids=repr)
def test_retrieve_reads_what_recall_and_the_graph_read(memory: Memory, told: Any) -> None:
    """Proves: API-1, GRAPH-1."""
    memory.add({"id": "n", "text": SAID})
    found = [retrieve(told, store=memory.store), retrieve({"messages": told}, store=memory.store), memory.recall(told)]
    assert [[fact.id for fact in one.facts] for one in found] == [["n"]] * 3
    asked: Any = {"messages": told}
    assert [fact["id"] for fact in build_graph(memory.store).invoke(asked)["facts"]] == ["n"]


@pytest.mark.parametrize("given", [Point(), {"colour": "red"}.items(), Settings()], ids=["model", "items", "settings"])
def test_another_object_is_not_taken_apart(memory: Memory, given: Any) -> None:
    """Proves: API-1, SEARCH-2."""
    with pytest.raises(InvalidInputError, match=r"^content: got .*; allowed: text, a message"):
        memory.add(given)
    with pytest.raises(InvalidInputError, match=r"^question: got .*; allowed: a question, messages"):
        memory.recall(given)
    with pytest.raises(InvalidInputError, match=r"^request: got .*; allowed: a question, messages"):
        retrieve(given, store=memory.store)
    with pytest.raises(InvalidInputError, match=r"^content\.1: got .*; allowed: a message"):
        memory.add(["Hello.", Point()])


def test_several_answers_and_a_stated_owner_are_refused(memory: Memory) -> None:
    """Proves: API-1 (one of the answers was used; whose the messages are is the call's to say)."""
    with pytest.raises(InvalidInputError, match=r"content\.choices: got '2 answers'; allowed: one"):
        memory.add({**COMPLETION, "choices": [CHOICE, CHOICE]})
    with pytest.raises(InvalidInputError, match=r"content\.user_id: got 'bo'; allowed: none beside messages"):
        memory.add({"messages": [AIMessage(SAID)], "user_id": "bo"})
    assert len(memory.list()) == 0
