"""The MCP server, asked by the SDK's own client over HTTP and over standard input and output."""

from __future__ import annotations

import json

import httpx
import jsonschema
import pytest
from mcp import MCPError

from recall_loop.state.request import RetrieveRequest
from tests.integration.mcp.mcp_clients import READ_TOOLS, client_of, data, fault, ids, spoken

WRITE_TOOLS = READ_TOOLS | {"add", "update", "erase"}
TOOLS = WRITE_TOOLS | {"forget"}
DESTRUCTIVE = {"add": False, "update": True, "erase": True, "forget": True}
QUESTION = "When does the ferry leave, and who repairs the jetty?"
# Over HTTP


@pytest.mark.parametrize(("key", "expected"), [("read", READ_TOOLS), ("write", WRITE_TOOLS), ("admin", TOOLS)])
async def test_tools_are_those_that_the_key_may_use(served, key, expected):
    """Proves: OPS-6."""
    async with client_of(served, key) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert ("`add`" in client.instructions) == ("add" in expected)
    assert set(tools) == expected
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert not {"tenant", "scope"} & set(tool.input_schema["properties"])
        assert tool.annotations.read_only_hint is (tool.name in READ_TOOLS)
        assert tool.annotations.destructive_hint is DESTRUCTIVE.get(tool.name)


async def test_what_a_model_reads_of_the_tools_is_short(served):
    """Every conversation begins with it. Proves: OPS-6 (null only where it says more than absence)."""
    async with client_of(served, "admin") as client:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    assert max(len(json.dumps(schema)) for schema in tools.values()) < 10_000
    assert tools["retrieve"]["properties"]["goal"].keys() == {"type", "minLength", "maxLength", "description"}
    assert tools["retrieve"]["properties"]["filters"].keys() == {"$ref", "description"}
    assert "\n" not in tools["list"]["$defs"]["Filters"]["description"]
    fields = tools["update"]["$defs"]["RecordChanges"]["properties"]
    assert {"type": "null"} in fields["subject"]["anyOf"] and fields["text"]["type"] == "string"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_it_retrieves_and_tells_each_iteration(served, mode):
    """Proves: OPS-6, OPS-1 (both protocols; progress only where it is asked for)."""
    told: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with client_of(served, "read", mode) as client:
        result = data(await client.call_tool("retrieve", {"question": QUESTION}, progress_callback=note))
        quiet = await client.call_tool("retrieve", {"question": QUESTION, "max_facts": 1})
    assert {"f1", "f2"} <= {fact["id"] for fact in result["facts"]}
    assert result["stop"]["iteration"] == len({done for done, _, _ in told}) >= 1
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert all(total == 10.0 and message.startswith("iteration ") for _, total, message in told)
    assert not any(word in json.dumps(told) for word in ("ferry", "jetty"))
    assert "<memories " in quiet.content[0].text and len(data(quiet)["facts"]) == 1


async def test_a_key_reaches_its_own_tenant_only(served):
    """Proves: OPS-6, SEARCH-4 (searching, adding and erasing)."""
    async with client_of(served, "admin") as mine, client_of(served, "other") as others:
        assert ids(await mine.call_tool("search", {"query": "ferry"})) == {"f1", "f2", "f3"}
        assert ids(await others.call_tool("search", {"query": "ferry"})) == {"s1"}
        assert data(await mine.call_tool("erase", {"ids": ["s1"]})) == {"erased": 0, "missing": ["s1"]}
        assert ids(await others.call_tool("search", {"query": "ferry"})) == {"s1"}
        found = data(await others.call_tool("search_trajectories", {"query": "ferry"}))
        assert found["trajectories"] == [] and found["allowed"] == 0
        asked = {"query": "ferry", "tenant": "shore"}
        assert fault(await mine.call_tool("search", asked))["field"] == "tenant"


async def test_past_runs(served):
    """Proves: OPS-6, TRAJ-5."""
    async with client_of(served, "read") as client:
        result = await client.call_tool("search_trajectories", {"query": "book the ferry", "include_contrasts": True})
    assert [run["id"] for run in data(result)["unscored"] + data(result)["relevant_experiences"]] == ["t1"]
    assert "t1" in result.content[0].text and "tooltip" not in result.content[0].text


async def test_a_past_run_is_added_with_how_it_ended(served):
    """As the schema says. Proves: OPS-6, TRAJ-5."""
    async with client_of(served, "write") as client:
        schema = {tool.name: tool for tool in (await client.list_tools()).tools}["add"].input_schema
        said = schema["$defs"]["NewRecord"]["properties"]["attributes"]["description"]
        run = {"kind": "trajectory", "text": "Moored the raft.", "attributes": json.loads(said[said.index("{") : -1])}
        added = data(await client.call_tool("add", {"records": [run]}))["ids"]
        asked = {"query": "raft", "filters": {"execution_status": "failed", "tools_used": ["bash"]}}
        found = data(await client.call_tool("search_trajectories", asked))["trajectories"]
        await client.call_tool("erase", {"ids": added})
    assert [run["id"] for run in found] == added


async def test_arguments_are_validated_once(served, monkeypatch):
    """They become the request as they are. Proves: OPS-6."""
    monkeypatch.setattr(RetrieveRequest, "__pydantic_validator__", None)
    asked = {"question": QUESTION, "content_types": ["fact", "fact"], "filters": {"tags": ["x"]}, "max_facts": 3}
    async with client_of(served, "read") as client:
        none = data(await client.call_tool("retrieve", asked))
    assert (none["facts"], none["left_out"]) == ([], 0)


async def test_content_types_follow_from_the_filters(served):
    """A filter of trajectories searches trajectories, as over HTTP. Proves: OPS-6, SEARCH-3."""
    async with client_of(served, "read") as client:
        unscored = await client.call_tool("search", {"query": "ferry", "filters": {"scored": False}})
        named = await client.call_tool("search", {"query": "ferry", "filters": {"role": "user"}, "rerank_pool": 100})
    assert (ids(unscored), data(unscored)["content_types"]) == ({"t1"}, ["trajectory"])
    assert data(named)["content_types"] == ["fact", "archival", "message"]


async def test_texts_are_shortened_by_rank(served):
    """Proves: SEARCH-8, OPS-6 (by what is searched, or by the profile that is named; what was cut says so)."""
    long = [{"kind": "archival", "label": "gull", "text": f"gull {at} " + "word " * 500} for at in range(8)]
    asked = {"query": "gull", "filters": {"label": "gull"}}
    async with client_of(served, "write") as client:
        added = data(await client.call_tool("add", {"records": long}))["ids"]
        answer = await client.call_tool("search", asked)
        named = data(await client.call_tool("search", asked | {"profile": "1:50,10"}))
        whole = data(await client.call_tool("search", asked | {"profile": "full"}))
        wrong = fault(await client.call_tool("search", asked | {"profile": "some"}))
        await client.call_tool("erase", {"ids": added})
    hits = data(answer)["hits"]
    assert [hit["truncated"] for hit in hits] == [False] * 2 + [True] * 6
    assert [len(hit["content"]) <= 400 for hit in hits] == [False] * 5 + [True] * 3
    assert len(answer.content[0].text) < 10_000
    assert (named["profile"], all(len(hit["content"]) <= 50 for hit in named["hits"])) == ("custom", True)
    assert not any(hit["truncated"] for hit in whole["hits"])
    assert wrong["field"] == "profile"


async def test_a_model_sees_how_like_its_query_a_result_is(served):
    """A search gives its best, however little they have to do with the query. Proves: SEARCH-6, OPS-6."""
    async with client_of(served, "read") as client:
        answer = await client.call_tool("search", {"query": "When does the ferry leave?"})
    lines = answer.content[0].text.splitlines()
    assert [f"similarity {hit['similarity']:.2f}) {hit['content']}" for hit in data(answer)["hits"]] == [
        line[line.index("similarity") :] for line in lines
    ]


async def test_words_that_are_misspelt_are_found_where_that_is_asked_for(served):
    """Proves: SEARCH-2, OPS-6 (in a search and in the loop)."""
    asked = {"query": "jettty", "mode": "fts"}
    async with client_of(served, "read") as client:
        assert ids(await client.call_tool("search", asked)) == set()
        assert ids(await client.call_tool("search", asked | {"fuzzy": 1})) == {"f2"}
        assert data(await client.call_tool("retrieve", {"question": "Jettty?", "fuzzy": 1}))["facts"][0]["id"] == "f2"


async def test_what_states_its_language_is_found_in_other_forms(served):
    """Added, changed, searched and asked for. Proves: OPEN-4, OPS-6."""
    async with client_of(served, "write") as client:
        added = {
            "text": "Nieuw huis",
            "records": [{"id": "sv", "text": "Ny skola", "language": "sv"}],
            "language": "nl",
        }
        first, second = data(await client.call_tool("add", added))["ids"]
        for query, language, expected in (("huizen", "nl", first), ("skolorna", "sv", second)):
            asked = {"query": query, "mode": "fts"}
            assert ids(await client.call_tool("search", asked)) == set()
            assert ids(await client.call_tool("search", {**asked, "language": language})) == {expected}
        facts = data(await client.call_tool("retrieve", {"question": "huizen", "language": "nl"}))["facts"]
        assert facts[0]["id"] == first
        await client.call_tool("update", {"id": second, "changes": {"language": None}})
        assert ids(await client.call_tool("search", {"query": "skolorna", "mode": "fts", "language": "sv"})) == set()
        for tool, arguments, field in (
            ("add", {"text": "Hoi", "language": "xx"}, "language"),
            ("add", {"records": [{"text": "Hoi", "language": "xx"}]}, "records.0.language"),
            ("update", {"id": second, "changes": {"language": "xx"}}, "changes.language"),
            ("search", {"query": "Hoi", "language": "xx"}, "language"),
            ("retrieve", {"question": "Hoi", "language": "xx"}, "language"),
        ):
            refused = fault(await client.call_tool(tool, arguments))
            assert (refused["field"], refused["value"]) == (field, "'xx'")
            assert refused["allowed"].startswith("one of ar, ")
        assert data(await client.call_tool("erase", {"ids": [first, second]}))["erased"] == 2


async def test_text_that_no_record_can_hold_is_refused(served):
    """Proves: API-2."""
    async with client_of(served, "write") as client:
        for given, field in (
            ({"text": "a\x00b"}, "text"),
            ({"messages": [{"content": "x"}, {"content": "a\x00b"}]}, "messages.1.content"),
            ({"messages": [{"content": "x", "author": "a\x00b"}]}, "messages.0.author"),
        ):
            refused = fault(await client.call_tool("add", given))
            assert refused["field"] == field and "NUL" in refused["allowed"]


async def test_tiers_of_past_runs_are_the_callers_to_choose(served):
    """Proves: TRAJ-5, OPS-6."""
    runs = [
        {
            "id": f"r-{at}",
            "kind": "trajectory",
            "text": "Painted the boathouse.",
            "attributes": {"outcome_score": score},
        }
        for at, score in enumerate((0.2, 0.5, 0.8))
    ]
    asked = {"query": "Painted the boathouse.", "include_contrasts": True, "filters": {"scored": True}}
    service, _ = served
    service.service.store.upsert(runs, tenant="isle")
    async with client_of(served, "read") as client:
        usual = data(await client.call_tool("search_trajectories", asked))
        chosen = {"success_threshold": 0.45, "failure_threshold": 0.1}
        other = data(await client.call_tool("search_trajectories", asked | chosen))
        wrong = fault(await client.call_tool("search_trajectories", asked | {"success_threshold": 0.2}))
    service.service.store.delete([run["id"] for run in runs], tenant="isle")
    tiers = ("successes", "moderate", "failures")
    assert [[run["id"] for run in usual[tier]] for tier in tiers] == [["r-2"], ["r-1"], ["r-0"]]
    assert [{run["id"] for run in other[tier]} for tier in tiers] == [{"r-1", "r-2"}, {"r-0"}, set()]
    assert wrong["field"] == "failure_threshold"


async def test_a_rule_forgets_and_counts_first(served):
    """Proves: LIVE-7, OPS-6 (never more than is in reach, and only with the role admin)."""
    new = [{"kind": "archival", "label": "draft", "text": f"Draft {at} on kites."} for at in range(3)]
    asked = {"filters": {"label": "draft"}, "rule": {"kinds": ["archival"]}}
    async with client_of(served, "admin") as client:
        await client.call_tool("add", {"records": new})
        counted = data(await client.call_tool("forget", asked | {"dry_run": True}))
        done = data(await client.call_tool("forget", asked))
        left = data(await client.call_tool("list", {"filters": {"label": "draft"}}))["records"]
        nothing = fault(await client.call_tool("forget", {}))
    assert counted == {"records": 3, "by_kind": {"archival": 3}, "dry_run": True}
    assert (done["records"], left) == (3, [])
    assert nothing["message"].startswith("filters: got nothing; allowed: filters, a rule or content types; ")
    async with client_of(served, "other") as client:
        assert (
            data(await client.call_tool("forget", {"rule": {"kinds": ["archival"]}, "dry_run": True}))["records"] == 0
        )


async def test_attributes_are_filtered(served):
    """Proves: OPS-6, API-4."""
    async with client_of(served, "write") as client:
        new = [{"text": "The windmill turns.", "attributes": {"team": team}} for team in ("red", "blue")]
        added = data(await client.call_tool("add", {"records": new}))["ids"]
        asked = {"query": "windmill", "filters": {"attributes": {"team": {"in": ["blue"]}}}}
        assert ids(await client.call_tool("search", asked)) == {added[1]}
        question = {"question": "What turns?", "filters": {"attributes": {"team": "red"}}}
        assert {fact["id"] for fact in data(await client.call_tool("retrieve", question))["facts"]} == {added[0]}
        await client.call_tool("erase", {"ids": added})


async def test_texts_and_messages_are_added_and_listed_newest_first(served):
    """Proves: API-1, API-2, OPS-6."""
    messages = [{"role": "user", "content": "The spinet buzzes."}, {"role": "assistant", "content": "Tune it."}]
    async with client_of(served, "write") as writer:
        given = {"text": "I own a spinet.", "messages": messages, "records": [{"text": "Spinets.", "label": "Notes"}]}
        added = data(await writer.call_tool("add", given))["ids"]
        page = data(await writer.call_tool("list", {"limit": 3}))
        rest = data(await writer.call_tool("list", {"limit": 3, "cursor": page["next_cursor"]}))
        few = data(await writer.call_tool("list", {"filters": {"label": "Notes"}, "content_types": ["archival"]}))
        await writer.call_tool("erase", {"ids": added})
    listed = [*page["records"], *rest["records"]]
    assert [one["id"] for one in listed][:4] == added[::-1] and not set(added) & {one["id"] for one in listed[4:]}
    assert [(one["kind"], one.get("role")) for one in listed[:4]] == [
        ("archival", None),
        ("message", "assistant"),
        ("message", "user"),
        ("message", "user"),
    ]
    assert [one["text"] for one in few["records"]] == ["Spinets."]
    async with client_of(served, "other") as other:
        assert {one["id"] for one in data(await other.call_tool("list", {}))["records"]} == {"s1"}


async def test_a_memory_is_changed_and_its_history_told(served):
    """Proves: API-1, API-3, OPS-6."""
    async with client_of(served, "write") as writer, client_of(served, "other") as other:
        (name,) = data(await writer.call_tool("add", {"text": "The spinet is red."}))["ids"]
        changes = {"text": "The spinet is blue.", "tags": ["x"]}
        changed = data(await writer.call_tool("update", {"id": name, "changes": changes}))["record"]
        versions = data(await writer.call_tool("history", {"id": name}))["versions"]
        assert (changed["text"], changed["tags"], changed["role"]) == ("The spinet is blue.", ["x"], "user")
        assert [(one["action"], one["before"]["text"]) for one in versions] == [("updated", "The spinet is red.")]
        await writer.call_tool("update", {"id": name, "changes": {"tags": None, "label": "house"}})
        told = (await writer.call_tool("history", {"id": name})).content[0].text.splitlines()
        assert told[0].endswith('updated text: The spinet is red. -> The spinet is blue.; tags: [] -> ["x"]')
        assert told[1].endswith('updated label: null -> house; tags: ["x"] -> []')
        for tool, more in (("update", {"changes": {"text": "mine"}}), ("history", {})):
            assert fault(await other.call_tool(tool, {"id": name, **more}))["field"] == "id"
        assert fault(await writer.call_tool("update", {"id": name, "changes": {}}))["field"] == "changes"
        await writer.call_tool("erase", {"ids": [name]})


async def test_a_memory_that_has_expired_but_was_not_swept_is_erased_like_another(served):
    """Proves: LIVE-7, STORE-6, OPS-6."""
    async with client_of(served, "write") as writer, client_of(served, "other") as other:
        (name,) = data(await writer.call_tool("add", {"text": "The regal is hired."}))["ids"]
        await writer.call_tool("update", {"id": name, "changes": {"expires_at": "2001-01-01T00:00:00Z"}})
        assert fault(await writer.call_tool("history", {"id": name}))["field"] == "id"
        assert data(await other.call_tool("erase", {"ids": [name]})) == {"erased": 0, "missing": [name]}
        assert data(await writer.call_tool("erase", {"ids": [name]})) == {"erased": 1, "missing": []}
        assert data(await writer.call_tool("erase", {"ids": [name]})) == {"erased": 0, "missing": [name]}


async def test_a_page_shows_the_beginning_of_long_memories_and_what_has_ended(served):
    """A pasted log doesn't fill a model's window. Proves: OPS-6."""
    records = [{"text": "gull " * 9000}, {"text": "The gull is tame.", "kind": "fact", "created_at": "2024-05-01"}]
    async with client_of(served, "write") as client:
        added = data(await client.call_tool("add", {"records": records}))["ids"]
        ended = {"id": added[1], "changes": {"valid_until": "2024-06-01"}}
        changed = await client.call_tool("update", ended)
        page = await client.call_tool("list", {"limit": 100})
        await client.call_tool("erase", {"ids": added})
    lines = page.content[0].text.splitlines()
    assert f"[fact {added[1]}] (2024-05-01, true until 2024-06-01) The gull is tame." in lines
    assert changed.content[0].text.endswith("(2024-05-01, true until 2024-06-01) The gull is tame.")
    assert len(page.content[0].text) < 5000 and any(line.endswith("gull…") for line in lines)
    assert {len(one["text"]) for one in data(page)["records"]} >= {45_000}


async def test_what_is_added_is_found_and_can_be_erased(served):
    """Proves: OPS-6, STORE-2, STORE-6 (all or none; nothing is replaced)."""
    async with client_of(served, "write") as writer, client_of(served, "admin") as admin:
        new = [
            {"text": "Runa tunes the harmonium.", "user_id": "u9"},
            {"id": "n2", "kind": "archival", "text": "The harmonium is old."},
        ]
        added = data(await writer.call_tool("add", {"records": new}))["ids"]
        assert added[1] == "n2" and len(set(added)) == 2
        assert set(added) <= ids(await writer.call_tool("search", {"query": "harmonium"}))
        again = fault(await writer.call_tool("add", {"records": [{"text": "Other harmonium."}, new[1]]}))
        assert (again["type"], again["field"]) == ("invalid_input", "records.1.id")
        assert len(ids(await writer.call_tool("search", {"query": "harmonium"})) - {"f1", "f2", "f3"}) == 2
        refused = fault(await writer.call_tool("erase", {"user_id": "u9"}))
        assert (refused["field"], refused["value"]) == ("user_id", "'u9'")
        assert data(await writer.call_tool("erase", {"ids": ["n2", "gone"]})) == {"erased": 1, "missing": ["gone"]}
        erased = await admin.call_tool("erase", {"user_id": "u9"})
        assert data(erased) == {"erased": 1, "missing": []}
        assert erased.content[0].text == "Erased 1 record."
        assert not set(added) & ids(await writer.call_tool("search", {"query": "harmonium"}))


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("retrieve", {}, "question"),
        ("retrieve", {"query": "x"}, "query"),
        ("add", {"records": [{"content": "x"}]}, "records.0.content"),
        ("retrieve", {"question": " "}, "question"),
        ("retrieve", {"question": "x", "max_facts": 0}, "max_facts"),
        ("retrieve", {"question": "x", "write_answer": True}, "write_answer"),
        ("search", {"query": "x", "limit": 101}, "limit"),
        ("search", {"query": "x", "mode": "vector", "fuzzy": 1}, "fuzzy"),
        ("search", {"query": "x", "filters": {"nope": 1}}, "filters.nope"),
        ("search", {"query": "x", "filters": {"attributes": {"a": {"gt": None}}}}, "filters.attributes.a.gt"),
        ("search_trajectories", {"query": "x", "min_score": 2}, "min_score"),
        ("add", {"records": []}, "arguments"),
        ("add", {"text": " "}, "text"),
        ("add", {"messages": [{"role": "boss", "content": "x"}]}, "messages.0.role"),
        ("list", {"limit": 0}, "limit"),
        ("list", {"cursor": "x"}, "cursor"),
        ("add", {"records": [{"text": ""}]}, "records.0.text"),
        ("add", {"records": [{"text": "x", "group_id": "hill"}]}, "records.0.group_id"),
        ("update", {"id": "f1", "changes": {"text": None}}, "changes.text"),
        ("update", {"id": "f1", "changes": {"nope": 1}}, "changes.nope"),
        ("erase", {}, "arguments"),
        ("erase", {"ids": ["a"], "user_id": "u"}, "ids"),
    ],
)
async def test_wrong_arguments_are_typed_errors(served, tool, arguments, field):
    """Proves: OPS-6 (what is wrong, what it was, what would be right)."""
    async with client_of(served, "admin") as client:
        error = fault(await client.call_tool(tool, arguments))
    assert error["type"] in ("invalid_input", "unsupported_option")
    assert error["field"] == field and error["allowed"] and error["value"]


async def test_a_tool_that_isnt_there_or_isnt_allowed_is_unknown(served):
    """Proves: OPS-6."""
    async with client_of(served, "read") as client:
        for name in ("add", "erase", "nonsense"):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(name, {})


def test_a_key_is_required(served):
    """Proves: OPS-6."""
    service, keys = served
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for wrong in ({}, {"Authorization": "Bearer rl_000000000000_x"}):
        answer = httpx.post(f"{service.url}/mcp", json=body, headers=headers | wrong)
        assert (answer.status_code, answer.json()["status"]) == (401, 401)
    key = {"Authorization": f"Bearer {keys['read']}"}
    assert httpx.get(f"{service.url}/mcp", headers=key | {"Accept": "text/event-stream"}).status_code == 405


# Over standard input and output


async def test_a_program_speaks_to_it_over_its_standard_streams(folder):
    """Proves: OPS-6 (the operator's tenant, agent and group; nothing on stdout but the protocol)."""
    told: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        told.append(done)

    words = ("--tenant", "isle", "--agent", "lena", "--scope", "constellation")
    async with spoken(folder, *words) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        result = data(await client.call_tool("retrieve", {"question": QUESTION}, progress_callback=note))
        assert {"f1", "f2"} == {fact["id"] for fact in result["facts"]} and told
        assert ids(await client.call_tool("search", {"query": "ferry"})) <= {"f1", "f2"}
        filters = {"agent_ids": ["oskar"]}
        assert ids(await client.call_tool("search", {"query": "ferry", "filters": filters})) == set()
        # Neighbours may be read, and not be touched.
        assert data(await client.call_tool("erase", {"ids": ["f2", "f3"]})) == {"erased": 0, "missing": ["f2", "f3"]}
        assert fault(await client.call_tool("erase", {"agent_id": "tomas"}))["field"] == "agent_id"
        foreign = {"records": [{"text": "x", "agent_id": "tomas"}]}
        assert fault(await client.call_tool("add", foreign))["field"] == "records.0.agent_id"
        taken = {"records": [{"text": "x", "id": "f3"}]}
        assert fault(await client.call_tool("add", taken))["field"] == "records.0.id"
        (new,) = data(await client.call_tool("add", {"records": [{"text": "Lena likes the slow ferry."}]}))["ids"]
        (hit,) = [
            hit for hit in data(await client.call_tool("search", {"query": "slow ferry"}))["hits"] if hit["id"] == new
        ]
        assert hit["agent_id"] == "lena"
        assert data(await client.call_tool("erase", {"ids": [new]}))["erased"] == 1
