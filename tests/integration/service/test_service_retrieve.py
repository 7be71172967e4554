"""Retrieval over HTTP, over real sockets: answers, streams, errors, time and leaving clients (OPS-1)."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import httpx
import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.integration.graph.worlds import (
    COAST,
    COAST_RECORDS,
    DIRECT,
    NOTHING,
    NOW,
    TWO_HOPS,
    VALLEY,
    VALLEY_RECORDS,
    comparable_json,
)
from tests.llm_endpoint import Behaviour, ChatEndpoint
from tests.service_server import ServiceThread, running_service
from tests.waiting import wait_until

PATH = "/api/memory/retrieve"


def asking(question: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], "reference_time": NOW, **more}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "requests.jsonl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "store"
    with MemoryStore.open(path, embedder=WordHashEmbedder()) as store:
        store.upsert(VALLEY_RECORDS, tenant=VALLEY)
        store.upsert(COAST_RECORDS, tenant=COAST)
    return path


@pytest.fixture(scope="module")
def served(log: Path, folder: Path) -> Iterator[ServiceThread]:
    settings = Settings(tenant=VALLEY, store_path=str(folder))
    config = {"request_log": log, "max_body_bytes": 4096}
    with running_service(settings=settings, embedder=WordHashEmbedder(), config=config) as service:
        yield service


@pytest.fixture
def client(served: ServiceThread) -> Iterator[httpx.Client]:
    with served.client() as opened:
        yield opened


def test_a_request_is_validated_once(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The route's body is the request that the graph runs: nothing parses it again. Proves: OPS-1."""
    monkeypatch.setattr(RetrieveRequest, "__pydantic_validator__", None)
    with pytest.raises(AttributeError):
        RetrieveRequest.model_validate(asking(DIRECT))
    assert client.post(PATH, json=asking(DIRECT)).status_code == 200
    assert client.post(f"{PATH}/stream", json=asking(DIRECT)).text.count("event: result") == 1


@pytest.mark.parametrize("question", [DIRECT, TWO_HOPS, NOTHING])
def test_an_answer_is_that_of_the_graph(served: ServiceThread, client: httpx.Client, question: str) -> None:
    """Proves: OPS-1, LOOP-9."""
    answer = client.post(PATH, json=asking(question, debug=True))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    direct = retrieve(
        asking(question, debug=True, tenant=VALLEY), store=served.service.store, settings=served.service.settings
    )
    assert comparable_json(answer.json()) == comparable_json(direct.model_dump(mode="json"))
    assert "trace" in answer.json()["metadata"]


def test_events_come_as_they_happen_and_the_result_last(served: ServiceThread, client: httpx.Client) -> None:
    """Proves: OPS-1, OPS-3."""
    names, datas = [], []
    with client.stream("POST", f"{PATH}/stream", json=asking(TWO_HOPS)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("event: "):
                names.append(line[7:])
            elif line.startswith("data: "):
                datas.append(json.loads(line[6:]))
    assert names[:2] == ["accepted", "queries_planned"]
    assert names[-2:] == ["stopped", "result"]
    kinds = {get_args(get_type_hints(part)["type"])[0] for part in get_args(ProgressEvent)}
    assert set(names[1:-1]) <= kinds
    assert [data["type"] for data in datas[:-1]] == names[:-1]
    assert comparable_json(datas[-1]) == comparable_json(client.post(PATH, json=asking(TWO_HOPS)).json())


@pytest.mark.parametrize(
    ("body", "status", "kind", "field"),
    [
        ({}, 422, "invalid_input", "messages"),
        (asking(DIRECT, max_facts=0), 422, "invalid_input", "max_facts"),
        (asking(DIRECT, filters={"start_time": "x"}), 422, "invalid_input", "filters.start_time"),
        (asking(DIRECT, scope="constellation"), 422, "invalid_input", "scope"),
        (asking(" "), 422, "invalid_input", "messages.0.content"),
        (asking(DIRECT, write_answer=True), 422, "unsupported_option", "write_answer"),
        (asking(DIRECT, store_path="/etc"), 422, "invalid_input", "store_path"),
        (asking(DIRECT, tenant=COAST), 403, "foreign_tenant", "tenant"),
        (["a"], 422, "invalid_input", "body"),
    ],
)
@pytest.mark.parametrize("path", [PATH, f"{PATH}/stream"])
def test_a_bad_request_is_told_as_a_problem(
    client: httpx.Client, path: str, body: Any, status: int, kind: str, field: str
) -> None:
    """Proves: OPS-1 (problem documents that name field, value and what is allowed)."""
    answer = client.post(path, json=body)
    if answer.status_code == 200:  # what only the run itself can find out comes as the stream's last event
        assert path.endswith("stream")
        last = answer.text.strip().rpartition("\n\n")[2]
        assert last.startswith("event: problem\n")
        problem = json.loads(last.partition("data: ")[2])
    else:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code == status
        problem = answer.json()
        assert problem["request_id"] == answer.headers["x-request-id"]
    assert (problem["status"], problem["type"]) == (status, f"urn:recall-loop:problem:{kind}")
    assert problem["field"].startswith(field)
    if status == 422:
        assert problem["allowed"]
        assert problem["detail"].startswith(problem["field"])


def test_its_own_tenant_may_be_named(client: httpx.Client) -> None:
    """Proves: STORE-3."""
    assert client.post(PATH, json=asking(DIRECT, tenant=VALLEY)).status_code == 200


def test_errors_of_the_server_itself_are_problems_too(client: httpx.Client) -> None:
    """Proves: OPS-1."""
    json_type = {"content-type": "application/json"}

    def pieces() -> Iterator[bytes]:
        for _ in range(10):
            yield b" " * 1000

    answers = {
        "not_found": client.get("/api/nothing"),
        "method_not_allowed": client.put(PATH, json={}),
        "invalid_json": client.post(PATH, content=b"{", headers=json_type),
        "content_too_large": client.post(PATH, content=b" " * 5000, headers=json_type),
        "content_too_large ": client.post(PATH, content=pieces(), headers=json_type),
        "content_too_large  ": client.post("/health", content=b" " * 5000),
        "unsupported_media_type": client.post(PATH, content=b"{}", headers={"content-type": "text/plain"}),
        "unsupported_media_type ": client.post(PATH, content=b"{}", headers={"content-type": ""}),
    }
    for kind, answer in answers.items():
        assert answer.headers["content-type"] == "application/problem+json", kind
        problem = answer.json()
        assert problem["type"] == f"urn:recall-loop:problem:{kind.strip()}"
        assert problem["status"] == answer.status_code


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"content": "\\ud800"}]}',
        b'{"messages": [{"content": "a"}], "\\ud800": 1}',
        b'{"messages": [{"content": "a"}], "filters": {"min_similarity": NaN}}',
        b'{"messages": [{"content": "a"}], "max_facts": ' + b"9" * 3000 + b"}",
        b'{"messages": [{"content": "a"}], "max_facts": 1e999}',
        b"[" * 4000,
        b'{"a":' * 600,
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_odd_json_is_refused(client: httpx.Client, body: bytes) -> None:
    """Proves: OPS-1 (never a 5xx)."""
    answer = client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["status"] == answer.status_code


def test_a_failure_tells_nothing_of_the_inside(
    served: ServiceThread, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: OPS-1, OPS-7."""
    # All that the middleware reads of the settings, where a process records spans; the route needs more.
    monkeypatch.setattr(served.service, "settings", SimpleNamespace(trace_content=False))
    answer = client.post(PATH, json=asking("the secret word walnut"))
    assert answer.status_code == 500
    assert set(answer.json()) == {"type", "title", "status", "detail", "request_id"}
    assert "Settings" not in answer.text
    assert answer.json()["request_id"] in caplog.text
    assert "walnut" not in caplog.text


def test_health_readiness_and_figures(served: ServiceThread, client: httpx.Client) -> None:
    """Proves: OPS-1, OPS-3."""
    assert client.get("/health").json() == {"status": "ok"}
    ready = client.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert "No API keys" in ready.json()["warnings"][0]
    before = figures(client)
    client.post(PATH, json=asking(DIRECT))
    client.post(PATH, json={})
    client.request("WEIRD-7", PATH)
    after = figures(client)

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    label = 'method="POST",route="/api/memory/retrieve"'
    assert grown(f'recall_loop_http_requests_total{{{label},status="200"}}') == 1
    assert grown(f'recall_loop_http_requests_total{{{label},status="422"}}') == 1
    assert grown(f"recall_loop_http_request_seconds_count{{{label}}}") == 2
    assert grown("recall_loop_iterations_count") == 1
    assert sum(grown(name) for name in after if name.startswith("recall_loop_retrievals_total")) == 1
    assert after["recall_loop_http_in_flight"] == 1  # the one that asks for the figures
    assert VALLEY not in client.get("/metrics").text
    assert "WEIRD" not in client.get("/metrics").text


def figures(client: httpx.Client) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_a_store_that_cannot_be_read_is_not_ready(
    served: ServiceThread, client: httpx.Client, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: OPS-1 (and the log says why, under the request's id)."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as closed:
        pass
    monkeypatch.setattr(served.service, "_store", closed)
    monkeypatch.setattr(served.service, "_checked_at", float("-inf"))
    ready = client.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, 503)
    assert ready.json()["type"].endswith("not_ready")
    assert "closed" in ready.json()["reasons"][0]
    answer = client.post(PATH, json=asking(DIRECT))
    assert answer.status_code == 503
    assert answer.headers["retry-after"].isdigit()
    assert answer.json()["type"].endswith("store_unavailable")
    called = client.post(
        "/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": "granary"}},
        },
        headers={"Accept": "application/json, text/event-stream"},
    )
    for response in (answer, called):
        request_id = response.headers["x-request-id"]
        (line,) = [one for one in caplog.records if request_id in one.getMessage()]
        assert line.levelname == "WARNING"
        assert line.getMessage() == f"request {request_id} failed: StoreUnusableError: the store is closed"


def test_a_run_has_the_id_of_its_http_request(client: httpx.Client, log: Path) -> None:
    """Logs, answer and request log name one id. Proves: OPS-1, OPS-3."""
    for path in (PATH, f"{PATH}/stream"):
        for given in (None, "mine"):
            answer = client.post(path, json=asking(DIRECT) | ({"id": given} if given else {}))
            text = answer.text.strip().rpartition("data: ")[2] if path.endswith("stream") else answer.text
            wanted = given or answer.headers["x-request-id"]
            assert json.loads(text)["request_id"] == wanted
            assert json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["request"]["id"] == wanted


def test_a_store_that_was_replaced_makes_the_service_unready(tmp_path: Path) -> None:
    """Writes would be refused until a restart. Proves: OPS-1, STORE-4."""
    folder = tmp_path / "store"
    options: dict[str, Any] = {"settings": Settings(store_path=str(folder)), "embedder": WordHashEmbedder()}
    with running_service(**options) as served, served.client() as client:
        record = {"records": [{"id": "a", "text": "The mill is old."}]}
        assert client.post("/api/memory/records", json=record).status_code == 200
        assert client.get("/ready").status_code == 200
        shutil.copytree(folder, tmp_path / "copy")
        folder.rename(tmp_path / "away")
        (tmp_path / "copy").rename(folder)
        assert client.post("/api/memory/records", json=record).status_code == 503
        ready = wait_until(lambda: found if (found := client.get("/ready")).status_code == 503 else None)
    assert ready.json()["type"].endswith("not_ready")
    assert any("writes are refused until the service is restarted" in one for one in ready.json()["reasons"])


def test_the_log_of_requests_can_be_replayed(
    served: ServiceThread, client: httpx.Client, log: Path, folder: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Proves: OPS-4, OPS-7 (user content where it was asked for, in a file that only its owner may read)."""
    client.post(PATH, json=asking(DIRECT, id="asked-1", max_facts=5))
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    logged = next(line for line in lines if line["request"].get("id") == "asked-1")
    assert logged["request"]["tenant"] == VALLEY
    assert logged["facts"][0] == "f-tallinn"
    assert log.stat().st_mode & 0o077 == 0
    chosen = tmp_path / "log.jsonl"
    chosen.write_text(json.dumps(logged) + "\n", encoding="utf-8")
    from recall_loop.evals.replay.replay_policies import read_requests

    (prompt,) = read_requests(chosen, "default")
    assert prompt.request.messages[0].content == DIRECT
    found = retrieve(prompt.request, store=served.service.store, settings=served.service.settings)
    assert [fact.id for fact in found.facts] == logged["facts"]


def test_the_log_of_requests_is_written_by_name(
    client: httpx.Client, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: OPS-1 (it may be moved away; where it can't be written, requests are answered, and it is told once)."""

    def ask(request_id: str) -> None:
        assert client.post(PATH, json=asking(DIRECT, id=request_id, max_facts=1)).status_code == 200

    ask("before")
    moved = log.rename(log.with_name("moved.jsonl"))
    log.mkdir()
    ask("lost-1")
    ask("lost-2")
    log.rmdir()
    ask("after")
    assert "before" in moved.read_text(encoding="utf-8").splitlines()[-1]
    (line,) = log.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["request"]["id"] == "after"
    assert log.stat().st_mode & 0o077 == 0
    assert caplog.text.count("the request log can't be written") == 1


def test_openapi_describes_every_answer(client: httpx.Client) -> None:
    """Proves: OPS-1."""
    schema = client.get("/openapi.json").json()
    assert schema["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert {"500", "503"} <= set(operation["responses"]), path
            if path.startswith("/api/"):
                assert {"401", "403", "429"} <= set(operation["responses"]), path
                assert operation["security"]
    body = schema["paths"][PATH]["post"]["requestBody"]["content"]["application/json"]
    assert {"question", "conversation"} <= set(body["examples"])


# Time, limits, and clients that leave: with a language model that takes as long as a test wants.


@pytest.fixture
def slow(folder: Path) -> Iterator[tuple[ChatEndpoint, Settings]]:
    """A model that never answers, and settings that use it and wait for longer than a test may take."""
    with ChatEndpoint(lambda _: {}, behaviour=Behaviour.HANGS) as endpoint:
        settings = Settings(
            tenant=VALLEY,
            store_path=str(folder),
            llm_model="test-model",
            llm_base_url=endpoint.url,
            llm_api_key="x",
            llm_timeout_seconds=300,
        )
        yield endpoint, settings


def test_a_slow_request_ends_with_504_and_gives_its_thread_back(slow: tuple[ChatEndpoint, Settings]) -> None:
    """Proves: OPS-1, LOOP-8."""
    _endpoint, settings = slow
    config = {"timeout_seconds": 1.0, "concurrency": 1, "read_only": True}
    with (
        running_service(settings=settings, embedder=WordHashEmbedder(), config=config) as served,
        served.client() as client,
    ):
        answer = client.post(PATH, json=asking(DIRECT))
        assert (answer.status_code, answer.json()["type"]) == (504, "urn:recall-loop:problem:gateway_timeout")
        pool = served.service._pool
        wait_until(lambda: pool._work_queue.empty() and pool._idle_semaphore._value == 1)
        streamed = client.post(f"{PATH}/stream", json=asking(DIRECT)).text
        assert "event: problem" in streamed
        assert "gateway_timeout" in streamed


def asked_and_unheard(served: ServiceThread, path: str) -> socket.socket:
    """Send a request, and return the connection on which its answer would come."""
    body = json.dumps(asking(DIRECT)).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sock = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))
    sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return sock


@pytest.mark.parametrize("path", [PATH, f"{PATH}/stream"])
def test_a_client_that_leaves_ends_its_run(slow: tuple[ChatEndpoint, Settings], path: str) -> None:
    """Proves: OPS-1 (the wait for the model ends, and its thread serves others)."""
    endpoint, settings = slow
    config = {"concurrency": 1, "read_only": True}
    with running_service(settings=settings, embedder=WordHashEmbedder(), config=config) as served:
        pool = served.service._pool
        with asked_and_unheard(served, path):
            wait_until(lambda: endpoint.asked)
            assert pool._idle_semaphore._value == 0
        wait_until(lambda: pool._idle_semaphore._value == 1)
        with served.client() as client:
            wait_until(lambda: figures(client)["recall_loop_http_in_flight"] == 1)
            assert f'route="{path}",status="' in client.get("/metrics").text


def test_too_many_at_once_are_told_to_come_back(slow: tuple[ChatEndpoint, Settings]) -> None:
    """Proves: OPS-1 (429 with Retry-After; health answers all the same)."""
    _, settings = slow
    config = {"concurrency": 1, "queue": 1, "timeout_seconds": 100.0, "read_only": True}
    with (
        running_service(settings=settings, embedder=WordHashEmbedder(), config=config) as served,
        served.client() as client,
    ):
        with asked_and_unheard(served, PATH), asked_and_unheard(served, PATH):
            wait_until(lambda: served.service.places.taken == 2)
            answer = client.post(PATH, json=asking(DIRECT))
            assert (answer.status_code, answer.json()["type"]) == (429, "urn:recall-loop:problem:busy")
            assert int(answer.headers["retry-after"]) >= 1
            assert client.get("/health").status_code == 200
        wait_until(lambda: served.service.places.taken == 0)


def test_a_key_that_asks_too_fast_waits(folder: Path) -> None:
    """Proves: OPS-1."""
    settings = Settings(tenant=VALLEY, store_path=str(folder))
    config = {"rate_per_minute": 1, "rate_burst": 2, "read_only": True}
    with (
        running_service(settings=settings, embedder=WordHashEmbedder(), config=config) as served,
        served.client() as client,
    ):
        answers = [client.get("/api/nothing") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [404, 404, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert answers[-1].json()["type"].endswith("rate_limited")
