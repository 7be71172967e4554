"""Records, searches and bulk uploads over HTTP: real sockets, a real store on disk."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.routes import routes_memory
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

FACT = {"kind": "fact", "text": "Ada works at the harbour office.", "subject": "Ada"}
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service") / "memory"
    with running_service(settings=Settings(store_path=str(folder)), embedder=WordHashEmbedder()) as found:
        found.folder = folder
        yield found


@pytest.fixture
def client(served):
    with served.client() as found:
        served.service.store.erase(Scope())
        yield found


def problem(response, status, field=None):
    """Return the problem document of a refused request."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json().get("field") == field
    return response.json()


def lines(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    *answers, summary = [json.loads(line) for line in response.text.splitlines()]
    return answers, summary


# One record


@pytest.mark.parametrize(
    "record_id", ["f-1", "a/b", "ä ö", "50%", "?x=1#y", "a\nb\n", "bulk", "'; DROP TABLE records; --"]
)
def test_a_record_is_written_read_replaced_and_deleted(client, record_id):
    """Proves: STORE-1, STORE-2."""
    from urllib.parse import quote

    address = f"/api/memory/records/{quote(record_id, safe='')}"
    assert client.put(address, json=FACT).status_code == 201
    assert client.put(address, json={**FACT, "id": record_id}).json() == {"id": record_id, "status": "unchanged"}
    replaced = client.put(address, json={"kind": "fact", "text": "Ada is a pilot."})
    assert (replaced.status_code, replaced.json()["status"]) == (200, "replaced")
    read = client.get(address).json()
    assert (read["id"], read["text"], read.get("subject")) == (record_id, "Ada is a pilot.", None)
    assert client.put(address, json=read).json()["status"] == "unchanged"
    assert client.delete(address).status_code == 204
    assert problem(client.get(address), 404, "id")
    assert problem(client.delete(address), 404, "id")


def test_a_record_is_never_taken_for_another_s_history(client):
    """Proves: STORE-1 (an encoded slash belongs to the id)."""
    for record_id in ("a", "a%2Fhistory", "history", "relations"):
        client.put(f"/api/memory/records/{record_id}", json=FACT).raise_for_status()
    assert client.get("/api/memory/records/a%2Fhistory").json()["id"] == "a/history"
    assert client.get("/api/memory/records/history").json()["id"] == "history"
    assert "versions" in client.get("/api/memory/records/a/history").json()
    assert "versions" in client.get("/api/memory/records/a%2Fhistory/history").json()
    assert "sources" in client.get("/api/memory/records/relations/relations").json()
    for method in ("PUT", "PATCH", "DELETE"):
        refused = client.request(method, "/api/memory/records/a/history", json=FACT)
        assert problem(refused, 405) and refused.headers["allow"] == "GET, HEAD"
    assert client.get("/api/memory/records/a%2Fhistory").status_code == 200


@pytest.mark.parametrize("encoded", ["%FF", "a%C3", "%ED%A0%80"])
def test_an_address_that_is_not_utf_8_is_refused(client, encoded):
    """Proves: STORE-1 (no two ids become one)."""
    answer = client.put(f"/api/memory/records/{encoded}", json=FACT)
    assert problem(answer, 400)["type"].endswith("invalid_path")
    assert client.get("/api/memory/records").json()["records"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**FACT, "tenant": "another"}, "tenant"),
        ({**FACT, "id": "f-2"}, "id"),
        ({**FACT, "kind": "thought"}, "kind"),
        ({**FACT, "text": " "}, "text"),
        ({**FACT, "attributes": {"deep": 1e999}}, "attributes"),
        ({**FACT, "position": True}, "position"),
        ({"kind": "fact"}, "text"),
    ],
)
def test_a_bad_record_is_refused_with_its_field(client, body, field):
    """Proves: STORE-1, OPS-1."""
    sent = client.put("/api/memory/records/f-1", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert problem(sent, 422, field)["allowed"]
    assert client.get("/api/memory/records/f-1").status_code == 404


def test_a_position_that_the_database_can_not_hold_is_refused(client):
    """Proves: STORE-1."""
    sent = client.put("/api/memory/records/f-1", json={**FACT, "position": 2**63})
    assert problem(sent, 422, "position")["detail"].startswith("position: got")


def test_no_address_takes_a_parameter_that_it_ignores(client):
    """Proves: SEARCH-2, STORE-3."""
    client.put("/api/memory/records/f-1", json=FACT)
    for method, path, body in (
        ("GET", "/api/memory/records/f-1", None),
        ("PUT", "/api/memory/records/f-1", FACT),
        ("DELETE", "/api/memory/records/f-1", None),
        ("GET", "/api/memory/records", None),
        ("DELETE", "/api/memory/records", {"ids": ["f-1"]}),
        ("POST", "/api/memory/records", {"records": [FACT]}),
        ("POST", "/api/memory/search", {"query": "x"}),
        ("POST", "/api/memory/retrieve", {"messages": [{"content": "x"}]}),
        ("POST", "/api/memory/retrieve/stream", {"messages": [{"content": "x"}]}),
        ("POST", "/api/memory/erasure", {"of": "user", "id": "u"}),
        ("POST", "/api/trajectories/search", {"query": "x"}),
        ("GET", "/api/trajectories", None),
        ("POST", "/api/trajectories", {"messages": []}),
        ("GET", "/api/trajectories/r-1", None),
        ("POST", "/api/trajectories/r-1/score", None),
    ):
        problem(client.request(method, path, params={"tenant": "another"}, json=body), 422, "tenant")
    assert client.get("/api/memory/records/f-1").status_code == 200


def test_a_parameter_that_is_given_twice_is_no_choice_of_the_last(client):
    """Proves: SEARCH-2."""
    for path in ("/api/memory/records", "/api/memory/export", "/api/trajectories"):
        problem(client.get(path, params={"user_id": ["ann", "bo"]}), 422, "user_id")
    listed = client.get("/api/memory/records", params={"content_types": ["fact", "message"], "tags": ["a", "b"]})
    assert listed.status_code == 200


# Many records


def test_an_export_works_in_the_threads_of_the_service(client, monkeypatch):
    """Proves: GUARD-4."""
    seen, plain = set(), routes_memory.export_line

    def export_line(record):
        seen.add(threading.current_thread().name.rpartition("_")[0])
        return plain(record)

    monkeypatch.setattr(routes_memory, "export_line", export_line)
    client.post("/api/memory/records", json={"records": [{**FACT, "id": f"f-{at}"} for at in range(250)]})
    exported = [json.loads(line)["id"] for line in client.get("/api/memory/export").text.splitlines()]
    assert exported == [f"f-{at}" for at in range(250)]
    assert seen == {"recall-loop-service"}


def test_no_cache_may_keep_what_the_service_answers(client):
    """What is erased in the store would live on there. Proves: STORE-6, OPS-1."""
    client.put("/api/memory/records/kept", json={"kind": "message", "text": "The ferry leaves at nine."})
    question = {"messages": [{"content": "When does the ferry leave?"}]}
    answers = [client.get(f"/api/memory/{path}") for path in ("records", "records/kept", "export", "records/nobody")]
    answers += [client.post(f"/api/memory/retrieve{way}", json=question) for way in ("", "/stream")]
    answers += [client.post("/api/memory/search", json={"query": "ferry"}), client.get("/nowhere")]
    assert {answer.headers.get("cache-control") for answer in answers} == {"no-store"}
    assert client.get("/").headers["cache-control"] == "no-cache"


def test_a_batch_reports_on_each_record(client):
    """Proves: STORE-2."""
    records = [{**FACT, "id": "f-1"}, {**FACT, "id": "f-2", "text": ""}, {**FACT, "id": "f-3", "tenant": "another"}]
    written = client.post("/api/memory/records", json={"records": [*records, {**FACT, "id": "f-1"}]}).json()
    assert [row["status"] for row in written["outcomes"]] == ["created", "rejected", "rejected", "unchanged"]
    assert [written[name] for name in ("created", "replaced", "unchanged", "rejected")] == [1, 0, 1, 2]
    assert "tenant" in written["outcomes"][2]["error"]
    problem(client.post("/api/memory/records", json={"records": [FACT] * 1001}), 422, "records")
    problem(client.post("/api/memory/records", content=b"{}"), 415)
    deleted = client.request("DELETE", "/api/memory/records", json={"ids": ["f-1", "f-1", "f-9"]}).json()
    assert deleted == {"deleted": 1, "missing": 1}


def test_a_list_goes_on_where_it_ended_whatever_is_written_and_deleted(client):
    """Proves: STORE-2."""
    records = [{**FACT, "id": f"f-{at:02}", "user_id": f"u{at % 2}"} for at in range(20)]
    client.post("/api/memory/records", json={"records": records})
    seen, cursor = [], None
    while True:
        asked = {"limit": 3, "user_id": "u1", **({"cursor": cursor} if cursor else {})}
        page = client.get("/api/memory/records", params=asked).json()
        seen += [record["id"] for record in page["records"]]
        client.delete(f"/api/memory/records/{seen[-1]}")
        client.put(f"/api/memory/records/e-{len(seen)}", json={**FACT, "user_id": "u1"})
        if (cursor := page.get("next_cursor")) is None:
            break
    assert seen == [f"f-{at:02}" for at in range(1, 20, 2)]
    kinds = client.get("/api/memory/records", params={"content_types": ["message", "archival"]}).json()
    assert kinds == {"records": []}
    for wrong in ({"cursor": "no cursor"}, {"limit": 0}, {"min_similarity": 0.5}, {"content_types": "thought"}):
        problem(client.get("/api/memory/records", params=wrong), 422, *[wrong_field(wrong)])
    problem(client.get("/api/memory/records", params={"scope": "constellation"}), 422, "agent_id")


def test_attributes_are_filtered_in_searches_and_lists(client):
    """Proves: API-4, SEARCH-3."""
    records = [{**FACT, "id": f"f-{at}", "attributes": {"team": ("red", "blue")[at % 2], "age": at}} for at in range(6)]
    client.post("/api/memory/records", json={"records": records})
    conditions = {"team": "red", "age": {"gte": 2, "ne": 4}}
    asked = {"query": "harbour office", "filters": {"attributes": conditions}}
    found = client.post("/api/memory/search", json=asked).json()
    assert [hit["id"] for hit in found["hits"]] == ["f-2"]
    assert found["filters"] == {"attributes": {"team": {"eq": "red"}, "age": {"gte": 2, "ne": 4}}}
    listed = client.get("/api/memory/records", params={"attributes": json.dumps(conditions)}).json()
    assert [record["id"] for record in listed["records"]] == ["f-2"]
    said = {"messages": [{"role": "user", "content": "Where does Ada work?"}], "filters": asked["filters"]}
    facts = client.post("/api/memory/retrieve", json=said).json()["facts"]
    assert {fact["id"] for fact in facts} == {"f-2"}
    for wrong, field in (
        ({"age": {"gt": True}}, "attributes.age.gt"),
        ({"age": {"like": 1}}, "attributes.age.like"),
        ({"age": {"in": []}}, "attributes.age.in"),
        ({"a..b": 1}, "attributes.a..b"),
        ({}, "attributes"),
    ):
        problem(
            client.post("/api/memory/search", json={**asked, "filters": {"attributes": wrong}}), 422, f"filters.{field}"
        )
        problem(client.get("/api/memory/records", params={"attributes": json.dumps(wrong)}), 422, field)
    for text in ("red", "[]", "1", "{"):
        problem(client.get("/api/memory/records", params={"attributes": text}), 422, "attributes")


def wrong_field(wrong):
    name = next(iter(wrong))
    return f"{name}.0" if name == "content_types" else name


def test_pages_of_long_records_stay_short(client):
    """Proves: STORE-2."""
    long = "x" * 960_000
    for at in range(20):
        client.put(f"/api/memory/records/long-{at:02}", json={**FACT, "attributes": {"long": long}})
    page = client.get("/api/memory/records").json()
    assert len(page["records"]) == 18  # 16 MiB
    rest = client.get("/api/memory/records", params={"cursor": page["next_cursor"]}).json()
    assert [record["id"] for record in rest["records"]] == ["long-18", "long-19"]
    assert "next_cursor" not in rest


# Bulk uploads


def test_a_bulk_upload_answers_every_line_and_a_bad_one_ends_nothing(client, served):
    """Proves: STORE-2, STORE-4."""
    body = b"\n".join(
        [
            b'\xef\xbb\xbf{"id":"m-1","kind":"message","text":"The ferry leaves at nine."}',
            b"",
            b"not json",
            b'{"id":"m-2","kind":"message","text":"x","tenant":"another"}',
            b'{"id":"","kind":"message","text":"a blank id"}',
            b"[1]",
            b'{"id":"m-3","kind":"message","text":"\xff"}',
            b'{"id":"m-4","kind":"message","text":"Noon."}',
        ]
    )
    answers, summary = lines(client.post("/api/memory/records/bulk", content=body, headers=NDJSON))
    assert [(answer["line"], answer["status"]) for answer in answers] == [
        (1, "created"),
        *[(number, "rejected") for number in range(3, 8)],
        (8, "created"),
    ]
    assert all(answer["error"] for answer in answers[1:-1])
    assert summary == {"done": True, "created": 2, "replaced": 0, "unchanged": 0, "rejected": 5, "failed": 0}
    with MemoryStore.open(served.folder, embedder=WordHashEmbedder(), read_only=True) as other:
        assert [record.id for record in other.scan(Scope())] == ["m-1", "m-4"]
    assert lines(client.post("/api/memory/records/bulk", content=b"", headers=NDJSON))[1]["done"]
    problem(client.post("/api/memory/records/bulk", json={}), 415)


def test_a_long_upload_by_a_client_that_reads_at_the_end_doesn_t_hang(client):
    """Answers are longer than what sockets and 1 MiB of memory hold. Proves: STORE-2."""
    count = 10_000
    body = b"".join(b'{"id":"%0500d","text":"","kind":"fact"}\n' % at for at in range(count))
    answers, summary = lines(client.post("/api/memory/records/bulk", content=body, headers=NDJSON))
    assert len(answers) == summary["rejected"] == count
    assert sum(len(json.dumps(answer)) for answer in answers) > 5_000_000


def test_a_client_that_waits_for_an_answer_gets_it_before_the_upload_ends(served, client):
    """Proves: STORE-2, STORE-4."""
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    connection.putrequest("POST", "/api/memory/records/bulk")
    for name, value in {**NDJSON, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    for at in range(3):
        send_chunk(connection.sock, json.dumps({"id": f"m-{at}", "kind": "message", "text": f"Turn {at}."}))
        if not at:
            response = connection.getresponse()
        assert json.loads(response.readline()) == {"line": at + 1, "id": f"m-{at}", "status": "created"}
        assert client.get(f"/api/memory/records/m-{at}").status_code == 200
    connection.sock.sendall(b"0\r\n\r\n")
    assert json.loads(response.readline())["done"]
    connection.close()


def send_chunk(sock: socket.socket, line: str) -> None:
    data = line.encode() + b"\n"
    sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def test_what_was_answered_stays_when_the_client_goes_away(served, client):
    """Proves: STORE-4."""
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])), timeout=30) as sock:
        head = "POST /api/memory/records/bulk HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        sock.sendall(f"{head}Content-Type: application/x-ndjson\r\n\r\n".encode())
        send_chunk(sock, json.dumps({**FACT, "id": "kept"}))
        heard = b""
        while b'"status":"created"' not in heard:
            heard += sock.recv(65_536)
        send_chunk(sock, '{"id":"half"')
    assert client.get("/api/memory/records/kept").status_code == 200
    assert client.get("/health").status_code == 200


def test_bodies_that_are_too_long_are_refused(tmp_path):
    """Proves: OPS-1."""
    limits = {"max_body_bytes": 2000, "max_bulk_bytes": 5000}
    with (
        running_service(config=limits, settings=Settings(), embedder=WordHashEmbedder()) as small,
        small.client() as client,
    ):
        long = {**FACT, "text": "x" * 3000}
        problem(client.put("/api/memory/records/f-1", json=long), 413)
        problem(client.put("/api/memory/records/a/api/memory/records/bulk", json=long), 413)
        line = json.dumps({**long, "id": "f-1"}).encode() + b"\n"
        assert lines(client.post("/api/memory/records/bulk", content=line, headers=NDJSON))[1]["created"] == 1
        problem(client.post("/api/memory/records/bulk", content=line * 2, headers=NDJSON), 413)
        _, summary = lines(client.post("/api/memory/records/bulk", content=slowly(line, line), headers=NDJSON))
        assert not summary["done"]
        assert "longer" in summary["error"]


def slowly(*parts):
    for part in parts:
        yield part
        time.sleep(0.3)


# Searches


def test_a_search_takes_the_engine_s_options(client):
    """Proves: SEARCH-1, SEARCH-3, SEARCH-6, SEARCH-8."""
    turn = {"kind": "message", "conversation_id": "trip", "session": "monday"}
    records = [
        {**turn, "id": "t1", "text": "Which ferry do we take?", "author": "Ada", "role": "user"},
        {**turn, "id": "t2", "text": "The one at nine. " + "Bring a coat. " * 50, "author": "Ben", "role": "assistant"},
        {"id": "n1", "kind": "archival", "label": "Shopping", "text": "Bread and ferry tickets.", "agent_id": "a1"},
    ]
    client.post("/api/memory/records", json={"records": records})

    def search(**asked):
        found = client.post("/api/memory/search", json={"query": "ferry at nine", **asked})
        assert found.status_code == 200, found.text
        return found.json()

    found = search(debug=True)
    assert {hit["id"] for hit in found["hits"]} == {"t1", "t2", "n1"}
    assert all(hit["debug"]["bm25"]["rank"] for hit in found["hits"])
    assert (found["legs"], found["degraded"], found["allowed"]) == (["fts", "vector"], False, 3)
    assert [hit["id"] for hit in search(agent_id="a1")["hits"]] == ["n1"]
    assert {hit["id"] for hit in search(filters={"role": "user"})["hits"]} == {"t1"}
    assert search(mode="fts", query="fery")["hits"] == []
    typo = search(mode="fts", query="fery", fuzzy=True)
    assert (typo["corrected"], {hit["id"] for hit in typo["hits"]}) == ("ferry", {"t1", "t2", "n1"})
    assert len(search(limit=1, limit_per_type=False)["hits"]) == 1
    assert len(search(limit=1)["hits"]) == 2
    assert all(hit["similarity"] >= 0.5 for hit in search(filters={"min_similarity": 0.5})["hits"])
    assert not any(hit["truncated"] for hit in found["hits"])
    cut = {hit["id"]: hit for hit in search(profile="40")["hits"]}
    assert cut["t2"]["truncated"] and len(cut["t2"]["content"]) <= 40
    empty = search(query="zeppelin", mode="fts", filters={"session": "tuesday"})
    assert (empty["hits"], empty["allowed"], empty["filters"]) == ([], 0, {"session": "tuesday"})


def test_a_superseded_fact_is_written_back_as_it_was_read(client):
    """Its end was refused, although the format has it. Proves: STORE-1, STORE-2."""
    ended = {"valid_until": "2024-05-01T00:00:00Z", "superseded_by": "f-2"}
    assert client.put("/api/memory/records/f-1", json={**FACT, **ended}).status_code == 201
    read = client.get("/api/memory/records/f-1").json()
    assert {name: read[name] for name in ended} == ended
    (listed,) = client.get("/api/memory/records", params={"include_superseded": True}).json()["records"]
    assert listed == read
    assert client.put("/api/memory/records/f-1", json=read).json()["status"] == "unchanged"
    itself = {**FACT, **ended, "superseded_by": "f-1"}
    problem(client.put("/api/memory/records/f-1", json=itself), 422, "superseded_by")
    message = {"kind": "message", "text": "Hello.", "valid_until": ended["valid_until"]}
    problem(client.put("/api/memory/records/m-1", json=message), 422, "valid_until")
    problem(client.put("/api/memory/records/f-1", json={**FACT, "superseded_by": "f-2"}), 422, "valid_until")


RUN = {"execution": {"status": "failed"}, "outcome_score": 0.5, "metadata": {"tools_used": ["book"]}}


@pytest.mark.parametrize(
    "filters",
    [
        {"tools_used": ["book"]},
        {"scored": True},
        {"task_category": "travel"},
        {"complexity_level": "simple"},
        {"execution_status": "failed"},
        {"min_outcome_score": 0.4},
        {"max_outcome_score": 0.6},
        {"above_outcome_score": 0.4},
        {"below_outcome_score": 0.6},
    ],
)
def test_any_filter_of_trajectories_searches_trajectories(client, filters):
    """Only three of the nine were known once: `tools_used` alone found nothing. Proves: SEARCH-3, TRAJ-8."""
    attributes = {**RUN, "task_category": "travel", "complexity_level": "simple"}
    run = {"id": "r-1", "kind": "trajectory", "text": "Book the ferry.", "attributes": attributes}
    client.post("/api/memory/records", json={"records": [run, {"id": "f-1", **FACT}]})
    found = client.post("/api/memory/search", json={"query": "ferry", "filters": filters}).json()
    assert ([hit["id"] for hit in found["hits"]], found["content_types"]) == (["r-1"], ["trajectory"])


def test_the_rerank_pool_goes_to_100(client):
    """The documented range; it ended at 50 here. Proves: SEARCH-5."""
    asked = {"query": "harbour", "rerank_pool": 100}
    assert client.post("/api/memory/search", json=asked).status_code == 200
    problem(client.post("/api/memory/search", json={**asked, "rerank_pool": 101}), 422, "rerank_pool")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"mode": "vector", "fuzzy": 1}, "fuzzy"),
        ({"mode": "fast"}, "mode"),
        ({"fuzzy": 3}, "fuzzy"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"scope": "constellation"}, "agent_id"),
        ({"filters": {"agent": "a"}}, "filters.agent"),
        ({"filters": {"min_similarity": 2}}, "filters.min_similarity"),
        ({"content_types": []}, "content_types"),
        ({"profile": "huge"}, "profile"),
        ({"query": " "}, "query"),
        ({"query": "x" * 10_001}, "query"),
        ({"tenant": "another"}, "tenant"),
        ({"rerank": True}, "rerank"),
        ({"reference_time": 5}, "reference_time"),
    ],
)
def test_an_option_that_can_t_be_honoured_is_an_error(client, asked, field):
    """Proves: SEARCH-2, SEARCH-3."""
    client.put("/api/memory/records/f-1", json=FACT)
    found = problem(client.post("/api/memory/search", json={"query": "harbour", **asked}), 422, field)
    assert found["allowed"]


@pytest.mark.parametrize(
    ("method", "address", "body"),
    [
        ("DELETE", "/api/memory/records", '{"ids": ["f-1"], "ids": ["f-2"]}'),
        ("POST", "/api/memory/erasure", '{"of": "user", "id": "u-1", "of": "tenant", "id": "u-2"}'),
        ("PUT", "/api/memory/records/f-1", '{"kind": "fact", "text": "x", "attributes": {"a": 1, "a": 2}}'),
    ],
)
def test_a_key_that_comes_twice_in_a_body_is_refused(client, method, address, body):
    """Proves: GUARD-7 (which of two values was meant isn't guessed, least of all where something is deleted)."""
    client.put("/api/memory/records/f-2", json=FACT).raise_for_status()
    answer = client.request(method, address, content=body, headers={"Content-Type": "application/json"})
    field = {"DELETE": "ids", "POST": "of", "PUT": "a"}[method]
    assert problem(answer, 422, field)["allowed"] == "this key once in an object"
    assert client.get("/api/memory/records/f-2").status_code == 200


def test_a_key_that_comes_twice_in_a_line_of_a_bulk_upload_is_refused(client):
    """Proves: GUARD-7 (as in any other body)."""
    body = b'{"id": "t-1", "id": "t-2", "kind": "fact", "text": "x"}\n{"id": "t-3", "kind": "fact", "text": "y"}\n'
    answers, summary = lines(client.post("/api/memory/records/bulk", content=body, headers=NDJSON))
    assert [answer["status"] for answer in answers] == ["rejected", "created"]
    assert "'id' occurs twice" in answers[0]["error"]
    assert summary["rejected"] == 1
    assert client.get("/api/memory/records/t-2").status_code == 404
