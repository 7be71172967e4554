"""History and forgetting over HTTP: within the key's tenant, by its role; the service sweeps on its own."""

from __future__ import annotations

import json
import time

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

PAST = "2001-01-01T00:00:00Z"


@pytest.fixture
def served(tmp_path):
    keys = tmp_path / "keys.json"
    made = {(tenant, role): add_key(keys, tenant, role)[1] for tenant in ("acme", "other") for role in KeyRole}
    settings = Settings(store_path=str(tmp_path / "memory"), sweep_seconds=0.3)
    with running_service(config={"keys_file": keys}, settings=settings, embedder=WordHashEmbedder()) as found:
        found.folder, found.keys = tmp_path / "memory", made
        yield found


def note(record_id, text, **more):
    return {"id": record_id, "kind": "message", "text": text} | more


def test_history_and_forgetting_keep_to_role_and_tenant(served):
    """Proves: API-3, LIVE-7, STORE-3."""
    path = "/api/memory/records/a/1/history"
    with served.client(served.keys["acme", KeyRole.WRITE]) as client:
        for text in ("I moved to Oslo.", "I moved to Bergen."):
            client.post("/api/memory/records", json={"records": [note("a/1", text), note("b", "Thanks!")]})
        (version,) = client.get(path).json()["versions"]
        assert (version["number"], version["action"]) == (1, "replaced")
        assert (version["before"]["text"], version["after"]["text"]) == ("I moved to Oslo.", "I moved to Bergen.")
        assert client.get("/api/memory/records/b/history").json() == {"versions": []}
        assert client.get("/api/memory/records/none/history").status_code == 404
        assert client.post("/api/memory/forget", json={"content_types": ["message"]}).status_code == 403
    rule = {"rule": {"speech_acts": ["acknowledgement"]}}
    with served.client(served.keys["other", KeyRole.ADMIN]) as other:
        assert other.get(path).status_code == 404
        assert other.post("/api/memory/forget", json=rule).json()["records"] == 0
    with served.client(served.keys["acme", KeyRole.ADMIN]) as client:
        counted = client.post("/api/memory/forget", json={**rule, "dry_run": True}).json()
        assert counted == {"records": 1, "by_kind": {"message": 1}, "dry_run": True}
        assert client.get("/api/memory/records/b").status_code == 200
        assert client.post("/api/memory/forget", json=rule).json() == {**counted, "dry_run": False}
        assert client.get("/api/memory/records/b").status_code == 404
        assert client.get("/api/memory/records/a/1").status_code == 200
        for wrong in ({}, {"rule": {}}, {"rule": {"kinds": ["memo"]}}, {"tenant": "other", **rule}):
            assert client.post("/api/memory/forget", json=wrong).status_code == 422


def test_every_write_says_whose_key_it_was(served):
    """Proves: API-3 (single records, batches, bulk uploads, partial changes, and runs that are added or scored)."""
    run = {"id": "r", "messages": [{"role": "user", "content": "Book the ferry."}]}
    with served.client(served.keys["acme", KeyRole.WRITE]) as client:
        key_id = served.keys["acme", KeyRole.WRITE].split("_")[1]
        one = {"kind": "message", "text": "I live in Oslo."}
        client.put("/api/memory/records/a", json=one)
        client.put("/api/memory/records/a", json=one | {"text": "I live in Bergen."})
        client.post("/api/memory/records", json={"records": [note("a", "I live in Voss.")]})
        line = json.dumps(note("a", "I live in Hamar."))
        client.post("/api/memory/records/bulk", content=line, headers={"Content-Type": "application/x-ndjson"})
        client.patch("/api/memory/records/a", json={"text": "I live in Tromsø."})
        versions = client.get("/api/memory/records/a/history").json()["versions"]
        assert [one["after"]["text"].split()[-1] for one in versions] == ["Bergen.", "Voss.", "Hamar.", "Tromsø."]
        client.post("/api/trajectories", json=run, params={"score": "later"})
        client.post("/api/trajectories/r/score", params={"scorer": "rules"}).raise_for_status()
        more = run["messages"] + [{"role": "assistant", "content": "Done."}]
        client.put("/api/trajectories/r", json=run | {"messages": more}).raise_for_status()
        runs = client.get("/api/memory/records/r/history").json()["versions"]
    assert len(runs) == 2
    assert {one["actor"] for one in versions + runs} == {key_id}


def test_the_service_erases_what_has_expired(served):
    """Proves: LIVE-7."""
    with served.client(served.keys["acme", KeyRole.WRITE]) as client:
        client.post("/api/memory/records", json={"records": [note("a", "Gone.", expires_at=PAST), note("b", "Here.")]})
        assert client.get("/api/memory/records/a").status_code == 404
        for _ in range(100):
            with MemoryStore.open(served.folder, embedder=WordHashEmbedder(), read_only=True) as reader:
                left, count = reader.expired_ids(Scope(tenant="acme")), reader.count(Scope(tenant="acme"))
            if not left:
                break
            time.sleep(0.1)
        assert (left, count) == ([], 1)
