"""Long texts in a run: a passage is read, the result has the whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.text.words.passages import READ_CHARACTERS
from tests.embedders import WordHashEmbedder

ANSWER = "Kettler Heating repairs the boiler for 340 euros."
FILLER = "The quick brown fox jumps over the lazy dog. "
TEXT = FILLER * 2_000 + ANSWER + FILLER * 5_000
QUESTION = "Who repairs the boiler, and for how many euros?"


@contextmanager
def filled() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        talk = {"kind": "message", "conversation_id": "house"}
        opened.upsert(
            [
                {"id": "manual", "kind": "archival", "text": TEXT, "tags": ["house"]},
                {**talk, "id": "m1", "text": "The boiler leaks.", "created_at": "2024-05-02T08:00:00Z"},
                {**talk, "id": "m2", "text": TEXT, "created_at": "2024-05-02T08:01:00Z"},
                {"id": "f1", "kind": "fact", "text": "Somebody repairs the boiler.", "source_ids": ["m3"]},
                {**talk, "id": "m3", "text": "As for the garden:\n" + TEXT, "created_at": "2023-05-02T08:02:00Z"},
            ]
        )
        yield opened


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    """For tests that only read."""
    with filled() as opened:
        yield opened


def test_the_pool_holds_passages_and_the_result_whole_texts(store):
    """Proves: GUARD-2, SEARCH-8."""
    graph = build_graph(store=store, output="state", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    output = graph.invoke({"messages": [("user", QUESTION)]}, config)
    pool = graph.get_state(config).values["evidence_pool"].values()
    assert {entry["record"]["id"] for entry in pool} >= {"manual", "m2"}
    assert max(len(entry["record"]["text"]) for entry in pool) == READ_CHARACTERS
    assert max(len(entry["window"]) for entry in pool) <= 3 * READ_CHARACTERS
    assert all(ANSWER in entry["record"]["text"] for entry in pool if entry["record"]["id"] in ("manual", "m2"))
    facts = {fact["id"]: fact for fact in output["facts"]}
    assert facts["manual"]["text"] == facts["m2"]["text"] == TEXT
    for found in ("manual", "f1"):
        assert any("340 euros" in source["snippet"] for source in facts[found]["evidence"]), found
    assert output["stop"]["detail"]["coverage"] == 1.0


def test_a_long_text_fits_into_a_context_that_has_room_for_it(store):
    """Proves: LOOP-10, GUARD-2."""
    request = {"messages": [{"content": QUESTION}], "content_types": ["archival"]}
    small = retrieve(request, store=store)
    assert ANSWER in small.context
    assert len(small.context) < 4 * 2_000
    whole = retrieve({**request, "max_context_tokens": 1_000_000}, store=store)
    assert " ".join(TEXT.split()) in whole.context


def test_what_was_deleted_meanwhile_keeps_its_passage():
    """A run that goes on in another process reads the texts again, as far as they are there. Proves: GUARD-2."""
    with filled() as store:
        graph = build_graph(store=store, output="state", checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        graph.invoke({"messages": [("user", QUESTION)]}, config, interrupt_before=["synthesize"])
        store.delete(["manual"])
        facts = {fact["id"]: fact["text"] for fact in graph.invoke(None, config)["facts"]}
    assert len(facts["manual"]) == READ_CHARACTERS
    assert facts["m2"] == TEXT
