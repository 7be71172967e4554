"""Effects of hostile, broken or stuck clients on the service, and their limits (OPS-1, STORE-2, STORE-3)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from recall_loop.state.errors import EmbedderError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import ServiceThread, running_service
from tests.waiting import wait_until

BULK = "/api/memory/records/bulk"
NDJSON = {"Content-Type": "application/x-ndjson"}
RECORD = '{"id":"m-1","kind":"fact","text":"The ferry leaves at nine."}\n'


class Failing(WordHashEmbedder):
    """An embedder that can be away."""

    away = False

    def embed_documents(self, texts):
        if self.away:
            raise EmbedderError("the embedder is away")
        return super().embed_documents(texts)


@pytest.fixture(scope="module")
def embedder_that_fails() -> Failing:
    return Failing()


@pytest.fixture(scope="module")
def served(embedder_that_fails: Failing) -> Iterator[ServiceThread]:
    config = {"timeout_seconds": 2, "bulk_timeout_seconds": 4}
    with running_service(settings=Settings(), embedder=embedder_that_fails, config=config) as service:
        yield service


def begun_upload(served: ServiceThread, length: int, receive_bytes: int | None = None) -> socket.socket:
    """Return a connection on which an upload's head has been sent."""
    host, port = served.url.removeprefix("http://").split(":")
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.settimeout(30)
    sock.connect((host, int(port)))
    sock.sendall(
        f"POST {BULK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        f"Content-Length: {length}\r\n\r\n".encode()
    )
    return sock


def until_text(sock: socket.socket, wanted: bytes) -> bytes:
    """Return what comes, up to and with some bytes."""
    found = b""
    while wanted not in found:
        part = sock.recv(65_536)
        assert part, found
        found += part
    return found


def test_an_id_that_no_text_can_hold_rejects_its_own_record_only(served: ServiceThread) -> None:
    """Proves: STORE-2, OPS-1 (a lone surrogate is legal in JSON; a line after it is still written)."""
    bad = '{"id":"\\ud800","kind":"fact","text":"x"}'
    with served.client() as client:
        body = f'{{"records":[{bad},{RECORD}]}}'
        batch = client.post("/api/memory/records", content=body, headers={"Content-Type": "application/json"})
        lines = client.post(BULK, content=f"{bad}\n{RECORD}", headers=NDJSON).text.splitlines()
    assert batch.status_code == 200, batch.text
    assert [one["status"] for one in batch.json()["outcomes"]] == ["rejected", "created"]
    answers = [json.loads(line) for line in lines]
    assert [one.get("status") for one in answers] == ["rejected", "unchanged", None]
    assert answers[-1]["done"]


def test_an_upload_that_pauses_while_the_memory_fails_hears_so(
    served: ServiceThread, embedder_that_fails: Failing
) -> None:
    """Proves: STORE-2 (the last line says why nothing more is written, also where the sender is not at its end)."""
    rest = b'{"id":"m-3","kind":"fact","text":"Later."}\n'
    line = b'{"id":"m-2","kind":"fact","text":"The granary is full."}\n'
    embedder_that_fails.away = True
    try:
        with begun_upload(served, len(line) + len(rest)) as sock:
            sock.sendall(line)
            said = until_text(sock, b"failed")  # written after a pause, and answered before the upload's end
            sock.sendall(rest)
            said += until_text(sock, b"0\r\n\r\n")
    finally:
        embedder_that_fails.away = False
    assert b'"done":false' in said
    assert b'"failed":1' in said


def test_a_client_that_reads_nothing_gives_its_place_back(
    served: ServiceThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-1 (limits of concurrency can't be used up by readers that are stuck)."""
    monkeypatch.setattr("recall_loop.service.middleware.request_middleware._MIN_SEND_SECONDS", 0.5)
    body = b"x\n" * 100_000  # each line is answered by one that is far longer
    with begun_upload(served, len(body), receive_bytes=2048) as sock:
        wait_until(lambda: served.service.places.taken)
        sock.sendall(body)
        wait_until(lambda: not served.service.places.taken)


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP"])
def test_requests_forwarded_by_a_proxy_are_not_local(served: ServiceThread, header: str) -> None:
    """Proves: OPS-1 (without keys nobody elsewhere is let in, nor told of the machine)."""
    with served.client() as client:
        refused = client.get("/api/memory/records", headers={header: "192.0.2.7"})
        ready = client.get("/ready", headers={header: "192.0.2.7"})
        assert client.get("/ready").json()["warnings"]
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "not_local")
    assert not ready.json()["warnings"]
