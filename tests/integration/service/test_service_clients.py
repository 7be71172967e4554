"""What HTTP clients may do that the documentation's examples don't: HEAD, wrong parameters, codings of a body."""

from __future__ import annotations

import gzip
import json

import pytest

from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service") / "memory"
    options = {"settings": Settings(store_path=str(folder)), "embedder": WordHashEmbedder()}
    with running_service(**options) as served, served.client() as found:
        found.put("/api/memory/records/f1", json={"text": "The ferry leaves at nine."})
        found.put("/api/memory/records/m1", json={"kind": "message", "text": "And at noon.", "user_id": "ada"})
        yield found


@pytest.mark.parametrize("path", ["/health", "/ready", "/", "/api/memory/records/f1", "/api/memory/records?limit=1"])
def test_head_answers_what_get_does_without_its_body(client, path):
    """Proves: OPS-1."""
    head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/memory/records", "GET, HEAD, POST, DELETE"),
        ("OPTIONS", "/api/memory/records/f1", "GET, HEAD, PUT, PATCH, DELETE"),
        ("HEAD", "/api/memory/retrieve", "POST"),
        ("POST", "/health", "GET, HEAD"),
    ],
)
def test_a_refused_method_names_all_that_the_address_takes(client, method, path, allowed):
    """Proves: OPS-1."""
    response = client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("path", "field", "allowed"),
    [
        ("/api/memory/records?limit=0", "limit", "an integer from 1 to 1000"),
        ("/api/memory/records?order=oldest", "order", "one of id, newest"),
        ("/api/memory/records?colour=red", "colour", "known fields: agent_ids, role, start_time, "),
        ("/api/memory/records?content_types=poem", "content_types.0", "one of fact, archival, message, trajectory"),
        ("/api/memory/records/" + "a" * 600, "record_id", "text of 1 to 512 characters"),
    ],
)
def test_a_wrong_parameter_is_answered_with_what_is_allowed(client, path, field, allowed):
    """Proves: OPS-1."""
    response = client.get(path)
    assert response.status_code == 422, response.text
    assert response.json()["field"] == field
    assert response.json()["allowed"].startswith(allowed)


def test_a_compressed_body_is_refused_with_what_to_send_instead(client):
    """Proves: OPS-1."""
    for path, media in (("/api/memory/search", "application/json"), ("/api/memory/records/bulk", "application/jsonl")):
        body = gzip.compress(json.dumps({"query": "ferry"}).encode())
        response = client.post(path, content=body, headers={"Content-Type": media, "Content-Encoding": "gzip"})
        assert response.status_code == 415, response.text
        assert response.headers["accept-encoding"] == "identity"
        assert "without the header Content-Encoding" in response.json()["detail"]


@pytest.mark.parametrize("body", ['{"query": "für"}'.encode("latin-1"), b'{"limit": ' + b"9" * 5000 + b"}"])
def test_a_body_that_is_no_json_is_called_that(client, body):
    """Proves: OPS-1."""
    response = client.post("/api/memory/search", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["detail"] == "The body can't be read as JSON in UTF-8."


def test_an_export_takes_the_content_types_that_a_list_takes(client):
    """Proves: OPS-1."""
    lines = client.get("/api/memory/export?content_types=message&user_id=ada").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["m1"]
    assert client.get("/api/memory/export?content_types=fact").text == ""
    assert client.get("/api/memory/export?content_types=poem").status_code == 422


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def test_mcp_names_the_type_that_it_takes(client):
    """Proves: OPS-6."""
    response = client.post("/mcp", content=json.dumps(CALL), headers={"Content-Type": "text/plain"})
    assert response.status_code == 415
    assert response.json()["detail"] == "The body's Content-Type must be application/json."
    assert response.headers["accept"] == "application/json"


def test_figures_name_each_address_as_openapi_does(client):
    """Calls of MCP would be lost among mistyped addresses. Proves: OPS-1, OPS-6."""
    client.post("/mcp", json=CALL, headers={"Accept": "application/json, text/event-stream"})
    client.get("/api/memory/records/f1")
    text = client.get("/metrics").text
    assert 'recall_loop_http_requests_total{method="POST",route="/mcp",status="200"}' in text
    assert 'recall_loop_http_requests_total{method="GET",route="/api/memory/records/{record_id}",status="200"}' in text


@pytest.mark.parametrize("condition", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
def test_a_condition_that_cannot_be_checked_stops_the_write(client, condition):
    """Ignored, it would lose what another has written meanwhile. Proves: OPS-1."""
    path = "/api/memory/records/f1"
    for method, body in (
        ("PUT", {"text": "The ferry sank."}),
        ("PATCH", {"text": "The ferry sank."}),
        ("DELETE", None),
    ):
        response = client.request(method, path, json=body, headers={condition: '"1"'})
        assert (response.status_code, response.json()["field"]) == (412, condition)
        assert response.json()["type"].endswith(":precondition_failed")
        assert (
            "412"
            in client.get("/openapi.json").json()["paths"]["/api/memory/records/{record_id}"][method.lower()][
                "responses"
            ]
        )
    assert client.get(path, headers={condition: '"1"'}).json()["text"] == "The ferry leaves at nine."


def test_generated_clients_get_functions_with_short_names(client):
    """FastAPI's own names hold the path and the method. Proves: OPS-1."""
    operations = [
        operation["operationId"]
        for methods in client.get("/openapi.json").json()["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(operations)) == len(operations)
    assert {"retrieve_memories", "write_records", "read_record"} <= set(operations)
    assert not [name for name in operations if "api" in name.split("_")]
