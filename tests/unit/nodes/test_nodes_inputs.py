"""From messages and the graph's input to a request, and what tells one run from the next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from recall_loop.memory.parsing.chat_messages import RECALL_MARKER
from recall_loop.nodes.runtime.inputs import (
    caller_fields,
    chat_messages,
    chat_role,
    cleared_inputs,
    request_from_state,
    run_key,
)
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import MAX_TEXT_CHARS

ASKED = HumanMessage("Where is Mara?", id="1")


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (HumanMessage("x"), "user"),
        (AIMessage("x"), "assistant"),
        (AIMessageChunk("x"), "assistant"),
        (SystemMessage("x"), "system"),
        (ToolMessage("x", tool_call_id="1"), "tool"),
        (FunctionMessage("x", name="clock"), "tool"),
        (ChatMessage("x", role="assistant"), "assistant"),
    ],
)
def test_roles(message, role):
    """Proves: OPS-1."""
    assert chat_role(message) == role
    assert chat_messages([message])[0].role == role


def test_fields_win_over_context_and_context_over_settings():
    """Proves: OPS-1 (request > context > settings > default)."""
    chosen = Settings(tenant="set", max_facts=7)
    context = Context(tenant="told", agent_id="lena")
    assert request_from_state({"messages": [ASKED]}, Context(), chosen).tenant == "set"
    assert request_from_state({"messages": [ASKED]}, context, chosen).tenant == "told"
    request = request_from_state({"messages": [ASKED], "tenant": "asked", "max_facts": 3}, context, chosen)
    assert (request.tenant, request.agent_id, request.max_facts) == ("asked", "lena", 3)
    assert request_from_state({"messages": [ASKED]}, context, chosen).max_facts == 7


def test_constellation_may_take_its_agent_from_the_context():
    """Proves: SEARCH-4, SEARCH-2."""
    state = {"messages": [ASKED], "scope": "constellation"}
    assert request_from_state(state, Context(agent_id="lena"), Settings()).read_scope().agent_id == "lena"
    with pytest.raises(InvalidInputError, match=r"scope.*agent_id"):
        request_from_state(state, Context(), Settings())


def test_context_blocks_of_ours_and_empty_messages_are_left_out():
    """Proves: LOOP-9, LOOP-10."""
    ours = HumanMessage("[m1] Mara lives in Tallinn", additional_kwargs={RECALL_MARKER: True})
    assert [message.content for message in chat_messages([ours, AIMessage(""), ASKED, ours])] == ["Where is Mara?"]
    for nothing in ([], [ours]):
        with pytest.raises(InvalidInputError, match=r"messages.*at least one"):
            chat_messages(nothing)


@pytest.mark.parametrize(
    "last", ["  ", "", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]]
)
def test_the_last_message_of_the_user_that_has_text_is_the_question(last):
    """Proves: LOOP-9, GRAPH-1 (a picture alone doesn't end a host's run)."""
    talk = [ASKED, AIMessage("In Tallinn."), HumanMessage(last)]
    assert request_from_state({"messages": talk}, Context(), Settings()).question.content == "Where is Mara?"
    for silent in ([HumanMessage(last)], [SystemMessage("You are helpful."), HumanMessage(last)]):
        with pytest.raises(InvalidInputError, match=r"messages\.content.*not white space"):
            request_from_state({"messages": silent}, Context(), Settings())


LONG = "x" * (MAX_TEXT_CHARS + 1)


@pytest.mark.parametrize(
    ("odd", "content"),
    [
        (ToolMessage("a\0b\ud800", tool_call_id="1"), "a\ufffdb\ufffd"),
        (ToolMessage(LONG, tool_call_id="1"), LONG[:-1]),
        (ToolMessage(" " * MAX_TEXT_CHARS + "x", tool_call_id="1"), None),
        (AIMessage("x", additional_kwargs={"timestamp": "12:30"}), "x"),
        (AIMessage("x", name="a\0b"), "x"),
        (ChatMessage("x", role="critic"), "x"),
    ],
)
@pytest.mark.parametrize("follows", [False, True])
def test_an_odd_message_that_isnt_the_question_ends_no_run(odd, content, follows):
    """Proves: LOOP-9, GRAPH-1 (what a tool said once would end every later turn of its thread)."""
    talk = [ASKED, odd] if follows else [odd, ASKED]
    request = request_from_state({"messages": talk}, Context(), Settings())
    assert request.question.content == "Where is Mara?"
    assert [one.content for one in request.messages if one is not request.question] == ([content] if content else [])


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (HumanMessage("a\0b"), "content"),
        (HumanMessage(LONG), "content"),
        (HumanMessage("x", additional_kwargs={"timestamp": "12:30"}), "timestamp"),
    ],
)
def test_an_error_of_the_question_names_its_place_in_the_callers_list(asked, field):
    """Proves: SEARCH-2."""
    ours = HumanMessage("[m1]", additional_kwargs={RECALL_MARKER: True})
    with pytest.raises(InvalidInputError) as caught:
        request_from_state({"messages": [ours, AIMessage(""), ASKED, asked, ours]}, Context(), Settings())
    assert caught.value.field == f"messages.3.{field}"


def key_of(state):
    return run_key(state, Context())


def test_a_run_knows_itself_after_its_first_step():
    """Proves: LOOP-2, LOOP-4 (what the first step fills in makes no other run of it)."""
    state = {"messages": [ASKED], "goal": "find her", "reference_time": "2024-01-01T00:00:00Z"}
    after = {**state, "request_id": "id-1", "reference_time": "2024-01-01T00:00:00+00:00"}
    assert key_of(after) == key_of(state)
    assert run_key(state, Context(tenant="other")) != key_of(state)


def test_a_finished_run_leaves_nothing_to_the_next_turn():
    """Proves: LOOP-2, LOOP-9 (input of one turn is not that of the thread's next)."""
    state = {"messages": [ASKED], "tenant": "B", "max_facts": 1, "request_id": "one", "reference_time": "2020-01-01"}
    after = {**state, **cleared_inputs(state)}
    assert caller_fields(after) == {}
    request = request_from_state(after, Context(), Settings())
    assert (request.id, request.reference_time, request.tenant) == (None, None, "default")
    newer = {**after, "request_id": "two", "tenant": "C"}
    assert caller_fields(newer) == {"request_id": "two", "tenant": "C"}


FIELDS = st.fixed_dictionaries(
    {},
    optional={"goal": st.text(min_size=1), "tenant": st.text(min_size=1), "max_facts": st.integers(1, 5)},
)


@settings(max_examples=50)
@given(one=FIELDS, two=FIELDS, texts=st.lists(st.text(), max_size=3))
def test_runs_differ_when_their_input_does(one, two, texts):
    """Proves: LOOP-2 (any text, surrogates included, makes a key)."""
    messages = [HumanMessage(text, id=str(place)) for place, text in enumerate(texts)]
    keys = [key_of({"messages": messages, **fields}) for fields in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)
    assert key_of({"messages": [*messages, HumanMessage("x", id="new")], **one}) != keys[0]
