"""API keys: whose memory a request reaches, and who is let in at all (OPS-1, STORE-3)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import (
    KeyRing,
    KeyRole,
    KeysUnreadableError,
    add_key,
    read_keys,
    revoke_key,
    rotate_key,
)
from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.service.core.rate_limits import RateLimiter
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import ServiceThread, running_service
from tests.waiting import wait_until

PATH = "/api/memory/retrieve"
TENANTS = [f"tenant-{number}" for number in range(20)]
QUESTION = {"messages": [{"content": "Who owns the granary?"}]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def plain(keys: Path) -> dict[str, str]:
    """A key for each tenant."""
    return {tenant: add_key(keys, tenant, KeyRole.WRITE)[1] for tenant in TENANTS}


@pytest.fixture(scope="module")
def served(keys: Path, plain: dict[str, str]) -> Iterator[ServiceThread]:
    with running_service(settings=Settings(), embedder=WordHashEmbedder(), config={"keys_file": keys}) as service:
        for tenant in TENANTS:
            records = [
                {"id": f"{tenant}-{at}", "kind": "fact", "text": f"The granary {at} belongs to {tenant}."}
                for at in range(3)
            ]
            service.service.store.upsert(records, tenant=tenant)
        yield service


def ask(served: ServiceThread, key: str | None, **more: Any) -> httpx.Response:
    with served.client(key) as client:
        return client.post(PATH, json=QUESTION | more)


def test_twenty_tenants_at_once_see_their_own(served: ServiceThread, plain: dict[str, str]) -> None:
    """Proves: STORE-3, OPS-1 (random interleaving, no foreign id ever)."""
    asked = TENANTS * 2
    random.Random(7).shuffle(asked)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda tenant: ask(served, plain[tenant]), asked))
    for tenant, answer in zip(asked, answers, strict=True):
        ids = {fact["id"] for fact in answer.json()["facts"]}
        assert ids
        assert all(found.startswith(f"{tenant}-") for found in ids)


@pytest.mark.parametrize("tenant", ["tenant-1", "default", "no-such"])
def test_another_tenant_cannot_be_named(served: ServiceThread, plain: dict[str, str], tenant: str) -> None:
    """Proves: STORE-3."""
    answer = ask(served, plain["tenant-0"], tenant=tenant)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:recall-loop:problem:foreign_tenant")


def test_without_a_valid_key_nobody_is_let_in(served: ServiceThread, plain: dict[str, str], keys: Path) -> None:
    """Proves: OPS-1 (missing, forged, another scheme, a right id with a wrong secret, half a key)."""
    good = plain["tenant-0"]
    key_id = good.split("_")[1]
    forged = [
        "rl",
        "rl__",
        f"rl_{key_id}_",
        f"rl_{key_id}_{plain['tenant-1'].split('_', 2)[2]}",
        good[:-1],
        good + "x",
        good.upper(),
        read_keys(keys)[0].sha256,
        "rl_" + "0" * 12 + "_" + good.split("_", 2)[2],
        "ключ",
    ]
    with served.client() as client:
        headers = [{}, {"Authorization": good}, {"Authorization": f"Basic {good}"}, {"X-Api-Key": good}]
        headers += [{"Authorization": f"Bearer {key}".encode()} for key in forged]  # type: ignore[dict-item]
        for given in headers:
            for path in (PATH, f"{PATH}/stream", "/metrics", "/api/nothing"):
                answer = client.post(path, json=QUESTION, headers=given)
                assert answer.status_code == 401, (path, given)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert answer.headers["content-type"] == "application/problem+json"
        for path in ("/health", "/ready", "/openapi.json", "/", "/page/app.js"):
            assert client.get(path).status_code == 200


def test_changes_are_seen_at_once(served: ServiceThread, keys: Path) -> None:
    """Proves: OPS-1 (a new key, rotation with and without grace, revocation, expiry)."""
    first, old = add_key(keys, "tenant-3", KeyRole.READ)
    assert ask(served, old).status_code == 200
    second, new = rotate_key(keys, first.id, datetime.now(UTC) + timedelta(hours=1))
    assert (second.tenant, second.role) == (first.tenant, first.role)
    assert [ask(served, key).status_code for key in (old, new)] == [200, 200]
    revoke_key(keys, first.id)
    assert [ask(served, key).status_code for key in (old, new)] == [401, 200]
    third, newest = rotate_key(keys, second.id)
    assert [ask(served, key).status_code for key in (new, newest)] == [401, 200]
    revoke_key(keys, third.id)
    assert ask(served, newest).status_code == 401
    _, gone = add_key(keys, "tenant-3", KeyRole.READ, datetime.now(UTC) - timedelta(seconds=1))
    assert ask(served, gone).status_code == 401
    with pytest.raises(InvalidInputError, match="active key; this one is revoked"):
        rotate_key(keys, first.id)
    with pytest.raises(InvalidInputError, match="keys list"):
        revoke_key(keys, "0" * 12)


def test_a_key_for_figures_reads_nothing_else(served: ServiceThread, keys: Path, plain: dict[str, str]) -> None:
    """Proves: OPS-1."""
    _, key = add_key(keys, "operator", KeyRole.METRICS)
    with served.client(key) as client:
        assert "recall_loop_http_requests_total" in client.get("/metrics").text
        assert client.post(PATH, json=QUESTION).status_code == 403
    with served.client(plain["tenant-0"]) as client:
        assert client.get("/metrics").status_code == 403


def test_keys_that_cannot_be_read_let_nobody_in(
    served: ServiceThread, keys: Path, plain: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: OPS-1 (fails closed, says so, recovers)."""
    whole = keys.read_bytes()
    keys.write_bytes(whole[:-20])
    try:
        answer = ask(served, plain["tenant-0"])
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:recall-loop:problem:keys_unreadable")
        assert f"request {answer.json()['request_id']} failed: KeysUnreadableError: {keys}: not a file" in caplog.text
        with served.client() as client:
            wait_until(lambda: client.get("/ready").status_code == 503)
    finally:
        keys.write_bytes(whole)
    assert ask(served, plain["tenant-0"]).status_code == 200


def test_the_file_holds_hashes_only(keys: Path, plain: dict[str, str]) -> None:
    """Proves: OPS-1."""
    written = keys.read_text(encoding="utf-8")
    assert not any(key.split("_", 2)[2] in written for key in plain.values())
    assert keys.stat().st_mode & 0o077 == 0
    assert len({key.split("_", 2)[2] for key in plain.values()}) == len(TENANTS)
    assert all(len(key.split("_", 2)[2]) == 43 for key in plain.values())  # 256 bits


# Without keys


@pytest.fixture(scope="module")
def open_service() -> Iterator[ServiceThread]:
    config = {"allowed_hosts": ("memory.test",)}
    with running_service(settings=Settings(), embedder=WordHashEmbedder(), config=config) as service:
        yield service


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "127.0.0.1:8321"}, 200),
        ({"Host": "[::1]:8321"}, 200),
        ({"Host": "memory.test:80"}, 200),
        ({"Host": "rebound.example:8321"}, 403),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
        ({"Host": "10.0.0.7"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost:80@rebound.example"}, 400),
        ({"Host": "user@localhost"}, 400),
        ({"Host": "localhost:8321", "Origin": "http://localhost:8321"}, 200),
        ({"Host": "memory.test", "Origin": "https://memory.test"}, 200),
        ({"Host": "localhost:8321", "Origin": "http://localhost:3000"}, 403),
        ({"Host": "localhost:8321", "Origin": "http://localhost"}, 403),
        ({"Host": "localhost:8321", "Origin": "http://user@localhost:8321"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://rebound.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_without_keys_only_this_machine_is_answered(
    open_service: ServiceThread, headers: dict[str, str], status: int
) -> None:
    """Proves: OPS-1, GUARD-7 (a name that was pointed at loopback, and pages of other sites or ports, are refused)."""
    with open_service.client() as client:
        assert client.post(PATH, json=QUESTION, headers=headers).status_code == status


@pytest.mark.parametrize(
    "twice",
    [
        [("Host", "localhost"), ("Host", "rebound.example")],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
        [("Origin", "http://localhost"), ("Origin", "https://rebound.example")],
    ],
)
@pytest.mark.parametrize("path", [PATH, "/health"])
def test_headers_that_say_who_and_where_come_once(
    open_service: ServiceThread, path: str, twice: list[tuple[str, str]]
) -> None:
    """Proves: GUARD-7 (a proxy and the service could otherwise each believe another one)."""
    connection = HTTPConnection(open_service.url.removeprefix("http://"), timeout=60)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in twice:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert json.load(answer)["type"] == "urn:recall-loop:problem:duplicate_header"
    connection.close()


def test_a_second_credential_is_refused(served: ServiceThread, plain: dict[str, str]) -> None:
    """Proves: GUARD-7 (also where both are valid, and a host with a user)."""
    first, second = (("Authorization", f"Bearer {plain[tenant]}") for tenant in TENANTS[:2])
    with served.client() as client:
        for headers, status in (
            ([first, second], 400),
            ([first, ("Host", "memory_proxy:80@rebound.example")], 400),
            ([first, ("Host", "memory_proxy:80")], 200),
        ):
            assert client.post(PATH, json=QUESTION, headers=headers).status_code == status


async def test_without_keys_another_machine_is_refused() -> None:
    """Proves: OPS-1 (also where a server listens elsewhere than the settings say)."""
    app = create_app(ServiceConfig(), settings=Settings(), embedder=WordHashEmbedder())
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, client=("10.0.0.9", 4000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.post(PATH, json=QUESTION)).status_code == 403
            ready = await client.get("/ready")
    assert ready.json()["warnings"] == []  # they are for whoever sits at the machine


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_without_keys_no_other_address_is_listened_on(host: str) -> None:
    """Proves: OPS-1."""
    with pytest.raises(InvalidInputError, match="unless API keys are in use"):
        create_app(ServiceConfig(host=host), settings=Settings())


# The command


def test_the_command_makes_lists_rotates_and_revokes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-1."""
    file = str(tmp_path / "keys.json")
    assert main(["keys", "add", "--tenant", "acme", "--role", "read", "--expires", "90d", "--keys", file]) == 0
    plain = capsys.readouterr().out.strip()
    ring = KeyRing(Path(file))
    key = ring.find(plain)
    assert key is not None
    assert (key.tenant, key.role) == ("acme", KeyRole.READ)
    assert key.expires_at is not None
    assert timedelta(days=89) < key.expires_at - datetime.now(UTC) < timedelta(days=91)
    assert main(["keys", "rotate", key.id, "--grace", "1h", "--keys", file]) == 0
    newer = capsys.readouterr().out.strip()
    assert ring.find(plain)
    assert ring.find(newer)
    assert main(["keys", "revoke", key.id, "--keys", file]) == 0
    assert ring.find(plain) is None
    capsys.readouterr()
    assert main(["keys", "list", "--json", "--keys", file]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["tenant"] for one in listed] == ["acme", "acme"]
    assert not any("sha256" in one for one in listed)
    assert main(["keys", "list", "--keys", file]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["revoked", "active"]


def test_a_key_in_its_grace_period_shows_its_end_and_is_not_rotated_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: OPS-1 (a second rotation would prolong the old key and make another one)."""
    file = tmp_path / "keys.json"
    plain = add_key(file, "acme", KeyRole.READ)[0]
    ends = add_key(file, "acme", KeyRole.READ, datetime.now(UTC) + timedelta(hours=1))[0]
    assert main(["keys", "rotate", plain.id, "--grace", "1d", "--keys", str(file)]) == 0
    assert main(["keys", "rotate", ends.id, "--grace", "1d", "--keys", str(file)]) == 0
    before = read_keys(file)
    assert before[0].revoked_at is not None
    assert ends.expires_at is not None
    capsys.readouterr()
    assert main(["keys", "list", "--keys", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{plain.id}  active  read" in lines[0]
    assert f"expires {before[0].revoked_at:%Y-%m-%d %H:%M}  " in lines[0]
    assert f"expires {ends.expires_at:%Y-%m-%d %H:%M}  " in lines[1]  # it ends before its grace does
    for grace in ([], ["--grace", "2d"]):
        assert main(["keys", "rotate", plain.id, *grace, "--keys", str(file)]) == 2
        said = capsys.readouterr()
        assert f"works until {before[0].revoked_at:%Y-%m-%d %H:%M} UTC" in said.err
        assert not said.out
    assert read_keys(file) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_key_that_cannot_be_printed_changes_nothing(tmp_path: Path) -> None:
    """Proves: OPS-1 (nobody would have the new key, and the old one would be gone)."""
    file = tmp_path / "keys.json"
    key, _ = add_key(file, "acme", KeyRole.READ)
    before = file.read_bytes()
    for words in (["rotate", key.id], ["add", "--tenant", "acme"]):
        command = [sys.executable, "-m", "recall_loop.cli", "keys", *words, "--keys", str(file)]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "recall-loop: error: No space left on device\n")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["keys", "list"], "RECALL_LOOP_SERVICE_KEYS_FILE"),
        (["keys", "list", "--keys", "absent.json"], "can't be read"),
        (["keys", "list", "--keys", "bad.json"], "not a file of keys"),
        (["keys", "add", "--tenant", "", "--keys", "k.json"], "tenant"),
        (["keys", "add", "--tenant", "a", "--expires", "2001-01-01", "--keys", "k.json"], "a time in the future"),
        (["keys", "add", "--tenant", "a", "--expires", "soon", "--keys", "k.json"], "a span such as"),
        (["keys", "revoke", "nothing", "--keys", "k.json"], "keys list"),
        (["serve", "--store", "s", "--host", "0.0.0.0"], "API keys"),
        (["serve", "--store", "s", "--workers", "2"], "Chroma server"),
        (
            ["serve", "--store", "s", "--chroma-url", "http://127.0.0.1:9", "--workers", "2", "--read-only"],
            "1 with --read-only",
        ),
        (["serve", "--store", "s", "--keys", "absent.json"], "can't be read"),
        (["serve", "--store", "absent", "--read-only"], "no store there"),
        (["serve"], "--store"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: OPS-1."""
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('{"keys": [{"id": "x"}]}', encoding="utf-8")
    assert main(words) == 2
    complaint = capsys.readouterr().err.strip().splitlines()
    assert said in complaint[-1]
    assert complaint[-1].startswith("recall-loop: error: ")


def test_serve_says_what_it_waits_for_before_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A first start loads for up to 20 seconds. Proves: OPS-1."""
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--store", "absent", "--read-only"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "recall-loop: opening absent and loading the embedder"


def test_a_bad_file_is_never_half_read(tmp_path: Path) -> None:
    """Proves: OPS-1."""
    file = tmp_path / "keys.json"
    add_key(file, "a", KeyRole.READ)
    ring = KeyRing(file)
    file.write_text("{}garbage", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(KeysUnreadableError):
            ring.refresh()


def test_the_rate_is_that_of_all_workers(tmp_path: Path) -> None:
    """Proves: OPS-1 (two processes' limits over one file)."""
    limits = [RateLimiter(60, 3, tmp_path / "rates") for _ in range(2)]
    waits = [limits[at % 2].take("key", 1000.0) for at in range(5)]
    assert waits == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert limits[0].take("another", 1000.0) == 0.0
    assert limits[1].take("key", 1001.0) == 0.0
    assert limits[1].take("key", 1001.0) == pytest.approx(1.0)
    for limit in limits:
        limit.close()


def test_an_overview_says_what_the_caller_may_do(tmp_path: Path, keys: Path, served: ServiceThread) -> None:
    """A page or a client offers what will be allowed. Proves: PAGE-1, OPS-1."""
    reads = add_key(keys, TENANTS[1], KeyRole.READ)[1]

    def caller(service: ServiceThread, key: str | None) -> dict[str, Any]:
        with service.client(key) as client:
            said: dict[str, Any] = client.get("/api/memory/overview").json()["caller"]
        return said

    assert caller(served, reads) == {"tenant": TENANTS[1], "role": "read", "read_only": False}
    MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()).close()
    options: dict[str, Any] = {"settings": Settings(store_path=str(tmp_path / "store")), "embedder": WordHashEmbedder()}
    with running_service(**options, config={"read_only": True}) as alone:
        assert caller(alone, None) == {"tenant": "default", "role": "admin", "read_only": True}
