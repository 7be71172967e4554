"""Conversations as callers hand them in: every form of message, times, follow-ups."""

from __future__ import annotations

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)

from recall_loop.graph.batch.batch_run import stream_batch
from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import retrieve
from recall_loop.state.errors import InvalidInputError
from tests.integration.graph.worlds import (
    DIRECT,
    NOW,
    TWO_HOPS,
    VALLEY,
    comparable_json,
    filled_store,
    valley_request,
)

QUESTION = "Who is allergic to walnuts?"
FORMS = {
    "mapping": {"role": "user", "content": DIRECT},
    "type": {"type": "human", "content": DIRECT},
    "tuple": ("user", DIRECT),
    "text": DIRECT,
    "message": HumanMessage(DIRECT),
    "chunk": HumanMessageChunk(DIRECT),
    "chat": ChatMessage(DIRECT, role="user"),
    "blocks": HumanMessage([{"type": "text", "text": DIRECT}]),
    "texts": HumanMessage([DIRECT]),
    "picture": HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": DIRECT}]),
    "mapping of blocks": {"role": "user", "content": [{"type": "text", "text": DIRECT}]},
}


@pytest.fixture(scope="module")
def world(embedder):
    with filled_store(embedder) as store:
        yield store


@pytest.fixture(scope="module")
def graph(world):
    return build_graph(world, output="state")


def asked(graph, *messages, **more):
    return graph.invoke({"messages": list(messages), "tenant": VALLEY, "reference_time": NOW, **more})


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_message_is_the_same_question(graph, world, form):
    """Proves: LOOP-9, OPS-1."""
    assert comparable_json(asked(graph, form)) == comparable_json(retrieve(valley_request(DIRECT), store=world))


def test_a_request_takes_messages_of_a_chat_framework(world):
    """Proves: OPS-1 (in one call and in a batch; calls of tools and recalled blocks are passed over)."""
    call = {"name": "look_up", "args": {}, "id": "1"}
    block = AIMessage("recalled", additional_kwargs={"recall_loop": True})
    thread = [HumanMessage(DIRECT), AIMessage("", tool_calls=[call]), block]
    plain = valley_request(DIRECT)
    expected = retrieve(plain, store=world)
    given = {**plain, "messages": thread}
    assert comparable_json(retrieve(given, store=world)) == comparable_json(expected)
    (line,) = stream_batch([{"id": "q", **given}], store=world)
    assert [fact["id"] for fact in line["result"]["facts"]] == [fact.id for fact in expected.facts]


@pytest.mark.parametrize(
    ("messages", "field", "allowed"),
    [
        ([HumanMessage(DIRECT), 5], "messages.1", "a message: a mapping with role and content, or a LangChain message"),
        ([{"content": DIRECT, "kind": "x"}], "messages.0.kind", "known fields: role, author, content, timestamp"),
    ],
)
def test_an_invalid_message_is_named_by_its_position(world, messages, field, allowed):
    """Proves: OPS-1, SEARCH-2."""
    with pytest.raises(InvalidInputError) as caught:
        retrieve({"messages": messages}, store=world)
    assert (caught.value.field, caught.value.allowed) == (field, allowed)


def timed(text, moment, kind=HumanMessage, **more):
    return kind(text, additional_kwargs={"timestamp": moment}, **more)


def test_now_is_the_newest_messages_time(graph, world):
    """Proves: LOOP-9 (and the result echoes it, in UTC; a stated reference_time wins)."""
    messages = [
        timed("Good morning", "2024-05-03T10:00:00+02:00"),
        timed("Hello!", "2024-05-04T08:30:00Z", AIMessage),
        timed(DIRECT, "2024-05-02T08:00:00Z"),
    ]
    output = graph.invoke({"messages": messages, "tenant": VALLEY})
    assert output["reference_time"].startswith("2024-05-04T08:30:00")
    assert asked(graph, *messages)["reference_time"].startswith(NOW[:19])
    plain = [
        {"role": role, "content": message.content, "timestamp": message.additional_kwargs["timestamp"]}
        for role, message in zip(("user", "assistant", "user"), messages, strict=True)
    ]
    result = retrieve({"messages": plain, "tenant": VALLEY}, store=world)
    assert comparable_json(result) == comparable_json(output)


def test_authors_are_taken_from_the_names(graph, world):
    """Proves: OPS-1 (the same from `name` in the graph and from `author` in a request)."""
    output = asked(graph, HumanMessage(TWO_HOPS, name="Joel"))
    messages = [{"content": TWO_HOPS, "author": "Joel"}]
    assert comparable_json(output) == comparable_json(
        retrieve(valley_request("") | {"messages": messages}, store=world)
    )


ENDINGS = {
    "assistant": AIMessage("Let me look that up."),
    "chunk of the assistant": AIMessageChunk("Let me look that up."),
    "chat of the assistant": ChatMessage("Let me look that up.", role="assistant"),
    "tool call": AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": "1"}]),
    "tool result": ToolMessage("It is nine o'clock.", tool_call_id="1"),
    "system": SystemMessage("Answer in one sentence."),
}


@pytest.mark.parametrize("last", ENDINGS.values(), ids=ENDINGS)
def test_the_last_message_of_the_user_is_the_question(graph, last):
    """Proves: QUERY-1, OPS-1 (whatever an agent appended since)."""
    output = asked(graph, HumanMessage(QUESTION), last, debug=True)
    assert output["facts"][0]["id"] == "f-oda"
    queries = " ".join(
        query for call in output["metadata"]["trace"]["tool_calls"][:1] for query in call["input"]["queries"]
    )
    assert "walnuts" in queries
    assert "clock" not in queries


def test_a_conversation_without_a_user(graph):
    """Proves: OPS-1 (the last message is the question then)."""
    output = asked(graph, AIMessage("Is the ferry late?"), AIMessage(QUESTION))
    assert output["facts"][0]["id"] == "f-oda"


def test_our_own_context_is_not_part_of_the_conversation(world):
    """Proves: LOOP-9, LOOP-10 (recalled text is never read as somebody's words)."""
    message_graph = build_graph(world)
    first = message_graph.invoke({"messages": [timed(DIRECT, NOW)], "tenant": VALLEY})
    assert first["messages"][-1].name == "recall_loop"
    second = message_graph.invoke({"messages": first["messages"], "tenant": VALLEY})
    assert comparable_json(second) == comparable_json(first)
    assert [message.id for message in second["messages"]] == [message.id for message in first["messages"]]


def test_the_context_message(world):
    """Proves: LOOP-10."""
    output = build_graph(world).invoke({"messages": [("user", DIRECT)], "tenant": VALLEY})
    question, recalled = output["messages"]
    assert question.content == DIRECT
    assert recalled.content == output["context"]
    nobody = build_graph(world).invoke({"messages": [("user", DIRECT)], "tenant": "nobody"})
    assert nobody["context"] == ""
    assert "No memories" in nobody["messages"][-1].content


def test_a_follow_up_is_resolved_from_the_window(graph, world):
    """Proves: QUERY-1 (a pronoun stands for what was talked about)."""
    window = [HumanMessage("Tell me about Quist."), AIMessage("Quist keeps the lighthouse.")]
    output = asked(graph, *window, HumanMessage("Since when has he kept it?"))
    assert output["facts"][0]["id"] == "f-quist"
    plain = [
        {"content": "Tell me about Quist."},
        {"role": "assistant", "content": "Quist keeps the lighthouse."},
        {"content": "Since when has he kept it?"},
    ]
    assert comparable_json(retrieve(valley_request("") | {"messages": plain}, store=world)) == comparable_json(output)


def test_messages_without_text_are_passed_over(graph):
    """Proves: OPS-1 (a picture before the question is no error)."""
    picture = HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}])
    assert asked(graph, picture, AIMessage(""), HumanMessage(QUESTION))["facts"][0]["id"] == "f-oda"
