"""Adding of any shape, lists newest first and exports over HTTP: real sockets, a real store on disk (API-1)."""

from __future__ import annotations

import json

import pytest

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.llm_endpoint import ChatEndpoint
from tests.service_server import running_service

SETTINGS = Settings(llm_retries=0, llm_timeout_seconds=30, llm_backoff_seconds=0.01, llm_cooldown_seconds=0)


@pytest.fixture(scope="module")
def served():
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as found:
        yield found


@pytest.fixture
def client(served):
    with served.client() as found:
        served.service.store.erase(Scope())
        yield found


def add(client, content, **fields):
    response = client.post("/api/memory/add", json={"content": content, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def listed(client, **params):
    response = client.get("/api/memory/records", params={"order": "newest", **params})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_mixture_is_added_and_listed_newest_first(client):
    """Proves: API-1, API-2."""
    content = [
        "I moved to Bergen.",
        {"role": "assistant", "content": "Lovely.", "timestamp": "2024-05-01T10:00:00Z"},
        {"text": "Bergen is rainy.", "label": "Towns"},
        {"role": "system", "content": "You are helpful."},
    ]
    added = add(client, content, user_id="u", conversation_id="c")
    assert [one["status"] for one in added["outcomes"]] == ["created"] * 3
    assert added["skipped"] == [{"index": 3, "reason": "the role system isn't among roles="}]
    page = listed(client, user_id="u", limit=2)
    rest = listed(client, user_id="u", limit=2, cursor=page["next_cursor"])
    assert [one["id"] for one in [*page["records"], *rest["records"]]] == [added["ids"][at] for at in (2, 0, 1)]
    assert "next_cursor" not in rest and listed(client, user_id="v") == {"records": []}
    assert {one["conversation_id"] for one in page["records"]} == {"c"}


def test_a_cursor_of_the_other_order_is_refused(client):
    """Proves: STORE-2, API-1 (also where an id looks like a place in time)."""
    records = [{"id": f"{at}:1", "text": f"Towns are {at}.", "user_id": "w"} for at in range(4)]
    add(client, records)
    for order, other in (("id", "newest"), ("newest", "id")):
        cursor = listed(client, user_id="w", limit=2, order=order)["next_cursor"]
        assert len(listed(client, user_id="w", order=order, cursor=cursor)["records"]) == 2
        response = client.get("/api/memory/records", params={"order": other, "cursor": cursor})
        assert (response.status_code, response.json().get("field")) == (422, "cursor")


@pytest.mark.parametrize(
    "content", ["Hello.", {"role": "user", "content": "Hello."}, {"text": "Hello.", "role": "user"}]
)
def test_one_thing_needs_no_list(client, content):
    """Proves: API-1."""
    (record_id,) = add(client, content)["ids"]
    record = client.get(f"/api/memory/records/{record_id}").json()
    assert (record["text"], record["role"], record["kind"]) == ("Hello.", "user", "message")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "content"),
        ({"content": 7}, "content"),
        ({"content": []}, "content"),
        ({"content": ["x"] * 1001}, "content"),
        ({"content": "  "}, "content"),
        ({"content": [7]}, "content.0"),
        ({"content": {"text": ""}}, "records.0.text"),
        ({"content": ["good", {"text": "x", "colour": "red"}]}, "records.1.colour"),
        ({"content": [{"text": "x", "user_id": "v"}], "user_id": "u"}, "records.0.user_id"),
        ({"content": "a\x00b"}, "records.0.text"),
        ({"content": ["good", {"role": "user", "name": "a\x00b", "content": "x"}]}, "records.1.author"),
        ({"content": "x", "tenant": "other"}, "tenant"),
        ({"content": "x", "roles": ["boss"]}, "roles.0"),
        ({"content": "x", "on_reject": "ignore"}, "on_reject"),
        ({"content": "x", "infer": True}, "infer"),
    ],
)
def test_bad_additions_are_problems_and_nothing_is_written(client, body, field):
    """Proves: API-1, API-2."""
    response = client.post("/api/memory/add", json=body)
    assert (response.status_code, response.json()["field"]) == (422, field), response.text
    assert listed(client) == {"records": []}


def test_a_lone_surrogate_is_a_problem_and_nothing_is_written(client):
    """Proves: API-2."""
    for body in (rb'{"content": "a\ud800b"}', rb'{"content": [{"role": "user", "content": "a\ud800b"}]}'):
        response = client.post("/api/memory/add", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 422 and "Unicode" in response.json()["detail"], response.text
    assert listed(client) == {"records": []}


def test_report_writes_the_rest(client):
    """Proves: API-2."""
    added = add(client, ["good", {"id": "x", "text": ""}], on_reject="report")
    assert [(one["index"], one["status"]) for one in added["outcomes"]] == [(0, "created"), (1, "rejected")]
    assert len(added["ids"]) == 1


def test_an_export_is_every_record_of_a_scope(client):
    """Proves: API-1, STORE-2."""
    add(client, [{"id": f"r{at}", "text": f"t{at}", "user_id": "u" if at % 2 else "v"} for at in range(250)])
    response = client.get("/api/memory/export")
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line)["id"] for line in response.text.splitlines()] == [f"r{at}" for at in range(250)]
    some = client.get("/api/memory/export", params={"user_id": "u"}).text.splitlines()
    assert len(some) == 125
    assert client.get("/api/memory/export", params={"colour": "red"}).status_code == 422
    assert client.get("/api/memory/records", params={"order": "newest", "cursor": "eA=="}).status_code == 422


def test_keys_say_who_adds_and_where(tmp_path):
    """Proves: API-1, STORE-3 (a reader adds nothing; tenants are walls)."""
    file = tmp_path / "keys.json"
    keys = {role: add_key(file, "isle", role)[1] for role in (KeyRole.READ, KeyRole.WRITE)}
    other = add_key(file, "shore", KeyRole.WRITE)[1]
    options = {"settings": Settings(), "embedder": WordHashEmbedder()}
    with running_service(config={"keys_file": file}, **options) as service, service.client() as client:

        def ask(key, method, path, **more):
            return client.request(method, path, headers={"Authorization": f"Bearer {key}"}, **more)

        assert ask(keys[KeyRole.READ], "POST", "/api/memory/add", json={"content": "x"}).status_code == 403
        assert ask(keys[KeyRole.WRITE], "POST", "/api/memory/add", json={"content": "mine"}).status_code == 200
        assert ask(other, "GET", "/api/memory/export").text == ""
        assert "mine" in ask(keys[KeyRole.READ], "GET", "/api/memory/export").text


def test_facts_are_inferred_by_the_model_of_the_service():
    """Proves: API-1, OPS-5."""

    def facts(asked):
        place = {"subject": "user", "fact_type": "lives_in", "object": "Bergen", "single": True, "cites": [1]}
        return {"facts": [{**place, "text": "The user lives in Bergen."}]} if asked.schema == "facts" else {}

    with (
        ChatEndpoint(facts) as endpoint,
        running_service(settings=SETTINGS, embedder=WordHashEmbedder(), llm=endpoint.model()) as service,
        service.client() as client,
    ):
        added = add(client, "I moved to Bergen.", user_id="u", infer=True)
        (fact_id,) = added["facts"]["created"]
        fact = client.get(f"/api/memory/records/{fact_id}").json()
        assert (fact["text"], fact["source_ids"]) == ("The user lives in Bergen.", added["ids"])


def test_some_fields_of_a_record_are_changed(client):
    """Proves: API-1, API-3."""
    add(client, {"id": "a/b", "text": "Ada is a pilot.", "subject": "Ada", "tags": ["x"]}, user_id="u")
    changed = client.patch("/api/memory/records/a%2Fb", json={"text": "Ada is a baker.", "tags": None})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["text"], changed.json()["subject"], changed.json()["tags"]) == ("Ada is a baker.", "Ada", [])
    assert client.patch("/api/memory/records/nobody", json={"text": "x"}).status_code == 404
    for body, field in (({}, "changes"), ({"colour": "red"}, "colour"), ({"id": "c"}, "id"), ({"text": ""}, "text")):
        refused = client.patch("/api/memory/records/a%2Fb", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert client.get("/api/memory/records/a%2Fb").json() == changed.json()
