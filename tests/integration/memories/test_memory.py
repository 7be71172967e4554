"""`Memory` and `AsyncMemory` over real stores: what goes in, in which shape, and what comes out (API-1)."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from recall_loop import AsyncMemory, ChatMessage, Fact, Memory, MemoryStore, Message, Scope, Settings, retrieve
from recall_loop.state.errors import (
    InvalidInputError,
    RecordNotFoundError,
    RejectedRecordsError,
    UnsupportedOptionError,
)
from tests.embedders import WordHashEmbedder
from tests.llm_endpoint import Behaviour, ChatEndpoint

SETTINGS = Settings(llm_retries=0, llm_timeout_seconds=30, llm_backoff_seconds=0.01, llm_cooldown_seconds=0)


@pytest.fixture
def memory():
    with Memory(embedder=WordHashEmbedder(), settings=SETTINGS) as opened:
        yield opened


def texts(records):
    return [record.text for record in records]


def test_added_and_recalled(embedder):
    """Proves: API-1."""
    with Memory(embedder=embedder) as memory:
        added = memory.add("I moved to Bergen in May.", user_id="ada")
        memory.add("I live in Rome.", user_id="bo")
        result = memory.recall("Where does Ada live?", user_id="ada")
        assert [fact.id for fact in result.facts] == list(added.ids)
        assert "Bergen" in result.context and "Rome" not in result.context
        assert texts(hit.record for hit in memory.search("Bergen", user_id="ada")) == ["I moved to Bergen in May."]
        assert memory.search("Bergen", user_id="nobody") == []


def test_a_text_is_a_message_of_the_user(memory):
    """Proves: API-1, API-2."""
    (record_id,) = memory.add("Hello.", user_id="u", agent_id="a", conversation_id="c", tenant="t").ids
    record = memory.get(record_id, tenant="t")
    assert isinstance(record, Message)
    assert (record.role, record.user_id, record.agent_id, record.conversation_id) == ("user", "u", "a", "c")
    assert record.position == 0 and record.created_at is not None
    assert memory.get(record_id) is None and memory.get(record_id, tenant="t", user_id="v") is None


SHAPES = [
    "Hello.",
    ("user", "Hello."),
    ("human", "Hello."),
    {"role": "user", "content": "Hello."},
    {"content": "Hello."},
    {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
    {"type": "human", "data": {"content": "Hello."}},
    HumanMessage("Hello."),
    ChatMessage(content="Hello."),
    {"kind": "message", "role": "user", "text": "Hello."},
    {"role": "user", "text": "Hello."},
    Message(id="m", text="Hello.", role="user"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_every_shape_gives_the_same_record(memory, shape):
    """Proves: API-1, API-2."""
    for given in (shape, [shape]):
        (record_id,) = memory.add(given, conversation_id="c").ids
        record = memory.get(record_id)
        assert record.model_dump(exclude={"id", "created_at", "position"}, exclude_defaults=True) == {
            "text": "Hello.",
            "role": "user",
            "conversation_id": "c",
        }
        assert record.position is not None and record.created_at is not None


def test_a_mixture_in_order(memory):
    """Proves: API-1."""
    added = memory.add(
        [
            "One.",
            HumanMessage("Two.", name="Ada", id="h2"),
            {"role": "assistant", "content": "Three.", "tool_calls": [call("search", {"q": "x"})]},
            ToolMessage("Four.", tool_call_id="1"),
            ChatMessage(content="Five.", author="Ada", timestamp="2024-05-01T10:00:00Z"),
            {"text": "Six.", "subject": "Ada", "tags": ["x"]},
            Fact(id="f7", text="Seven."),
            SystemMessage("You are helpful."),
            AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "2"}]),
        ],
        user_id="u",
    )
    records = [memory.get(one) for one in added.ids]
    assert texts(records) == ["One.", "Two.", "Three.", "Four.", "Five.", "Six.", "Seven."]
    assert [record.kind for record in records] == ["message"] * 5 + ["fact"] * 2
    assert [record.role for record in records] == ["user", "user", "assistant", "tool", "user", None, None]
    assert (records[1].id, records[1].author, records[4].author) == ("h2", "Ada", "Ada")
    assert records[2].attributes == {"tool_calls": [{"name": "search", "arguments": {"q": "x"}}]}
    assert records[4].created_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert {record.user_id for record in records} == {"u"}
    sessions = {record.session for record in records[:5]}
    assert len(sessions) == 1 and None not in sessions and records[5].session is None
    assert [(one.index, one.reason) for one in added.skipped] == [
        (7, "the role system isn't among roles="),
        (8, "it has tool calls but no text"),
    ]


def call(name, arguments):
    import json

    return {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def test_a_record_with_an_id_replaces_and_one_without_is_new(memory):
    """Proves: API-1, API-2."""
    assert len({*memory.add("Yes.").ids, *memory.add("Yes.").ids}) == 2
    for status in ("created", "unchanged"):
        (outcome,) = memory.add({"role": "user", "content": "Yes.", "id": "m1"}).outcomes
        assert (outcome.id, outcome.status) == ("m1", status)
    (outcome,) = memory.add({"id": "m1", "text": "No.", "role": "user"}).outcomes
    assert outcome.status == "replaced"
    assert len(memory.list()) == 3


def test_messages_of_one_call_are_found_with_their_neighbours(memory):
    """Proves: API-1, STORE-7."""
    memory.add(["Where do I put it?", "Into the cellar."], user_id="u")
    (hit,) = memory.search("cellar", user_id="u", limit=1)
    assert hit.window == "Where do I put it?\nInto the cellar."
    assert memory.get(memory.add("alone").ids[0]).session is None


BAD = [
    (None, InvalidInputError, "content"),
    (7, InvalidInputError, "content"),
    (b"x", InvalidInputError, "content"),
    ([], InvalidInputError, "content"),
    ([7], InvalidInputError, r"content\.0"),
    ("  ", InvalidInputError, "it has no text"),
    ({"role": "system", "content": "x"}, InvalidInputError, "the role system"),
    ({"text": ""}, RejectedRecordsError, r"records\.0\.text"),
    ({"colour": "red"}, RejectedRecordsError, r"records\.0\.colour"),
    (["good", {"text": "x", "kind": "opinion"}], RejectedRecordsError, r"records\.1\.kind.*'opinion'.*one of fact"),
    (["good", {"text": "x", "user_id": "bo"}], RejectedRecordsError, r"records\.1\.user_id.*'bo'.*'ada'"),
    (["good", {"role": "user", "content": "x", "timestamp": "soon"}], RejectedRecordsError, r"created_at.*'soon'"),
    (["good", {"role": "user", "content": "x", "id": 7}], None, None),
]


@pytest.mark.parametrize(("content", "error", "words"), BAD, ids=repr)
def test_bad_input_is_an_error_that_names_it_and_nothing_is_written(memory, content, error, words):
    """Proves: API-1, API-2."""
    if error is None:
        assert len(memory.add(content, user_id="ada").ids) == 2
        return
    with pytest.raises(error, match=words):
        memory.add(content, user_id="ada")
    assert len(memory.list()) == 0


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("add", {"content": "x", "user_id": ""}, "user_id"),
        ("add", {"content": "x", "tenant": 7}, "tenant"),
        ("add", {"content": "x", "roles": ["boss"]}, "roles.*'boss'"),
        ("add", {"content": "x", "roles": "user"}, "roles"),
        ("add", {"content": "x", "on_reject": "ignore"}, "on_reject"),
        ("add", {"content": "x", "infer": True}, "infer.*llm="),
        ("search", {"query": " "}, "query"),
        ("search", {"query": "x", "limit": 0}, "limit"),
        ("search", {"query": "x", "colour": "red"}, "colour"),
        ("search", {"query": "x", "filters": {"colour": "red"}}, "filters.colour"),
        ("search", {"query": "x", "filters": 7}, "filters"),
        ("search", {"query": "x", "scope": "constellation"}, "agent_id"),
        ("recall", {"question": ""}, "content"),
        ("recall", {"question": []}, "messages"),
        ("recall", {"question": 7}, "question"),
        ("recall", {"question": "x", "colour": "red"}, "colour"),
        ("recall", {"question": {"messages": [{"content": "x"}], "user_id": "a"}, "user_id": "b"}, "user_id.*'a'"),
        ("recall", {"question": {"messages": [{"content": "x"}], "goal": "a"}, "goal": "b"}, "goal"),
        ("list", {"limit": 0}, "limit"),
        ("list", {"limit": True}, "limit"),
        ("list", {"after": "x"}, "after"),
        ("list", {"filters": {"tags": []}}, "tags"),
        ("list", {"content_types": ["opinion"]}, "opinion"),
        ("get", {"record_id": "x", "agent_id": " "}, "agent_id"),
        ("get", {"record_id": 7}, "record_id"),
    ],
)
def test_a_bad_argument_is_named(memory, method, arguments, words):
    """Proves: API-1."""
    with pytest.raises(InvalidInputError, match=words):
        getattr(memory, method)(**arguments)


def test_report_writes_what_can_be_written(memory):
    """Proves: API-2."""
    added = memory.add(["good", {"text": ""}, {"text": "also good"}], on_reject="report")
    assert [one.status for one in added.outcomes] == ["created", "rejected", "created"]
    assert texts(memory.get(one) for one in added.ids) == ["good", "also good"]


def test_pages_are_newest_first_and_shift_by_nothing(memory):
    """Proves: API-1."""
    memory.add(
        [{"text": f"t{day}", "id": f"r{day}", "created_at": f"2024-01-{day:02}T00:00:00Z"} for day in range(1, 8)]
    )
    memory.add([{"text": name, "id": name, "created_at": None} for name in ("x", "y")])
    first = memory.list(limit=3)
    memory.add([{"text": "t9", "created_at": "2024-01-09T00:00:00Z"}])
    memory.delete("r5")
    second = memory.list(limit=4, after=first.after)
    third = memory.list(limit=4, after=second.after)
    assert [texts(page) for page in (first, second, third)] == [
        ["t7", "t6", "t5"],
        ["t4", "t3", "t2", "t1"],
        ["y", "x"],
    ]
    assert third.after is None
    last = memory.list(limit=8, after="")
    assert texts(memory.list(limit=8, after=last.after)) == ["x"]


def test_deletes_and_exports_within_a_scope(memory, tmp_path):
    """Proves: API-1."""
    ids = [memory.add(text, user_id=user).ids[0] for text, user in (("a", "u"), ("b", "u"), ("c", "v"))]
    assert not memory.delete(ids[2], user_id="u") and not memory.delete("nobody")
    assert memory.delete(ids[0], user_id="u") and memory.get(ids[0]) is None
    assert texts(memory.export(user_id="u")) == ["b"]
    assert memory.export(tmp_path / "out.jsonl") == 2
    with pytest.raises(InvalidInputError, match="path"):
        memory.export(tmp_path / "out.jsonl")
    from recall_loop import ingest_file

    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as other:
        ingest_file(tmp_path / "out.jsonl", other)
        assert list(other.scan()) == list(memory.export())


@pytest.mark.parametrize(
    "question",
    [
        HumanMessage("Where do I live?"),
        {"role": "user", "content": "Where do I live?"},
        {"type": "human", "content": "Where do I live?"},
        ("user", "Where do I live?"),
    ],
)
def test_a_question_may_be_one_message(memory, question):
    """Proves: API-1."""
    memory.add("I live in Bergen.", user_id="u")
    assert memory.recall(question, user_id="u").facts == memory.recall("Where do I live?", user_id="u").facts != ()
    with pytest.raises(InvalidInputError, match="goal"):
        memory.recall(question, goal=" ")


def test_a_value_of_the_wrong_type_is_named(memory):
    """Proves: API-1, SEARCH-2."""
    for wrong in (None, 3):
        with pytest.raises(InvalidInputError, match="query"):
            memory.search(wrong)
    with pytest.raises(InvalidInputError, match="after"):
        memory.list(after=3)


def test_updates_fields_and_lists_the_history(memory):
    """Proves: API-1, API-3."""
    (name,) = memory.add("I live in Bergen.", user_id="u", tenant="t").ids
    changed = memory.update(name, text="I live in Oslo.", tags=["home"], tenant="t", actor="ann")
    assert (changed.text, changed.tags, changed.user_id, changed.role) == ("I live in Oslo.", ("home",), "u", "user")
    (version,) = memory.history(name, tenant="t", user_id="u")
    assert (version.actor, version.before.text, version.after.text) == ("ann", "I live in Bergen.", "I live in Oslo.")
    assert memory.history(name, tenant="t", user_id="v") == [] == memory.history("nobody")
    for bad in ({}, {"colour": "red"}, {"text": ""}, {"kind": "fact"}):
        with pytest.raises(InvalidInputError):
            memory.update(name, tenant="t", **bad)
    with pytest.raises(RecordNotFoundError):
        memory.update(name, text="another tenant's")


def test_a_record_that_has_expired_but_was_not_swept_is_deleted_like_another(memory):
    """Proves: API-1, LIVE-7, STORE-6."""
    memory.store.upsert([{"id": "m", "text": "Mine.", "user_id": "ann", "expires_at": "2001-01-01T00:00:00Z"}])
    assert memory.get("m") is None and not memory.delete("m", user_id="bo")
    assert memory.delete("m", user_id="ann") and not memory.delete("m", user_id="ann")
    assert memory.store.expired_ids(Scope()) == []


def test_the_history_of_a_record_shows_nothing_from_when_it_was_another_users(memory):
    """Proves: API-3, STORE-3."""
    for user, text in (("ann", "Ann's."), ("ann", "Ann's again."), ("bo", "Bo's."), ("bo", "Bo's again.")):
        memory.store.upsert([{"id": "n", "kind": "archival", "text": text, "user_id": user, "agent_id": "a"}])
    assert [one.before.text for one in memory.history("n")] == ["Ann's.", "Ann's again.", "Bo's."]
    assert [one.before.text for one in memory.history("n", user_id="bo", agent_id="a")] == ["Bo's."]
    reach = Scope(user_id="bo", agent_id="b", mode="constellation")
    assert [one.before.text for one in memory.store.history("n", scope=reach)] == ["Bo's."]


@pytest.mark.parametrize("name", ["user_id", "agent_id", "conversation_id"])
def test_changes_only_what_is_in_scope_and_leaves_it_whose_it_is(memory, name):
    """Proves: API-1."""
    (mine,) = memory.add("I live in Bergen.", **{name: "ada"}).ids
    (nobodys,) = memory.add("The ferry leaves at nine.").ids
    for record_id, owner in ((mine, "bo"), (nobodys, "ada")):
        before = memory.get(record_id)
        with pytest.raises(RecordNotFoundError, match=record_id):
            memory.update(record_id, text="I live in Oslo.", **{name: owner})
        assert memory.get(record_id) == before and memory.history(record_id) == []
    assert getattr(memory.update(mine, text="I live in Oslo.", **{name: "ada"}), name) == "ada"
    with pytest.raises(InvalidInputError):
        memory.update(mine, **{name: None})
    assert getattr(memory.get(mine), name) == "ada"


def test_forgets_what_is_named_and_nothing_else(memory):
    """Proves: API-1, LIVE-7."""
    memory.add(["a", {"text": "b", "subject": "x"}], user_id="u")
    memory.add("c", user_id="v")
    assert memory.forget(user_id="u", dry_run=True).by_kind == {"fact": 1, "message": 1}
    assert memory.forget(user_id="u", content_types=["fact"]).records == 1
    assert memory.forget(rule={"roles": ["user"]}, filters={"user_id": "v"}).records == 1
    assert texts(memory.list()) == ["a"]
    for bad in ({}, {"filters": {}}, {"rule": 7}, {"rule": {"colour": "red"}}, {"tenant": "default"}):
        with pytest.raises(InvalidInputError):
            memory.forget(**bad)
    assert memory.forget(user_id="u").records == 1 and len(memory.list()) == 0


def test_opens_a_folder_again(tmp_path):
    """Proves: API-1."""
    with Memory(tmp_path / "m", embedder=WordHashEmbedder()) as memory:
        memory.add("kept", user_id="u")
    memory.close()
    settings = Settings(store_path=str(tmp_path / "m"), tenant="default")
    with Memory(settings=settings, embedder=WordHashEmbedder()) as again:
        assert texts(again.list()) == ["kept"]


def test_a_given_store_stays_open(store):
    """Proves: API-1."""
    with Memory(store=store, settings=Settings(store_path="elsewhere")) as memory:
        memory.add("kept")
    assert store.count() == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"path": "mysql://user:secret@host/db"},
            UnsupportedOptionError,
            r"path: got 'mysql://…'; allowed: .*postgresql://",
        ),
        ({"path": ""}, InvalidInputError, "path"),
        ({"path": 7}, InvalidInputError, "path"),
        ({"store": "x"}, InvalidInputError, "store"),
        ({"llm": 7}, InvalidInputError, "llm"),
        ({"settings": {}}, InvalidInputError, "settings"),
    ],
)
def test_places_on_which_it_cannot_be_opened(arguments, error, words):
    """Proves: API-1."""
    with pytest.raises(error, match=words) as caught:
        Memory(**arguments)
    assert "secret" not in str(caught.value)


def test_nothing_beside_a_store(store, tmp_path):
    """Proves: API-1."""
    with pytest.raises(InvalidInputError, match=r"path.*store="):
        Memory(tmp_path, store=store)


def test_recall_takes_messages_and_fields(memory):
    """Proves: API-1."""
    memory.add("The boiler was repaired by Kettler.", user_id="u")
    talk = [{"role": "user", "content": "The boiler leaks."}, AIMessage("Oh."), "Who repaired it?"]
    result = memory.recall(talk, user_id="u", reference_time="2030-01-01T00:00:00Z", max_facts=1, debug=True)
    assert texts(result.facts) == ["The boiler was repaired by Kettler."]
    assert result.reference_time == datetime(2030, 1, 1, tzinfo=UTC)


def test_retrieve_takes_a_flat_scope(memory):
    """Proves: API-1."""
    memory.add("The ferry is late.", user_id="u", agent_id="a", conversation_id="c", tenant="t")
    scope = {"user_id": "u", "agent_id": "a", "conversation_id": "c", "tenant": "t"}
    assert len(retrieve("Is the ferry late?", store=memory.store, **scope).facts) == 1
    for name in scope:
        assert retrieve("Is the ferry late?", store=memory.store, **{**scope, name: "other"}).facts == ()
    request = {"messages": [{"content": "Is the ferry late?"}], **scope}
    assert len(retrieve(request, store=memory.store, **scope).facts) == 1
    for name in scope:
        with pytest.raises(InvalidInputError, match=rf"{name}.*'other'.*as the request says"):
            retrieve(request, store=memory.store, **{name: "other"})


def facts(asked):
    said = asked.user.partition("<messages>")[2]
    if asked.schema != "facts" or "Bergen" not in said:
        return {"facts": []} if asked.schema == "facts" else {}
    place = {"subject": "user", "fact_type": "lives_in", "object": "Bergen", "single": True, "cites": [1]}
    return {"facts": [{**place, "text": "The user lives in Bergen."}]}


def test_infer_draws_facts_from_messages():
    """Proves: API-1, OPS-5."""
    with (
        ChatEndpoint(facts) as endpoint,
        Memory(embedder=WordHashEmbedder(), settings=SETTINGS, llm=endpoint.model()) as memory,
    ):
        added = memory.add("I moved to Bergen.", user_id="u", infer=True)
        (fact_id,) = added.facts.created
        fact = memory.get(fact_id, user_id="u")
        assert (fact.text, fact.source_ids, fact.user_id) == ("The user lives in Bergen.", added.ids, "u")
        nothing = memory.add({"kind": "archival", "text": "A note about Bergen."}, infer=True)
        assert nothing.facts.created == [] and len(endpoint.asked) == 1


def test_messages_are_kept_where_the_model_fails():
    """Proves: API-1, LOOP-8."""
    with (
        ChatEndpoint(facts, behaviour=Behaviour.REFUSES) as endpoint,
        Memory(embedder=WordHashEmbedder(), settings=SETTINGS, llm=endpoint.model()) as memory,
    ):
        added = memory.add("I moved to Bergen.", infer=True)
        assert added.facts.failure is not None and added.facts.unread == 1
        assert texts(memory.list()) == ["I moved to Bergen."]


class LoopWatch(WordHashEmbedder):
    """An embedder that notes the threads in which it works."""

    def __init__(self):
        super().__init__()
        self.threads = set()

    def embed_documents(self, texts):
        self.threads.add(threading.get_ident())
        return super().embed_documents(texts)

    def embed_queries(self, texts):
        self.threads.add(threading.get_ident())
        return super().embed_queries(texts)


async def test_the_same_for_an_event_loop(tmp_path):
    """Proves: API-1."""
    embedder = LoopWatch()
    async with AsyncMemory(tmp_path / "m", embedder=embedder) as memory:
        ids = [(await memory.add(text, user_id="u")).ids[0] for text in ("The cat is grey.", "The dog is brown.")]
        assert texts(hit.record for hit in await memory.search("cat", user_id="u", limit=1)) == ["The cat is grey."]
        result = await memory.recall("What colour is the cat?", user_id="u", max_facts=1)
        assert [fact.id for fact in result.facts] == ids[:1]
        assert (await memory.get(ids[0])).text == "The cat is grey."
        assert texts(await memory.list(user_id="u")) == ["The dog is brown.", "The cat is grey."]
        assert [record.id async for record in await memory.export(user_id="u")] == ids
        assert await memory.export(tmp_path / "out.jsonl") == 2
        assert (await memory.update(ids[1], user_id="u", text="The dog is black.")).text == "The dog is black."
        with pytest.raises(RecordNotFoundError):
            await memory.update(ids[1], user_id="w", text="The dog is white.")
        assert [one.before.text for one in await memory.history(ids[1])] == ["The dog is brown."]
        assert (await memory.forget(user_id="u", dry_run=True)).records == 2
        assert await memory.delete(ids[0]) and not await memory.delete(ids[0])
        with pytest.raises(RejectedRecordsError):
            await memory.add({"text": ""})
        many = await asyncio.gather(*(memory.add(f"Note {number}.", user_id="w") for number in range(20)))
        assert len({one.ids for one in many}) == 20
    assert threading.get_ident() not in embedder.threads
    with pytest.raises(UnsupportedOptionError):
        AsyncMemory("mysql://host/db")


def test_both_have_the_same_methods_and_arguments():
    """Proves: API-1."""
    import inspect

    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if not name.startswith("_"):
            wanted = list(inspect.signature(method).parameters)
            assert list(inspect.signature(getattr(AsyncMemory, name)).parameters) == wanted, name


def test_an_id_that_is_no_text_is_named_as_the_caller_does(memory):
    """Proves: API-1."""
    store = memory.store
    calls = (memory.get, memory.delete, memory.history, memory.update, store.history, lambda one: store.update(one, {}))
    for wrong in (5, None, ["m1"]):
        for call_with in calls:
            with pytest.raises(InvalidInputError, match=r"^record_id: got .*; allowed: text$"):
                call_with(wrong)
        with pytest.raises(InvalidInputError, match=r"^ids: got .*; allowed: text$"):
            store.get([wrong], scope=Scope())


def test_forgetting_nothing_in_particular_says_what_can_be_named() -> None:
    """Proves: API-1, SEARCH-2."""
    with Memory() as memory:
        memory.add("I live in Bergen.")
        with pytest.raises(
            InvalidInputError, match=r"filters: got None; allowed: a user_id, agent_id or conversation_id"
        ):
            memory.forget()
        assert len(memory.list()) == 1
