"""The remember node: messages once, in order, with their owners, in any graph (OPS-5)."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from recall_loop import Context, InvalidInputError, MemoryStore, Settings, build_graph, remember
from recall_loop.memory.search.engine import search
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType
from tests.embedders import WordHashEmbedder

ACME = Scope(tenant="acme")
MESSAGES = [ContentType.MESSAGE]


class Told(MessagesState):
    remembered: dict[str, Any]


@pytest.fixture
def store():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def graph(node, state: Any = Told, checkpointer=None, context_schema=Context):
    builder = StateGraph(state, context_schema=context_schema)
    builder.add_node("remember", node)
    builder.add_edge(START, "remember")
    return builder.compile(checkpointer=checkpointer)


def thread(name="t1", **more):
    return {"configurable": {"thread_id": name, **more}}


def texts(store, scope=ACME):
    return [record.text for record in store.scan(scope, content_types=MESSAGES)]


def say(*lines):
    return {"messages": [HumanMessage(line) if at % 2 == 0 else AIMessage(line) for at, line in enumerate(lines)]}


def test_turn_by_turn_each_message_is_written_once_beside_its_neighbours(store):
    """Proves: OPS-5, STORE-7."""
    talk = graph(remember(store, tenant="acme"), checkpointer=InMemorySaver())
    first = talk.invoke(say("I moved to Bergen.", "How is the harbour?"), thread())["remembered"]
    assert len(first["created"]) == 2 and first["conversation_id"] == "t1"
    second = talk.invoke(say("Full of gulls."), thread())["remembered"]
    assert len(second["created"]) == 1 and second["replaced"] == []
    records = list(store.scan(ACME))
    assert [(record.text, record.position, record.role) for record in records] == [
        ("I moved to Bergen.", 0, "user"),
        ("How is the harbour?", 1, "assistant"),
        ("Full of gulls.", 2, "user"),
    ]
    assert all(record.conversation_id == "t1" and record.created_at for record in records)
    view = store.view(ACME)
    windows = [row.window for row in view.rows(view.rowids()).values()]
    assert windows[1] == "I moved to Bergen.\nHow is the harbour?\nFull of gulls."


def test_running_again_writes_nothing(store):
    """Proves: OPS-5, STORE-2."""
    talk = graph(remember(store, tenant="acme", trajectory=True))
    state = {"messages": [HumanMessage("One.", id="a"), AIMessage("Two.", id="b")]}
    talk.invoke(state, thread())
    before = list(store.scan(ACME))
    again = talk.invoke(state, thread())["remembered"]
    assert again["created"] == again["replaced"] == []
    assert list(store.scan(ACME)) == before
    talk.invoke(state, thread("t2"))
    assert len(texts(store)) == 4  # another thread is another conversation


def test_messages_without_ids_are_known_by_place_and_words(store):
    """Proves: OPS-5."""

    class Bare(TypedDict):
        messages: Annotated[list[Any], operator.add]
        remembered: dict[str, Any]

    talk = graph(remember(store, tenant="acme"), Bare, InMemorySaver())
    yes = {"role": "user", "content": "Yes."}
    talk.invoke({"messages": [yes, {"role": "assistant", "content": "Sure?"}, yes]}, thread())
    talk.invoke({"messages": [yes, ("user", "Bye.")]}, thread())
    assert texts(store) == ["Yes.", "Sure?", "Yes.", "Yes.", "Bye."]
    assert [record.position for record in store.scan(ACME)] == [0, 1, 2, 3, 4]


def test_an_edited_message_is_replaced_and_a_removed_one_stays(store):
    """Proves: OPS-5."""
    talk = graph(remember(store, tenant="acme"), checkpointer=InMemorySaver())
    talk.invoke({"messages": [HumanMessage("I live in Oslo.", id="a"), AIMessage("Nice.", id="b")]}, thread())
    first = next(store.scan(ACME))
    told = talk.invoke({"messages": [HumanMessage("I live in Bergen.", id="a")]}, thread())["remembered"]
    assert told["created"] == [] and len(told["replaced"]) == 1
    assert texts(store) == ["I live in Bergen.", "Nice."]
    changed = next(store.scan(ACME))
    assert (changed.position, changed.created_at) == (first.position, first.created_at)
    assert changed.updated_at is not None
    talk.invoke({"messages": [RemoveMessage("a"), HumanMessage("Bye.", id="c")]}, thread())
    assert texts(store) == ["I live in Bergen.", "Nice.", "Bye."]
    assert [record.position for record in store.scan(ACME)] == [0, 1, 2]


def test_what_recall_appends_and_what_nobody_said_is_not_remembered(store):
    """Proves: OPS-5."""
    store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry leaves at nine."}], tenant="acme")
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("recall", build_graph(store))
    builder.add_node("remember", remember(store))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "remember")
    state = {
        "messages": [
            SystemMessage("You are kind."),
            HumanMessage("When does the ferry leave?"),
            AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": "1"}]),
            ToolMessage("It is eight.", tool_call_id="1"),
            AIMessage([{"type": "text", "text": "At nine."}, {"type": "reasoning", "text": "Hm."}]),
        ]
    }
    output = builder.compile().invoke(state, thread(), context=Context(tenant="acme"))
    assert output["messages"][-1].name == "recall_loop"
    assert texts(store) == ["When does the ferry leave?", "At nine."]
    graph(remember(store, roles=["tool"], conversation_id="c2")).invoke(state, context=Context(tenant="acme"))
    assert texts(store)[2:] == ["It is eight."]


def test_owners_come_from_arguments_then_context_then_configuration(store):
    """Proves: OPS-5, STORE-3."""
    said = {"messages": [HumanMessage("Hello.", id="a", name="Ann", additional_kwargs={"tenant": "evil"})]}
    config = thread("t1", tenant="low", user_id="u-low", agent_id="a-low", session="s-low")
    graph(remember(store)).invoke(said, config)
    (record,) = store.scan(Scope(tenant="low"))
    assert (record.user_id, record.agent_id, record.session, record.author) == ("u-low", "a-low", "s-low", "Ann")
    graph(remember(store)).invoke(said, config, context=Context(tenant="mid", user_id="u-mid"))
    (record,) = store.scan(Scope(tenant="mid"))
    assert (record.user_id, record.agent_id, record.conversation_id) == ("u-mid", "a-low", "t1")
    node = remember(store, tenant="top", user_id="u", agent_id="a", group_id="g", conversation_id="c", session="s")
    graph(node).invoke(said, config, context=Context(tenant="mid", user_id="u-mid", conversation_id="c-mid"))
    (record,) = store.scan(Scope(tenant="top"))
    owners = (record.user_id, record.agent_id, record.group_id, record.conversation_id, record.session)
    assert owners == ("u", "a", "g", "c", "s")
    assert store.count(Scope(tenant="evil")) == store.count() == 0


def test_equal_messages_of_two_users_in_threads_of_one_name_stay_apart(store):
    """Proves: OPS-5, STORE-3."""
    talk = graph(remember(store, tenant="acme"))
    for user in ("u1", "u2"):
        talk.invoke({"messages": [HumanMessage("Hi.", id="1")]}, thread("main", user_id=user))
    assert [record.user_id for record in store.scan(ACME)] == ["u1", "u2"]


def test_a_conversation_whose_messages_have_no_positions_goes_on_behind_them(store):
    """Proves: OPS-5, STORE-7."""
    old = {"kind": "message", "role": "user", "conversation_id": "t1"}
    days = [old | {"id": f"o{day}", "text": f"Old {day}.", "created_at": f"2024-01-0{day}T00:00:00Z"} for day in (1, 2)]
    store.upsert(days, tenant="acme")
    talk = graph(remember(store, tenant="acme"), checkpointer=InMemorySaver())
    for lines in (("New 1.", "New 2."), ("New 3.",)):
        talk.invoke(say(*lines), thread())
    hits = search(store, "New Old", scope=ACME, params=SearchParams(content_types=MESSAGES)).hits
    windows = {hit.record.text: hit.window.split("\n") for hit in hits}
    assert windows["Old 1."] == ["Old 1.", "Old 2."] and windows["New 1."] == ["Old 2.", "New 1.", "New 2."]
    assert windows["New 3."] == ["New 2.", "New 3."]


def test_a_conversation_at_the_greatest_position_goes_on(store):
    """Proves: OPS-5, API-2."""
    store.upsert([{"id": "m", "text": "Earlier.", "conversation_id": "t1", "position": 2**63 - 1}], tenant=ACME.tenant)
    graph(remember(store, tenant="acme")).invoke(say("Hi", "Hello", "Bye"), thread())
    assert texts(store) == ["Earlier.", "Hi", "Hello", "Bye"]


def test_a_time_in_the_future_is_the_clocks(store):
    """Proves: OPS-5 (no message makes its facts last for ever)."""
    state = {"messages": [HumanMessage("One.", additional_kwargs={"timestamp": "9000-01-01T00:00:00Z"})]}
    told = graph(remember(store, tenant="acme")).invoke(state, thread())["remembered"]
    (record,) = store.scan(ACME)
    assert record.created_at <= datetime.now(UTC) and "future" in told["warnings"][0]


def test_times_of_messages_are_kept_and_odd_ones_reported(store):
    """Proves: OPS-5."""
    state = {
        "messages": [
            HumanMessage("One.", additional_kwargs={"timestamp": "2024-05-01T09:30:00Z"}),
            HumanMessage("Two.", additional_kwargs={"timestamp": "next spring"}),
        ]
    }
    told = graph(remember(store, tenant="acme")).invoke(state, thread())["remembered"]
    first, second = store.scan(ACME)
    assert first.created_at.isoformat() == "2024-05-01T09:30:00+00:00"
    assert second.created_at is not None and "timestamp is invalid" in told["warnings"][0]
    assert "spring" not in str(told)


@pytest.mark.parametrize("form", ["pydantic", "dataclass", "foreign"])
def test_a_parent_with_a_state_of_its_own(store, form):
    """Proves: OPS-5, OPS-2."""

    class Model(BaseModel):
        messages: Annotated[list[Any], operator.add] = []
        ticket: str = ""

    @dataclass
    class Plain:
        messages: Annotated[list[Any], operator.add] = field(default_factory=list)
        ticket: str = ""

    class Foreign(TypedDict):
        chat: Annotated[list[Any], operator.add]
        ticket: str

    @dataclass
    class Desk:
        tenant: str = "acme"
        colour: str = "red"

    state = {"pydantic": Model, "dataclass": Plain, "foreign": Foreign}[form]
    key = "chat" if form == "foreign" else "messages"
    talk = graph(remember(store, messages_key=key), state, context_schema=Desk)
    output = talk.invoke({key: [HumanMessage("Hello.")], "ticket": "T-1"}, thread(), context=Desk())
    assert output["ticket"] == "T-1" and texts(store) == ["Hello."]


async def test_asynchronously_and_as_an_event(store):
    """Proves: OPS-5."""
    talk = graph(remember(store, tenant="acme"), MessagesState, InMemorySaver())
    events = [part async for part in talk.astream(say("Hello.", "Hi."), thread(), stream_mode="custom")]
    assert [event["type"] for event in events] == ["remembered"] and len(events[0]["created"]) == 2
    assert await talk.ainvoke(say("Bye."), thread())
    assert texts(store) == ["Hello.", "Hi.", "Bye."]


def test_a_crash_between_writing_and_the_checkpoint_writes_nothing_twice(tmp_path):
    """Proves: OPS-5, STORE-4."""
    crashed: list[int] = []

    def after(state):
        if not crashed:
            crashed.append(1)
            raise RuntimeError("the process died")
        return {}

    def talk_of(opened, saver):
        builder = StateGraph(MessagesState)
        builder.add_node("both", lambda state, *, runtime: after(node(state, runtime=runtime)))
        node = remember(opened, tenant="acme", trajectory=True)
        builder.add_edge(START, "both")
        return builder.compile(checkpointer=saver)

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as opened:
            with pytest.raises(RuntimeError, match="died"):
                talk_of(opened, saver).invoke(say("Hello.", "Hi."), thread())
            before = list(opened.scan(ACME))
        with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as opened:
            talk_of(opened, saver).invoke(None, thread())
            assert list(opened.scan(ACME)) == before and len(before) == 3


def test_a_turn_is_kept_as_a_trajectory_with_secrets_masked(store):
    """Proves: OPS-5, TRAJ-1."""
    talk = graph(remember(store, tenant="acme", user_id="u1", trajectory=True), checkpointer=InMemorySaver())
    call = {"name": "login", "args": {"api_key": "sk-123456789012345678901234", "page": "2"}, "id": "1"}
    turn = [
        HumanMessage("Log in and count the orders."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("41 orders", tool_call_id="1", name="login"),
        AIMessage("There are 41 orders."),
    ]
    first = talk.invoke({"messages": turn}, thread())["remembered"]["trajectory_id"]
    second = talk.invoke(say("Thanks.", "You are welcome."), thread())["remembered"]["trajectory_id"]
    runs = {record.id: record for record in store.scan(ACME, content_types=[ContentType.TRAJECTORY])}
    assert list(runs) == [first, second]
    run = run_from_record(runs[first])
    assert run.task == "Log in and count the orders." and run.metadata.tools_used == ("login",)
    assert run.execution.status == "completed" and run.scoring_pending and runs[first].user_id == "u1"
    assert "sk-1234" not in runs[first].model_dump_json()
    assert store.count(ACME, Filters(scored=False)) == 2


def test_a_turn_kept_as_a_trajectory_is_found_by_its_errors(store):
    """As a run that is added in any other way. Proves: OPS-5, TRAJ-5."""
    talk = graph(remember(store, tenant="acme", trajectory=True))
    turn = [
        HumanMessage("Refund the boots."),
        AIMessage("", tool_calls=[{"name": "issue_refund", "args": {"order": "A-1"}, "id": "1"}]),
        ToolMessage("Error: 429 Too Many Requests", tool_call_id="1"),
        AIMessage("", tool_calls=[{"name": "wait", "args": {"seconds": 30}, "id": "2"}]),
        ToolMessage("ok", tool_call_id="2"),
        AIMessage("Refunded."),
    ]
    run_id = talk.invoke({"messages": turn}, thread())["remembered"]["trajectory_id"]
    lines = store.get([run_id], scope=ACME)[0].text.splitlines()
    assert lines[1:4] == [
        "Tools: issue refund, wait",
        "Error: 429 Too Many Requests",
        "Then: wait with seconds",
    ]


def test_what_is_erased_stays_erased(store):
    """Proves: STORE-6, OPS-5."""
    talk = graph(remember(store, tenant="acme", trajectory=True))
    talk.invoke(say("Hello.", "Hi."), thread())
    assert store.erase(Scope(tenant="acme", conversation_id="t1")) == 3
    assert texts(store) == []


def test_without_a_store_the_path_of_context_or_settings_is_opened_for_writing(tmp_path):
    """Proves: OPS-5."""
    settings = Settings(store_path=str(tmp_path / "memory"))
    node = remember(settings=settings, tenant="acme")
    graph(node).invoke(say("Hello."), thread())
    with MemoryStore.open(tmp_path / "memory", read_only=True) as reader:
        assert texts(reader) == ["Hello."]
        with pytest.raises(StoreReadOnlyError):
            graph(remember(reader)).invoke(say("Hello."), thread())


def test_errors_name_the_wrong_argument(store):
    """Proves: OPS-5."""
    for name, arguments in (
        ("store", {"store": "path"}),
        ("llm", {"llm": 5}),
        ("roles", {"roles": ["robot"]}),
        ("tenant", {"tenant": " "}),
        ("single_valued", {"single_valued": "lives_in"}),
        ("facts", {"facts": True}),
        ("messages_key", {"messages_key": 3}),
    ):
        with pytest.raises(InvalidInputError, match=name):
            remember(**{"store": store} | arguments)
    for name, node, config in (
        ("conversation_id", remember(store), {}),
        ("store", remember(), thread()),
        ("chat", remember(store, messages_key="chat"), thread()),
    ):
        with pytest.raises(InvalidInputError, match=name):
            graph(node).invoke(say("Hello."), config)
    with pytest.raises(InvalidInputError, match=r"messages\.1"):

        class Any_(TypedDict):
            messages: list[Any]

        graph(remember(store), Any_).invoke({"messages": ["Hello.", 7]}, thread())
    assert store.count() == 0
    for bound in (store, None):  # a caller's path is no place to make a store, and doesn't replace the bound one
        node, context = remember(bound), Context(store_path="/dev/shm/nowhere-to-be-made")
        with pytest.raises((InvalidInputError, StoreUnavailableError), match=r"store_path|no store there"):
            graph(node).invoke(say("Hello."), thread(), context=context)
    store.close()
    with pytest.raises(StoreUnavailableError):
        graph(remember(store)).invoke(say("Hello."), thread())
