"""Clients that send half a request, or a byte at a time (GUARD-4)."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx
import pytest

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

PLACES = 8
HEAD_SECONDS = 3.0
BODY = b'{"query": "ferry"}'


class Served(NamedTuple):
    """The service, and a key of each of two tenants."""

    url: str
    greedy: str
    other: str

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def head(self, length: int) -> bytes:
        return (
            f"POST /api/memory/search HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.greedy}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def status(self, key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(f"{self.url}/api/memory/records", headers=headers, timeout=30, verify=False).status_code


class Answer(NamedTuple):
    """What came on a connection until the other side closed it."""

    status: int
    headers: dict[str, str]
    problem: dict[str, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("slow")
    keys = [add_key(folder / "keys.json", tenant, KeyRole.WRITE)[1] for tenant in ("greedy", "other")]
    limits = {"concurrency": 2, "queue": PLACES - 2, "head_seconds": HEAD_SECONDS, "body_bytes_per_second": 100}
    config = {**limits, "keys_file": folder / "keys.json"}
    with running_service(config=config, settings=Settings(), embedder=WordHashEmbedder()) as service:
        yield Served(service.url, *keys)


def answer_on(sock: socket.socket) -> Answer:
    """Read one answer, whole."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = sock.recv(65_536)
        assert part, found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    while len(body) < int(headers["content-length"]):
        body += sock.recv(65_536)
    return Answer(int(lines[0].split()[1]), headers, json.loads(body))


def trickle(sock: socket.socket, piece: bytes) -> None:
    """Send a piece again and again until the other side answers or closes."""
    sock.settimeout(0.1)
    while True:
        try:
            sock.sendall(piece)
            if sock.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
    sock.settimeout(30)


def check_problem(answer: Answer, status: int, kind: str) -> None:
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.problem["type"] == f"urn:recall-loop:problem:{kind}"


def test_half_sent_bodies_leave_places_for_other_keys(served: Served) -> None:
    """Proves: GUARD-4 (a key holds half of the places at most, and none for longer than a body may take)."""
    with ExitStack() as held:
        sockets = [held.enter_context(served.connect()) for _ in range(PLACES + 4)]
        for sock in sockets:
            sock.sendall(served.head(1000) + BODY[:5])
        assert served.status(served.other) == 200
        answers = [answer_on(sock) for sock in sockets]
    assert Counter(answer.status for answer in answers) == {408: PLACES // 2, 429: PLACES // 2 + 4}
    for answer in answers:
        check_problem(answer, answer.status, "request_timeout" if answer.status == 408 else "busy")
        assert int(answer.headers["retry-after"]) >= 1
    assert served.status(served.greedy) == 200


def test_a_body_that_trickles_ends_with_408(served: Served) -> None:
    """Proves: GUARD-4 (a byte now and then is below the least rate; a pause alone is not)."""
    with served.connect() as sock:
        sock.sendall(served.head(1000))
        began = time.monotonic()
        trickle(sock, b" ")
        check_problem(answer_on(sock), 408, "request_timeout")
        assert time.monotonic() - began >= HEAD_SECONDS
    with served.connect() as sock:
        sock.sendall(served.head(len(BODY)) + BODY[:5])
        time.sleep(0.3)
        sock.sendall(BODY[5:])
        assert answer_on(sock).status == 200


def test_half_sent_heads_are_closed(served: Served) -> None:
    """Proves: GUARD-4 (also where bytes keep coming, and on a connection that has been used)."""
    with ExitStack() as held:
        sockets = [held.enter_context(served.connect()) for _ in range(30)]
        for sock in sockets:
            sock.sendall(served.head(0)[:40])
        used = held.enter_context(served.connect())
        used.sendall(served.head(len(BODY)) + BODY)
        assert answer_on(used).status == 200
        used.sendall(served.head(0)[:40])
        trickle(sockets[0], b"x")
        for sock in [*sockets, used]:
            answer = answer_on(sock)
            check_problem(answer, 408, "request_timeout")
            assert int(answer.headers["retry-after"]) >= 1
            assert sock.recv(1) == b""


@pytest.mark.parametrize("begun", [b"", b"\r\n"])
def test_a_connection_that_says_nothing_is_closed(served: Served, begun: bytes) -> None:
    """Proves: GUARD-4."""
    with served.connect() as sock:
        sock.sendall(begun)
        assert sock.recv(1) == b""


def test_an_endless_head_and_invalid_http_are_rejected(served: Served) -> None:
    """Proves: GUARD-4 (each with a problem document)."""
    with served.connect() as sock:
        sock.sendall(served.head(0)[:40] + b"\r\nX-Long: ")
        trickle(sock, b"x" * 20_000)
        check_problem(answer_on(sock), 431, "request_header_fields_too_large")
    for end in (b"", b"\r\n\r\n"):
        with served.connect() as sock:
            sock.sendall(served.head(0)[:40] + b"\r\nX-Long: " + b"x" * 70_000 + end)
            check_problem(answer_on(sock), 431, "request_header_fields_too_large")
    with served.connect() as sock:  # neither a long body nor the request after it is a long head
        head, body = served.head(100_000), BODY.ljust(100_000)
        sock.sendall(head[:40])
        time.sleep(0.3)
        sock.sendall(head[40:] + body + served.head(len(BODY)) + BODY)
        said = b""
        while said.count(b"HTTP/1.1 200 OK") < 2:
            part = sock.recv(65_536)
            assert part, said
            said += part
    with served.connect() as sock:
        sock.sendall(b"granary\r\n\r\n")
        check_problem(answer_on(sock), 400, "bad_request")
