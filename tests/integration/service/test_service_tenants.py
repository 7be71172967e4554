"""Twenty tenants in one service, writing and asking at once: nobody is ever told what isn't his (STORE-3, TRAJ-8)."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from recall_loop.graph.batch.batch_run import run_batch
from recall_loop.service.access.api_keys import KeyRole, add_key, revoke_key, rotate_key
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

pytestmark = pytest.mark.slow

TENANTS = [f"tenant-{at:02}" for at in range(20)]
MARKS = {tenant: f"zq{at:02}mark" for at, tenant in enumerate(TENANTS)}
THREADS, STEPS = 5, 60
TOPICS = ("ferry", "harbour", "timetable", "coffee", "windows")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tenants")
    keys = folder / "keys.json"
    made = {tenant: add_key(keys, tenant, KeyRole.ADMIN)[1] for tenant in TENANTS}
    config = {"keys_file": keys, "rate_burst": 100_000, "rate_per_minute": 1_000_000}
    with running_service(
        config=config, settings=Settings(store_path=str(folder / "memory")), embedder=WordHashEmbedder()
    ) as found:
        found.keys, found.keys_file = made, keys
        yield found


def foreign(tenant, text):
    """Return the marks of other tenants that a text holds."""
    return [mark for other, mark in MARKS.items() if other != tenant and mark in text]


class Guest:
    """One tenant's requests; every answer is looked through for what belongs to others."""

    def __init__(self, served, tenant, draw):
        self.client = served.client(served.keys[tenant])
        self.tenant, self.mark, self.draw = tenant, MARKS[tenant], draw
        self.other = draw.choice([other for other in TENANTS if other != tenant])

    def seen(self, response, statuses=(200, 201, 204), drop=("query", "corrected")):
        assert response.status_code in statuses, response.text
        found = response.json() if response.content else {}
        kept = {name: value for name, value in found.items() if name not in drop}
        assert foreign(self.tenant, json.dumps(kept)) == []
        return kept

    def words(self):
        """Return a question; now and then it names what only another tenant has."""
        asked = self.draw.choice([self.mark, MARKS[self.other], ""])
        return f"{self.draw.choice(TOPICS)} {asked}".strip()

    def body(self, at):
        kind = self.draw.choice(["fact", "message", "archival"])
        text = f"{self.draw.choice(TOPICS)} {self.mark} {self.draw.choice(TOPICS)} {at}"
        # Everybody uses the same names, so that only the tenant tells them apart.
        whose = {"agent_id": "a", "group_id": "g", "user_id": "u", "conversation_id": "c", "session": "s"}
        return {"kind": kind, "text": text, "author": self.mark, "tags": [self.mark], **whose}

    def write(self, at):
        records = [{"id": f"r-{self.draw.randrange(12)}", **self.body(at)}, {"id": self.mark, **self.body(at)}]
        self.seen(self.client.post("/api/memory/records", json={"records": records}))

    def bulk(self, at):
        line = json.dumps({"id": f"r-{at % 12}", **self.body(at)})
        found = self.client.post(
            "/api/memory/records/bulk", content=line.encode(), headers={"Content-Type": "application/x-ndjson"}
        )
        assert found.status_code == 200
        assert foreign(self.tenant, found.text) == []

    def search(self, at):
        scope = self.draw.choice([{}, {"agent_id": "a", "scope": "constellation"}, {"user_id": "u"}])
        asked = {"query": self.words(), "mode": self.draw.choice(["auto", "fts", "vector"]), "limit": 50, **scope}
        fuzzy = {} if asked["mode"] == "vector" else {"fuzzy": self.draw.choice([0, 1, 2])}
        found = self.seen(self.client.post("/api/memory/search", json={**asked, **fuzzy}))
        assert found["scope"]["tenant"] == self.tenant

    def retrieve(self, at):
        asked = {"messages": [{"role": "user", "content": f"What about {self.draw.choice(TOPICS)}?"}]}
        self.seen(self.client.post("/api/memory/retrieve", json=asked))

    def read(self, at):
        self.seen(self.client.get(f"/api/memory/records/r-{self.draw.randrange(12)}"), (200, 404))
        assert self.client.get(f"/api/memory/records/{MARKS[self.other]}").status_code == 404

    def page(self, at):
        self.seen(self.client.get("/api/memory/records", params={"limit": 5, "agent_id": "a"}))
        tagged = self.client.get("/api/memory/records", params={"tags": MARKS[self.other]}).json()
        assert tagged == {"records": []}

    def run(self, at):
        run = {"id": "t-1", "messages": [{"role": "user", "content": f"{self.mark} ferry {at}"}], "agent_id": "a"}
        self.seen(self.client.post("/api/trajectories", json=run))
        self.seen(self.client.get("/api/trajectories/t-1"), (200, 404))
        self.seen(self.client.get("/api/trajectories"))

    def runs(self, at):
        asked = {"query": self.words(), "min_similarity": 0, "include_contrasts": self.draw.random() < 0.5}
        self.seen(self.client.post("/api/trajectories/search", json=asked))
        assert self.client.get(f"/api/trajectories/{MARKS[self.other]}").status_code == 404

    def delete(self, at):
        self.seen(self.client.delete(f"/api/memory/records/r-{self.draw.randrange(12)}"), (204, 404))
        missing = self.client.request("DELETE", "/api/memory/records", json={"ids": [MARKS[self.other]]}).json()
        assert missing == {"deleted": 0, "missing": 1}
        self.seen(self.client.delete("/api/trajectories/t-1"), (204, 404))


STEPS_OF_A_GUEST = ("write", "write", "bulk", "search", "search", "retrieve", "read", "page", "run", "runs", "delete")


def visit(served, seed):
    """Do steps of random tenants in a random order; return what was done."""
    draw = random.Random(seed)
    guests = {tenant: Guest(served, tenant, draw) for tenant in TENANTS}
    done = []
    for at in range(STEPS):
        tenant, step = draw.choice(TENANTS), draw.choice(STEPS_OF_A_GUEST)
        getattr(guests[tenant], step)(at)
        done.append(step)
    for guest in guests.values():
        guest.client.close()
    return done


def test_no_tenant_is_told_what_another_has_over_http_and_in_batches(served, tmp_path):
    """Proves: STORE-3, TRAJ-8."""
    with ThreadPoolExecutor(THREADS) as pool:
        done = [step for steps in pool.map(lambda seed: visit(served, seed), range(THREADS)) for step in steps]
    assert set(done) == set(STEPS_OF_A_GUEST)

    requests, output = tmp_path / "requests.jsonl", tmp_path / "results.jsonl"
    asked = [(f"{tenant}/{topic}", tenant, topic) for topic in TOPICS[:2] for tenant in TENANTS]
    lines = [
        {"id": name, "tenant": tenant, "messages": [{"content": f"What about the {topic}?"}]}
        for name, tenant, topic in asked
    ]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    summary = run_batch(requests, output, store=served.service.store, concurrency=8)
    assert (summary.succeeded, summary.failed) == (len(lines), 0)
    facts = 0
    for line in output.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        assert foreign(result["id"].split("/")[0], line) == []
        facts += len(result["result"]["facts"])
    assert facts


def test_nobody_gets_in_with_a_key_that_isn_t_his(served):
    """Proves: OPS-1, STORE-3."""
    file = served.keys_file
    good = served.keys[TENANTS[0]]
    gone, revoked = add_key(file, TENANTS[0], KeyRole.ADMIN)
    revoke_key(file, gone.id)
    _, expired = add_key(file, TENANTS[0], KeyRole.ADMIN, datetime.now(UTC) - timedelta(seconds=1))
    turned, old = add_key(file, TENANTS[0], KeyRole.ADMIN)
    _, new = rotate_key(file, turned.id)
    mark, key_id, secret = good.split("_", 2)
    theirs = served.keys[TENANTS[1]].split("_", 2)
    forged = (
        *(f"{mark}_{key_id}_{secret[:-1]}", f"{mark}_{key_id}_{theirs[2]}", f"{mark}_{theirs[1]}_{secret}"),
        *(f"{mark}_{key_id}_", f"xx_{key_id}_{secret}", "null", TENANTS[0], "rl_" + "0" * 12 + "_" + secret),
    )
    paths = [
        ("GET", "/api/memory/records"),
        ("POST", "/api/memory/search"),
        ("POST", "/api/memory/retrieve"),
        ("POST", "/api/memory/erasure"),
        ("POST", "/api/memory/records/bulk"),
        ("GET", "/api/trajectories/t-1"),
        ("GET", "/metrics"),
    ]
    with served.client() as client:
        for method, path in paths:
            for key in (None, revoked, expired, old, *forged):
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                refused = client.request(method, path, headers=headers)
                assert refused.status_code == 401, (key, method, path)
                assert refused.headers["www-authenticate"].startswith("Bearer")
        for headers in (
            {"Authorization": f"Basic {good}"},
            {"Authorization": "Bearer"},
            {"X-API-Key": good},
            {"Cookie": f"key={good}"},
        ):
            assert client.get("/api/memory/records", headers=headers).status_code == 401
        for key in (good, new):
            welcome = client.get("/api/memory/records", headers={"Authorization": f"Bearer {key}"})
            assert welcome.status_code == 200
        named = {"messages": [{"content": "ferry"}], "tenant": TENANTS[1]}
        headers = {"Authorization": f"Bearer {good}"}
        assert client.post("/api/memory/retrieve", json=named, headers=headers).status_code in (403, 422)
