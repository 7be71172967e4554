"""The searches as LangChain tools: bound scope, honest empties, errors that an agent sees, agents that use them."""

from __future__ import annotations

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from recall_loop import (
    InvalidInputError,
    MemoryStore,
    Scope,
    Settings,
    UnsupportedOptionError,
    add_tool,
    memory_tools,
    retrieve,
    retrieve_tool,
    trajectory_tool,
)
from recall_loop.state.types import ToolName
from tests.embedders import WordHashEmbedder
from tests.integration.graph.worlds import COAST, COAST_TEXTS, VALLEY, VALLEY_IDS, FlakyEmbedder, filled_store
from tests.llm_endpoint import ChatEndpoint, RawReply, ToolReply


@pytest.fixture(scope="module")
def store():
    with filled_store() as opened:
        yield opened


def named(store, scope=None, **options):
    return {tool.name: tool for tool in memory_tools(store, scope or Scope(tenant=VALLEY), **options)}


def ids(answer):
    return [result["id"] for result in json.loads(answer)["results"]]


def test_each_tool_searches_its_kind(store):
    """Proves: OPS-5, LOOP-1."""
    tools = named(store)
    assert list(tools) == [name.value for name in ToolName]
    kinds = {
        name: {
            result["content_type"] for result in json.loads(tools[name].invoke({"query": "granary Mara"}))["results"]
        }
        for name in tools
        if name != "search_trajectories"
    }
    assert kinds == {
        "search_facts": {"fact"},
        "search_messages": {"message"},
        "search_archival": {"archival"},
        "search_all": {"fact", "message", "archival"},
    }
    assert "t-ferry" in tools["search_trajectories"].invoke({"query": "ferry Birk booked a place"})
    assert list(named(store, tools=["search_facts"])) == ["search_facts"]


def test_arguments_narrow_a_search_and_wrong_ones_are_reported(store):
    """Proves: SEARCH-3, OPS-5."""
    tools = named(store)
    assert ids(tools["search_facts"].invoke({"query": "Mara", "fact_type": "lives_in"})) == ["f-tallinn"]
    assert ids(tools["search_archival"].invoke({"query": "lighthouse", "label": "Seals"})) == ["a-seals"]
    found = tools["search_messages"].invoke({"query": "granary", "role": "assistant", "limit": 1})
    assert ids(found) == ["m4"]
    assert "2024-01-12" in tools["search_facts"].invoke({"query": "Mara Tallinn", "limit": 1})
    for wrong, words in (
        ({"query": "a", "limit": 0}, "limit: got 0; allowed: an integer from 1 to 50"),
        ({}, "query: got nothing; allowed: text of 1 to"),
        ({"query": "a", "colour": "red"}, "colour: got 'red'; allowed: known fields: query, limit, "),
        ({"query": " "}, "query: got ' '; allowed: text"),
        ({"query": "a", "role": "robot"}, "role: got 'robot'; allowed: one of user, "),
        ({"query": "a", "start_time": "2024-05-02T00:00:00Z", "end_time": "2024-05-01T00:00:00Z"}, "start_time"),
    ):
        call = {"name": "search_messages", "args": wrong, "id": "1", "type": "tool_call"}
        answer = tools["search_messages"].invoke(call)
        assert words in answer.content and answer.status == "error", wrong


def test_scope_and_tenant_are_not_the_models_to_choose(store):
    """Proves: STORE-3, OPS-5."""
    for name, tool in {**named(store), "retrieve": retrieve_tool(store, Scope(tenant=VALLEY))}.items():
        assert not {"tenant", "scope", "user_id", "agent_id", "config"} & set(tool.args), name
        asked = {"question": "the boathouse"} if name == "retrieve" else {"query": "the boathouse of Ludo Brandt"}
        answer = tool.invoke({**asked, "tenant": COAST}, {"configurable": {"tenant": COAST}})
        assert "tenant" in answer, name
        answer = tool.invoke(asked, {"configurable": {"tenant": COAST}})
        assert not any(text in answer for text in COAST_TEXTS)
    mara = named(store, Scope(tenant=VALLEY, user_id="u-mara"))["search_all"]
    assert set(ids(mara.invoke({"query": "Ossian ferry seals granary", "limit": 50}))) <= VALLEY_IDS
    assert "Ossian" not in mara.invoke({"query": "Ossian", "limit": 50})


def test_a_function_makes_the_scope_of_each_call(store):
    """Proves: STORE-3, OPS-5."""
    tools = named(store, lambda config: Scope(tenant=config["configurable"]["tenant"]))
    valley = tools["search_facts"].invoke({"query": "granary"}, {"configurable": {"tenant": VALLEY}})
    coast = tools["search_facts"].invoke({"query": "granary"}, {"configurable": {"tenant": COAST}})
    assert "f-granary" in ids(valley) and "x-granary" in ids(coast) and not set(ids(valley)) & {"x-granary"}
    with pytest.raises(KeyError):
        tools["search_facts"].invoke({"query": "granary"})
    assert "t-ferry" not in tools["search_trajectories"].invoke({"query": "ferry"}, {"configurable": {"tenant": COAST}})


def test_a_function_that_finds_no_scope_opens_no_other(store):
    """Proves: STORE-3, OPS-5 (nobody's scope is not the default tenant's)."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as memory:
        memory.upsert([{"id": "s1", "kind": "fact", "text": "The default tenant hides a granary."}])
        for found in (None, "default"):
            tools = [
                *memory_tools(memory, lambda config, found=found: found),
                retrieve_tool(memory, lambda config: None),
            ]
            for tool in tools:
                asked = {"question" if tool.name == "retrieve_memories" else "query": "granary"}
                with pytest.raises(InvalidInputError, match="scope"):
                    tool.invoke(asked)
    as_mapping = named(store, lambda config: {"tenant": VALLEY})["search_facts"]
    assert "f-granary" in ids(as_mapping.invoke({"query": "granary"}))


def test_texts_are_shortened_by_rank():
    """Proves: SEARCH-8."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        long = [{"id": f"n{at}", "kind": "archival", "text": f"gull {at} " + "word " * 500} for at in range(8)]
        store.upsert(long)
        (tool,) = memory_tools(store, tools=["search_archival"])
        results = json.loads(tool.invoke({"query": "gull"}))["results"]
        assert [len(result["text"]) > 2000 for result in results] == [True] * 2 + [False] * 6
        assert all(len(result["text"]) <= 400 and result["truncated"] for result in results[5:])
        (tool,) = memory_tools(store, tools=["search_archival"], profile="1:50,10")
        assert all(len(result["text"]) <= 50 for result in json.loads(tool.invoke({"query": "gull"}))["results"])


def test_results_say_where_they_come_from():
    """Proves: SEARCH-6."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        times = {"created_at": "2024-05-01T09:30:00Z", "updated_at": "2024-05-02T09:30:00Z"}
        owner = {"agent_id": "a-1", "agent_name": "Lena's helper"}
        store.upsert([{"id": "m", "kind": "message", "text": "The gull is back.", "role": "user", **owner, **times}])
        (tool,) = memory_tools(store, tools=["search_all"])
        (result,) = json.loads(tool.invoke({"query": "gull"}))["results"]
    assert 0 < result["similarity"] <= 1 and 0 < result["score"] <= 1
    assert {name: result[name] for name in ("role", *owner)} == {"role": "user", **owner}
    assert (result["created_at"][:10], result["updated_at"][:10]) == ("2024-05-01", "2024-05-02")


def test_misspelt_words_are_found_where_that_is_asked_for(embedder):
    """Proves: SEARCH-2 (each tool, the loop as a tool, and the loop itself)."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        attributes = {"outcome_score": 0.5}
        for kind in ("fact", "message", "archival", "trajectory"):
            more = {"attributes": attributes} if kind == "trajectory" else {}
            store.upsert([{"id": kind, "kind": kind, "text": "The telescope stands on the roof.", **more}])
        store.upsert([{"id": f"n{at}", "kind": "fact", "text": f"Casserole {at} of beans."} for at in range(30)])
        once = {"messages": [{"content": "teleskope"}], "max_iterations": 1}  # a refinement mends it by itself
        best, plain = (retrieve(once | {"fuzzy": level}, store=store).facts[0] for level in (2, 0))
        tool = retrieve_tool(store)
        assert "telescope" in json.loads(tool.invoke({"question": "teleskope", "fuzzy": True}))["memories"]
        for name, tool in named(store, Scope()).items():
            if name != "search_trajectories":
                strict, found = (
                    json.loads(tool.invoke({"query": "teleskope", "fuzzy": level}))["results"][0] for level in (0, 1)
                )
                assert found["similarity"] > strict["similarity"], name
            else:
                assert "telescope" in tool.invoke({"query": "teleskope", "fuzzy": 1})
        with pytest.raises(UnsupportedOptionError, match="fuzzy"):
            retrieve({"messages": [{"content": "x"}], "fuzzy": 1}, store=store, settings=Settings(search_mode="vector"))
    assert best.id != "n0" and best.similarity > plain.similarity


def test_no_match_and_an_empty_scope_are_distinguished(store):
    """Proves: SEARCH-6, OPS-5."""
    tool = named(store)["search_facts"]
    empty = json.loads(tool.invoke({"query": "zeppelin", "min_similarity": 0.99}))
    assert empty["results"] == [] and "records were searched" in empty["message"]
    nobody = named(store, Scope(tenant="nobody"))["search_facts"]
    assert "No stored record matches" in json.loads(nobody.invoke({"query": "zeppelin"}))["message"]


def test_an_outage_comes_back_as_a_warning_or_an_error():
    """Proves: OPS-5, SEARCH-9. Without the embedder words are looked up, without the store nothing."""
    with filled_store(FlakyEmbedder(0)) as store:
        tools = named(store)
        store.embedder.failures = 10**6
        call = {"name": "search_facts", "args": {"query": "granary"}, "id": "1", "type": "tool_call"}
        answer = tools["search_facts"].invoke(call)
        found = json.loads(answer.content)
        assert [one["id"] for one in found["results"]][:1] == ["f-granary"] and "unavailable" in found["warning"]
    for name in ("search_facts", "search_trajectories"):
        failed = tools[name].invoke({**call, "name": name})
        assert failed.status == "error" and "StoreUnusableError" in failed.content


async def test_asynchronously_and_many_at_once(store):
    """Proves: OPS-5."""
    tool = named(store)["search_facts"]
    found = await asyncio.gather(*(tool.ainvoke({"query": "granary"}) for _ in range(8)))
    assert len(set(found)) == 1 and "f-granary" in ids(found[0])


def test_a_tool_node_runs_them(store):
    """Proves: OPS-5."""
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode(memory_tools(store, Scope(tenant=VALLEY))))
    builder.add_edge(START, "tools")
    calls = [
        {"name": "search_facts", "args": {"query": "granary"}, "id": "1"},
        {"name": "search_facts", "args": {"query": "granary", "limit": 999}, "id": "2"},
    ]
    output = builder.compile().invoke({"messages": [AIMessage("", tool_calls=calls)]})
    good, bad = output["messages"][1:]
    assert "f-granary" in ids(good.content) and "limit" in bad.content


def test_an_agent_at_an_endpoint_uses_them_and_the_loop(store):
    """Proves: OPS-5."""
    answers = iter(
        [
            ToolReply("search_facts", json.dumps({"query": "who owns the granary"}), "tool_calls"),
            ToolReply("retrieve_memories", json.dumps({"question": "Who owns the old granary?"}), "tool_calls"),
            RawReply("Pelle Lund owns it [f-granary]."),
        ]
    )
    scope = Scope(tenant=VALLEY)
    tools = [*memory_tools(store, scope), retrieve_tool(store, scope, settings=Settings(max_facts=5))]
    with ChatEndpoint(lambda asked: next(answers)) as endpoint:
        agent = create_agent(endpoint.model(), tools=tools)
        output = agent.invoke({"messages": [HumanMessage("Who owns the granary?")]})
        offered = {tool["function"]["name"] for tool in endpoint.asked[0].body["tools"]}
    assert offered == {*(name.value for name in ToolName), "retrieve_memories"}
    search, loop = (message for message in output["messages"] if message.type == "tool")
    assert "f-granary" in ids(search.content)
    recalled = json.loads(loop.content)
    assert "[f-granary]" in recalled["memories"] and recalled["confidence"] in ("low", "medium", "high")
    assert output["messages"][-1].content == "Pelle Lund owns it [f-granary]."


def test_errors_name_the_wrong_argument(store):
    """Proves: OPS-5."""
    for name, arguments in (
        ("scope", {"scope": "valley"}),
        ("tools", {"tools": ["search_web"]}),
        ("profile", {"profile": "long"}),
        ("store", {"store": "path"}),
        ("tools", {"tools": 3}),
    ):
        with pytest.raises(InvalidInputError, match=name):
            memory_tools(**{"store": store} | arguments)
    with pytest.raises(InvalidInputError, match="scope"):
        retrieve_tool(store, "valley")
    for make in (trajectory_tool, retrieve_tool):
        with pytest.raises(InvalidInputError, match="store"):
            make("path", None)


def test_a_model_may_filter_by_attributes():
    """Of records and of past runs; what is wrong comes back as the answer. Proves: API-4, OPS-5."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        kinds = ("fact", "message", "archival", "trajectory")
        store.upsert(
            {"id": f"{kind}-{at}", "kind": kind, "text": "The windmill turns.", "attributes": {"age": at, "team": None}}
            for kind in kinds
            for at in range(3)
        )
        for tool in memory_tools(store, Scope()):
            asked = {"query": "windmill", "attributes": {"age": {"gte": 1, "lt": 2}, "team": None}}
            answer = json.loads(tool.invoke(asked))
            found = {one["id"] for one in answer.get("results") or answer["trajectories"]}
            assert found and all(name.endswith("-1") for name in found), tool.name
            call = {"name": tool.name, "id": "1", "type": "tool_call"}
            wrong = {"query": "windmill", "attributes": {"age": {"like": 1}}}
            refused = tool.invoke({**call, "args": wrong})
            assert refused.status == "error" and "attributes.age.like" in refused.content, tool.name


# Adding


def test_the_add_tool_writes_to_its_bound_scope_and_all_or_nothing():
    """Proves: API-1, OPS-5."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        tool = add_tool(store, lambda config: Scope(tenant="t", user_id=config["configurable"]["user"]))
        config = {"configurable": {"user": "ada"}}
        fact = {"text": "Ada lives in Bergen.", "subject": "Ada", "fact_type": "lives_in", "object": "Bergen"}
        talk = [{"role": "user", "content": "I moved to Bergen."}]
        added = json.loads(tool.invoke({"facts": [fact], "messages": talk}, config))["ids"]
        records = store.get(added, scope=Scope(tenant="t", user_id="ada"))
        assert [(one.kind, one.text) for one in records] == [("fact", fact["text"]), ("message", talk[0]["content"])]
        for wrong in ({}, {"facts": [{"text": " "}]}, {"facts": [{**fact, "user_id": "bo"}]}):
            answer = tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": wrong}, config)
            assert answer.status == "error"
        assert store.count(Scope(tenant="t")) == 2
        assert asyncio.run(tool.ainvoke({"messages": talk}, config))


def test_an_empty_addition_names_the_arguments(store):
    """Proves: OPS-5."""
    answer = add_tool(store, Scope(tenant=VALLEY)).invoke(
        {"name": "add_memory", "args": {}, "id": "1", "type": "tool_call"}
    )
    assert answer.status == "error" and "facts or messages, at least one of them" in answer.content
