"""Who speaks in an added message, and text that no record can hold (API-1, API-2)."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage

from recall_loop import Memory
from recall_loop.state.errors import RejectedRecordsError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder


@pytest.fixture
def memory():
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "author"),
    [
        ([("Ann", "The tent leaks.")], "Ann"),
        ({"role": "Ann", "content": "The tent leaks."}, "Ann"),
        (ChatMessage("The tent leaks.", role="Ann"), "Ann"),
        ({"role": "planner", "name": "Ann", "content": "The tent leaks."}, "Ann"),
        ({"role": "planner", "author": "Ann", "content": "The tent leaks."}, "Ann"),
        ({"type": "output", "content": "The tent leaks."}, None),
        ({"role": 7, "content": "The tent leaks."}, None),
        ({"role": "ai", "content": "The tent leaks."}, None),
        ({"role": "Ann", "content": [{"type": "text", "text": "The tent leaks."}]}, "Ann"),
    ],
)
def test_an_unknown_role_is_the_speakers_name(memory, given, author):
    """Proves: API-1, API-2."""
    (record_id,) = memory.add(given).ids
    record = memory.get(record_id)
    assert (record.text, record.role, record.author) == ("The tent leaks.", "assistant", author)


UNFIT = [
    ("a\ud800b", "text.*valid Unicode"),
    ("a\x00b", "text.*NUL"),
    (("user", "\x00"), "text.*NUL"),
    (HumanMessage("a\x00b"), "text.*NUL"),
    ({"content": [{"type": "text", "text": "x"}, "a\ud800b"]}, "text.*valid Unicode"),
    ({"role": "user", "content": [{"type": "tool_result", "content": "a\x00b"}]}, "text.*NUL"),
    ({"role": "user", "name": "a\x00b", "content": "x"}, "author.*NUL"),
    ({"role": "user", "author": "a\ud800b", "content": "x"}, "author.*valid Unicode"),
    ({"role": "a\x00b", "content": "x"}, "author.*NUL"),
    ({"role": "user", "id": "a\x00b", "content": "x"}, "id.*NUL"),
    ({"role": "ai", "content": "x", "tool_calls": [{"name": "f", "args": {"a": ["\x00"]}}]}, "attributes.*NUL"),
    (AIMessage("x", tool_calls=[{"name": "f", "args": {"\ud800": 1}, "id": "1"}]), "attributes.*valid Unicode"),
]


@pytest.mark.parametrize(("given", "words"), UNFIT, ids=range(len(UNFIT)))
def test_text_that_no_record_can_hold_is_refused_in_messages_too(memory, given, words):
    """Proves: API-2."""
    with pytest.raises(RejectedRecordsError, match=rf"records\.1\.{words}"):
        memory.add(["good", given])
    assert len(memory.list()) == 0
    added = memory.add(["good", given], on_reject="report")
    assert [one.status for one in added.outcomes] == ["created", "rejected"]
    assert [record.text for record in memory.list()] == ["good"]


def test_what_is_not_kept_may_hold_anything(memory):
    """Proves: API-2."""
    message = {"role": "user", "content": "a\ufffdb", "id": "m", "response_metadata": {"a": "a\x00b", "\ud800": "\x00"}}
    assert memory.get(memory.add(message).ids[0]).text == "a\ufffdb"
