"""Erasure over HTTP: of a user, an agent, a conversation and a tenant, down to the bytes on the disk (STORE-6)."""

from __future__ import annotations

import threading

import pytest

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

WORDS = {
    "user": "quokkaberry",
    "agent": "zanzibarite",
    "conversation": "flumphwise",
    "tenant": "grobbletin",
    "kept": "marmalade",
}


@pytest.fixture
def served(tmp_path):
    keys, folder = tmp_path / "keys.json", tmp_path / "memory"
    made = {(tenant, role): add_key(keys, tenant, role)[1] for tenant in ("acme", "other") for role in KeyRole}
    settings = Settings(store_path=str(folder))
    with running_service(config={"keys_file": keys}, settings=settings, embedder=WordHashEmbedder()) as found:
        found.folder, found.keys = folder, made
        yield found


def on_disk(folder, word):
    """Return the files that hold a word."""
    return [file.name for file in folder.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]


def erase(client, of, name, **more):
    return client.post("/api/memory/erasure", json={"of": of, "id": name, **more})


def fill(served, tenant):
    with served.client(served.keys[tenant, KeyRole.WRITE]) as client:
        for of, word in WORDS.items():
            whose = {f"{of}_id": f"{of}-1"} if of in ("user", "agent", "conversation") else {}
            records = [
                {"id": f"{of}-{at}", "kind": "message", "text": f"Turn {at} says {word}.", "session": of, **whose}
                for at in range(3)
            ]
            assert client.post("/api/memory/records", json={"records": records}).json()["created"] == 3
            assert client.post("/api/memory/search", json={"query": word}).json()["hits"]


def test_what_is_erased_is_in_no_index_and_in_no_file(served):
    """Proves: STORE-6, STORE-3."""
    fill(served, "acme")
    with served.client(served.keys["other", KeyRole.ADMIN]) as other:
        other.put("/api/memory/records/o-1", json={"kind": "fact", "text": "Ours is pomegranate.", "user_id": "user-1"})
        assert erase(other, "user", "user-2").json()["erased"] == 0
    with served.client(served.keys["acme", KeyRole.ADMIN]) as client:
        for of in ("user", "agent"):
            done = erase(client, of, f"{of}-1").json()
            assert (done["erased"], done["compacted"], "compact" in done["on_disk"]) == (3, False, True)
            found = client.post("/api/memory/search", json={"query": WORDS[of], "mode": "fts"}).json()
            assert found["hits"] == []
        assert on_disk(served.folder, WORDS["conversation"])
        done = erase(client, "conversation", "conversation-1", compact=True).json()
        assert (done["erased"], done["compacted"]) == (3, True)
        for of in ("user", "agent", "conversation"):
            assert on_disk(served.folder, WORDS[of]) == []
        assert on_disk(served.folder, WORDS["kept"])
        assert client.post("/api/memory/search", json={"query": WORDS["kept"]}).json()["hits"]
        assert erase(client, "tenant", "other").json()["field"] == "id"
        done = erase(client, "tenant", "acme", compact=True).json()
        assert (done["erased"], done["compacted"]) == (6, True)
        assert client.get("/api/memory/records").json() == {"records": []}
        assert all(on_disk(served.folder, word) == [] for word in WORDS.values())
    with served.client(served.keys["other", KeyRole.READ]) as other:
        assert other.post("/api/memory/search", json={"query": "pomegranate"}).json()["hits"]


def test_only_an_admin_s_key_erases(served):
    """Proves: STORE-6, OPS-1."""
    for role, status in ((KeyRole.READ, 403), (KeyRole.WRITE, 403), (KeyRole.METRICS, 403), (KeyRole.ADMIN, 200)):
        with served.client(served.keys["acme", role]) as client:
            assert erase(client, "user", "user-1").status_code == status
    with served.client(served.keys["acme", KeyRole.READ]) as client:
        assert client.put("/api/memory/records/f", json={"kind": "fact", "text": "x"}).status_code == 403
        assert client.request("DELETE", "/api/memory/records", json={"ids": ["f"]}).status_code == 403
        assert client.get("/api/memory/records").status_code == 200


def test_others_read_while_a_tenant_is_erased_and_compacted(served):
    """Readers hold old pages for moments only, and are refused nothing. Proves: STORE-6."""
    fill(served, "acme")
    fill(served, "other")
    ended, failed, reads = threading.Event(), [], []

    def read():
        with served.client(served.keys["other", KeyRole.READ]) as client:
            while not ended.is_set():
                found = client.post("/api/memory/search", json={"query": WORDS["kept"]})
                reads.append(found.status_code)
                failed.extend([] if found.status_code == 200 and found.json()["hits"] else [found.text])

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    with served.client(served.keys["acme", KeyRole.ADMIN]) as client:
        done = erase(client, "tenant", "acme", compact=True).json()
    ended.set()
    for reader in readers:
        reader.join()
    assert done["erased"] == 15
    assert (failed, bool(reads)) == ([], True)
    if not done["compacted"]:
        with served.client(served.keys["acme", KeyRole.ADMIN]) as client:
            assert erase(client, "tenant", "acme", compact=True).json()["compacted"]
