"""Messages as the SDKs of providers give them are added as they are; beside a role a record's fields are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from recall_loop import InvalidInputError, Memory, RejectedRecordsError, build_graph, retrieve
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

SAID = {"role": "user", "content": "Tea is at four."}
PARTS: list[dict[str, Any]] = [{"type": "text", "text": {"value": "Tea is at four.", "annotations": []}}]
THREAD_MESSAGE = {
    "id": "msg_1",
    "object": "thread.message",
    "created_at": 1_700_000_000,
    "thread_id": "t1",
    "assistant_id": None,
    "metadata": {},
    "attachments": [],
    "role": "user",
    "content": PARTS,
}


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        yield opened


@pytest.mark.parametrize(
    "given",
    [
        THREAD_MESSAGE,
        {"role": "user", "parts": [{"text": "Tea is at four."}]},
        {"messageId": "m1", "kind": "message", "role": "user", "parts": [{"kind": "text", "text": "Tea is at four."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tea is at four."}]},
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Tea is at four."}]},
        {"source": "user", "type": "TextMessage", "content": "Tea is at four.", "models_usage": None},
        {"id": "7", "type": 0, "content": "Tea is at four.", "author": {"id": "2", "username": "ann"}},
    ],
    ids=["thread", "gemini", "a2a", "responses", "llamaindex", "autogen", "discord"],
)
def test_a_message_of_any_provider_is_added_and_asked(memory: Memory, given: dict[str, Any]) -> None:
    """Proves: API-1."""
    (record_id,) = memory.add(given, user_id="ada").ids
    record = memory.get(record_id)
    assert record is not None
    assert (record.kind, record.text, record.role, record.object) == ("message", "Tea is at four.", "user", None)
    assert [fact.id for fact in memory.recall([given]).facts] == [record_id]


@pytest.mark.parametrize(
    "content", [PARTS, [{"text": "When is tea?"}], [{"type": "reasoning", "text": "Hm."}, {"text": "When is tea?"}]]
)
def test_a_question_in_parts_is_asked_in_the_graph_and_in_a_request(memory: Memory, content: Any) -> None:
    """Proves: GRAPH-1, API-1."""
    (record_id,) = memory.add("Tea is at four.").ids
    asked = {"messages": [{"role": "user", "content": content}]}
    assert [fact["id"] for fact in build_graph(memory.store).invoke(asked)["facts"]] == [record_id]
    result = retrieve(asked, store=memory.store)
    assert [fact.id for fact in result.facts] == [record_id]
    assert "Hm." not in result.model_dump_json()


def test_a_thread_message_keeps_its_time(memory: Memory) -> None:
    """Proves: API-1."""
    memory.add([THREAD_MESSAGE])
    (record,) = memory.list()
    assert (record.id, record.created_at) == ("msg_1", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))


def test_what_stands_beside_the_messages_is_skipped_with_the_reason(memory: Memory) -> None:
    """Proves: API-1."""
    added = memory.add(
        [
            SAID,
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Oslo"},
        ]
    )
    assert [record.text for record in memory.list()] == ["Oslo", "Tea is at four."]
    assert [(one.index, one.reason) for one in added.skipped] == [
        (1, "it has no text"),
        (2, "it has tool calls but no text"),
    ]


def test_a_message_keeps_a_records_fields_and_has_a_name_and_a_time(memory: Memory) -> None:
    """Proves: API-1."""
    filed = {"user_id": "ada", "conversation_id": "c", "tags": ["tea"], "attributes": {"room": 4}}
    (record_id,) = memory.add({**SAID, **filed, "name": "Ann", "created_at": 1_700_000_000}).ids
    record = memory.get(record_id)
    assert record is not None and record.created_at is not None
    assert (record.user_id, record.conversation_id, record.tags, record.attributes) == (
        "ada",
        "c",
        ("tea",),
        {"room": 4},
    )
    assert (record.author, record.created_at.year) == ("Ann", 2023)


def test_a_message_of_another_user_is_refused(memory: Memory) -> None:
    """Proves: API-2 (nothing is kept)."""
    with pytest.raises(RejectedRecordsError, match=r"user_id: got 'bo'; allowed: 'ada'"):
        memory.add([SAID, {**SAID, "user_id": "bo"}], user_id="ada")
    assert len(memory.list()) == 0


def test_beside_a_field_of_records_another_misspelt_one_is_told(memory: Memory) -> None:
    """Proves: API-1."""
    with pytest.raises(InvalidInputError, match=r"content\.0\.atributes.*attributes, confidence, agent_id"):
        memory.add({**SAID, "user_id": "ada", "atributes": {}})


def test_a_records_field_without_a_value_is_as_good_as_none(memory: Memory) -> None:
    """Proves: API-1."""
    (record_id,) = memory.add({**SAID, "user_id": None, "tags": None, "attributes": None}).ids
    record = memory.get(record_id)
    assert record is not None and (record.user_id, record.tags) == (None, ())


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": "Tea.", "label": "Notes"},
        {"content": "Tea.", "object": "Tea"},
        {"content": "Tea.", "tags": ["x"]},
        {"kind": "fact", "content": "Tea.", "role": "user"},
    ],
)
def test_records_stay_records(memory: Memory, given: dict[str, Any]) -> None:
    """Proves: API-1."""
    with pytest.raises(RejectedRecordsError, match=r"records\.0\.colour"):
        memory.add({**given, "colour": "red"})
    assert memory.add(given).ids
