"""Bad input: a typed error that names the field, or a result that is right; never a crash, never silence."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import ChatMessage

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import aretrieve, retrieve, stream_retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.worlds import (
    DIRECT,
    NOW,
    VALLEY,
    WordHashEmbedder,
    comparable_json,
    filled_store,
    valley_request,
)

HOSTILE = {
    "quotes": 'it\'s "one" `two`',
    "line break": "one\ntwo\r\nthree",
    "emoji": "🦭🏴‍☠️",
    "sql": "x'); DROP TABLE records; --",
    "wild cards": "%_*?[a]{b}",
    "brackets": "]] [[ <b> &amp;",
    "match syntax": 'NEAR("a" "b") OR NOT *',
    "very long": "long-" * 100,
    "right to left": "\u202eabc\u202c \u05e9\u05dc\u05d5\u05dd",
    "zero width": "a\u200bb\ufeffc",
    "path": "../../etc/passwd",
    "format": "{0} {x.__class__} %s %(a)s",
    "no letter": "—…!?",
}
TIME = "2024-05-01T09:30:00Z"


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


@pytest.fixture(scope="module")
def graph(world):
    return build_graph(world)


def messages(content: Any = DIRECT, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content, **more}]}


# What is wrong, and the field that the error names, in a request and in the graph's input.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "empty content": (messages(""), "messages"),
    "blank content": (messages(" \n\t\u2003"), "messages"),
    "lone surrogate": (messages("Mara \ud800 Voss"), "messages.0.content"),
    "NUL": (messages("Mara\x00Voss"), "messages.0.content"),
    "too long": (messages("x" * 1_000_001), "messages.0.content"),
    "unknown filter": ({"filters": {"colour": "red"}}, "filters.colour"),
    "filters of another type": ({"filters": "red"}, "filters"),
    "filter value": ({"filters": {"role": "wizard"}}, "filters.role"),
    "blank agent": ({"filters": {"agent_ids": [" "]}}, "filters.agent_ids.0"),
    "no agents": ({"filters": {"agent_ids": []}}, "filters"),
    "NaN filter": ({"filters": {"min_similarity": math.nan}}, "filters.min_similarity"),
    "negative filter": ({"filters": {"min_similarity": -0.1}}, "filters.min_similarity"),
    "filter above one": ({"filters": {"min_similarity": 1.1}}, "filters.min_similarity"),
    "no date": ({"filters": {"start_time": "yesterday"}}, "filters.start_time"),
    "seconds for a date": ({"filters": {"start_time": 1_700_000_000}}, "filters.start_time"),
    "reversed range": (
        {"filters": {"start_time": "2024-02-01T00:00:00Z", "end_time": "2024-01-01T00:00:00Z"}},
        "filters",
    ),
    "empty range": ({"filters": {"start_time": TIME, "end_time": TIME}}, "filters"),
    "no facts": ({"max_facts": 0}, "max_facts"),
    "too many facts": ({"max_facts": 10_000}, "max_facts"),
    "half a fact": ({"max_facts": 1.5}, "max_facts"),
    "true facts": ({"max_facts": True}, "max_facts"),
    "NaN facts": ({"max_facts": math.nan}, "max_facts"),
    "infinite iterations": ({"max_iterations": math.inf}, "max_iterations"),
    "no iterations": ({"max_iterations": 0}, "max_iterations"),
    "negative tokens": ({"max_context_tokens": -1}, "max_context_tokens"),
    "blank tenant": ({"tenant": " "}, "tenant"),
    "long tenant": ({"tenant": "t" * 513}, "tenant"),
    "surrogate tenant": ({"tenant": "\udfff"}, "tenant"),
    "number for a tenant": ({"tenant": 7}, "tenant"),
    "blank conversation": ({"conversation_id": ""}, "conversation_id"),
    "unknown scope": ({"scope": "galaxy"}, "scope"),
    "unknown content type": ({"content_types": ["dream"]}, "content_types.0"),
    "no content type": ({"content_types": []}, "content_types"),
    "blank goal": ({"goal": " "}, "goal"),
    "no reference time": ({"reference_time": "now"}, "reference_time"),
    "debug": ({"debug": "perhaps"}, "debug"),
    "constellation without agent": ({"scope": "constellation"}, "scope"),
}


def given(wrong: dict[str, Any]) -> dict[str, Any]:
    return {**messages(), "tenant": VALLEY, "reference_time": NOW, **wrong}


def check(error: InvalidInputError, field: str) -> None:
    assert error.field.startswith(field)
    assert error.allowed
    assert len(str(error)) < 1000
    str(error).encode("utf-8")


@pytest.mark.parametrize(("wrong", "field"), BAD.values(), ids=BAD)
def test_a_bad_request_is_a_typed_error(world, wrong, field):
    """Proves: SEARCH-2, SEARCH-3, OPS-1 (retrieve: field, value and what is allowed)."""
    with pytest.raises(InvalidInputError) as caught:
        retrieve(given(wrong), store=world)
    check(caught.value, field)


@pytest.mark.parametrize(("wrong", "field"), BAD.values(), ids=BAD)
def test_bad_input_of_the_graph_is_the_same_error(graph, wrong, field):
    """Proves: SEARCH-2, SEARCH-3 (the graph's input knows the same bounds)."""
    with pytest.raises(InvalidInputError) as caught:
        graph.invoke(given(wrong))
    check(caught.value, field)


async def test_every_door_raises_the_same(world, graph):
    """Proves: SEARCH-2."""
    bad = given({"max_facts": 0})
    with pytest.raises(InvalidInputError, match="max_facts"):
        await aretrieve(bad, store=world)
    with pytest.raises(InvalidInputError, match="max_facts"):
        list(stream_retrieve(bad, store=world))
    with pytest.raises(InvalidInputError, match="max_facts"):
        await graph.ainvoke(bad)
    with pytest.raises(InvalidInputError, match="max_facts"):
        graph.batch([bad])


def test_unknown_fields_and_roles_of_a_request(world):
    """Proves: SEARCH-2, OPS-1."""
    for wrong, field in (
        ({"colour": "red"}, "colour"),
        (messages(role="wizard"), "messages.0.role"),
        (messages(mood="good"), "messages.0.mood"),
        (messages(timestamp="not a date"), "messages.0.timestamp"),
        (messages(timestamp=5), "messages.0.timestamp"),
        (messages(author="\ud800"), "messages.0.author"),
        (messages(content=None), "messages.0.content"),
        ({"messages": 5}, "messages"),
        ({"messages": None}, "messages"),
        ({"id": ""}, "id"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            retrieve(given(wrong), store=world)
        check(caught.value, field)


def test_unknown_roles_and_times_of_the_graphs_messages(graph):
    """Proves: SEARCH-2, OPS-1."""
    with pytest.raises(ValueError, match="wizard"):
        graph.invoke(given({"messages": [{"role": "wizard", "content": DIRECT}]}))
    with pytest.raises(InvalidInputError, match=r"messages\.0\.role.*user, assistant, tool, system"):
        graph.invoke(given({"messages": [ChatMessage(DIRECT, role="wizard")]}))
    dated = {"role": "user", "content": DIRECT, "additional_kwargs": {"timestamp": "not a date"}}
    with pytest.raises(InvalidInputError, match=r"messages\.0\.timestamp.*RFC 3339"):
        graph.invoke(given({"messages": [dated]}))
    with pytest.raises(InvalidInputError, match="messages"):
        graph.invoke({"tenant": VALLEY})


@pytest.mark.parametrize("context", [{"max_facts": 0}, {"tenant": ""}, {"tenat": "x"}, {"coverage_enough": math.nan}])
def test_bad_context(world, graph, context):
    """Proves: STOP-4, SEARCH-2."""
    with pytest.raises(InvalidInputError, match="context"):
        retrieve(valley_request(DIRECT), store=world, context=context)
    with pytest.raises(ValueError, match=next(iter(context))):
        graph.invoke(valley_request(DIRECT), context=context)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("novelty_min_similarity", -0.1),
        ("conf_min_relevance", 1.5),
        ("coverage_enough", math.nan),
        ("max_facts", 0),
        ("max_facts", 10_000),
        ("novelty_patience", 0),
        ("deadline_seconds", 0),
        ("tool_backoff_seconds", math.inf),
        ("rank_recency_half_life_days", 0),
        ("search_mode", "psychic"),
    ],
)
def test_bad_settings(monkeypatch, knob, value):
    """Proves: STOP-4 (as an argument, and from the environment by build_graph)."""
    with pytest.raises(InvalidInputError, match=knob):
        Settings(**{knob: value})
    monkeypatch.setenv(f"RECALL_LOOP_{knob.upper()}", str(value))
    with pytest.raises(InvalidInputError, match=f"RECALL_LOOP_{knob.upper()}"):
        build_graph()


@pytest.mark.parametrize("size", [1_001, 100_000])
def test_a_very_long_question(world, graph, size):
    """Proves: QUERY-2, QUERY-3, OPS-1 (it works, and no query is the whole text)."""
    text = ("The weather was fine. " * (size // 20))[:size] + " " + DIRECT
    result = retrieve(valley_request(text, debug=True), store=world)
    assert comparable_json(graph.invoke(valley_request(text, debug=True))) == comparable_json(result)
    for call in result.metadata["trace"]["tool_calls"]:
        assert all(len(query) <= 120 for query in call["input"]["queries"])
    assert "f-tallinn" in {fact.id for fact in result.facts}


def test_one_very_long_word(world):
    """Proves: QUERY-2 (100,000 characters without a blank)."""
    assert retrieve(valley_request("z" * 100_000), store=world).stop.reason


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_odd_characters_in_every_text(world, graph, text):
    """Proves: STORE-3, SEARCH-3 (as question, tenant, user, agent, tag and label they are just text)."""
    before = world.maintenance.info()["records"]
    for more in (
        {"messages": [{"role": "user", "content": text}]},
        {"tenant": text},
        {"user_id": text, "conversation_id": text},
        {"agent_id": text, "scope": "constellation"},
        {"filters": {"tags": [text], "label": text, "agent_ids": [text], "fact_type": text, "session": text}},
        {"goal": text, "id": text},
    ):
        result = retrieve(valley_request(DIRECT) | more, store=world)
        assert comparable_json(graph.invoke(valley_request(DIRECT) | _for_graph(more))) == comparable_json(result)
        if "messages" not in more and "goal" not in more:
            assert result.facts == ()
    assert world.maintenance.info()["records"] == before


def _for_graph(more: dict[str, Any]) -> dict[str, Any]:
    return {("request_id" if name == "id" else name): value for name, value in more.items()}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_odd_characters_in_a_record(text):
    """Proves: STORE-1, RANK-1, LOOP-10 (found by its words, with its id as ingested, within its own tenant)."""
    record = {"id": text, "kind": "fact", "text": f"Zebedee keeps pigeons. {text}", "tags": [text], "user_id": text}
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        assert store.upsert([record], tenant=text)[0].status == "created"
        request = messages("Who keeps pigeons?") | {"tenant": text, "user_id": text, "filters": {"tags": [text]}}
        fact = retrieve(request, store=store).facts[0]
        assert (fact.id, fact.text) == (record["id"], record["text"])
        assert fact.evidence[0].source_id == text
        assert retrieve(request | {"tenant": text + "x"}, store=store).facts == ()


def test_control_characters_in_a_question(world):
    """Proves: QUERY-3 (they part words, and are no reason to fail)."""
    result = retrieve(valley_request("When did\x07 Mara\x1b[31m Voss\x0bmove\x85to Tallinn?"), store=world)
    assert "f-tallinn" in {fact.id for fact in result.facts}


def test_a_conversation_of_many_messages(world):
    """Proves: OPS-1."""
    window = [{"role": ("user", "assistant")[n % 2], "content": f"Small talk number {n}."} for n in range(400)]
    result = retrieve(valley_request("") | {"messages": [*window, {"content": DIRECT}]}, store=world)
    assert "f-tallinn" in {fact.id for fact in result.facts}
