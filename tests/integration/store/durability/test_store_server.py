"""A store whose vectors are on a Chroma server, over a real one on loopback."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.chroma import chroma_clients, chroma_link
from recall_loop.memory.store.chroma.chroma_index import COLLECTION_NAME, ChromaError
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_settings
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.text.words.tokens import stems
from tests.chroma_server import ChromaProcess
from tests.embedders import WordHashEmbedder
from tests.lexical_rows import by_words
from tests.ports import free_port

QUERY = np.ones((1, 32), dtype=np.float32)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaProcess]:
    server = ChromaProcess(tmp_path_factory.mktemp("server"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def server(running: ChromaProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChromaProcess:
    monkeypatch.setattr(chroma_link, "RETRY_SECONDS", 0.0)
    return running


def turn(number: int, text: str = "plain") -> dict[str, object]:
    return {"id": f"m{number}", "kind": "message", "text": f"{text} words {number}", "session": "s", "position": number}


def opened(path: Path, url: str | ChromaServer | None = None, **options: object) -> MemoryStore:
    return MemoryStore.open(path, embedder=WordHashEmbedder(), url=url, **options)


def collections(server: ChromaProcess) -> set[str]:
    address = f"{server.url}/api/v2/tenants/default_tenant/databases/default_database/collections"
    with urlopen(address, timeout=10) as answer:
        return {collection["name"] for collection in json.load(answer)}


def healed(store: MemoryStore, count: int) -> None:
    report = store.maintenance.verify()
    assert report.sound, report.findings
    assert report.records == report.chroma_rows == count
    assert store.degraded_reason is None


def test_who_shares_a_store_has_the_same_server_and_key(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with opened(tmp_path, ChromaServer(server.url, api_key="first")) as one:
        for same in (None, server.url, ChromaServer(api_key="first")):
            with opened(tmp_path, same) as another:
                another.upsert([turn(1)])
                assert one.count() == 1
        for field, wanted in (("api_key", ChromaServer(api_key="second")), ("url", "http://127.0.0.1:9")):
            with pytest.raises(InvalidInputError) as refused:
                opened(tmp_path, wanted)
            assert refused.value.field == field and "second" not in str(refused.value)


def test_a_store_on_a_server_does_everything(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: STORE-2, STORE-4, SEARCH-1."""
    before = collections(server)
    with opened(tmp_path / "a", server.url) as one, opened(tmp_path / "b", server.url) as two:
        one.upsert(turn(n) for n in range(300))
        two.upsert([turn(1, "other")])
        one.delete(["m5"])
        healed(one, 299)
        healed(two, 1)
        assert not (tmp_path / "a" / "chroma").exists()
        with one._session.connection.searching() as chroma:
            assert chroma is not None and len(chroma.nearest(QUERY, 7)[0]) == 7
        view = one.view(Scope())
        assert len(view.nearest(QUERY, 5)[0]) == 5 and len(by_words(view, stems("plain words 17"), 3)) == 3
        own = {one.maintenance.info()["collection"], two.maintenance.info()["collection"]}
        assert len(own) == 2 and all(name.startswith(COLLECTION_NAME) for name in own)
        one.maintenance.rebuild()
        one.erase(Scope())
        one.maintenance.compact()
        healed(one, 0)
        # One collection a store, and one of its deletions; those that were replaced are gone from the server.
        names = [each.maintenance.info()["collection"] for each in (one, two)]
        assert collections(server) - before == {*names, f"{names[0]}-deleted"}
    # The store remembers where its vectors are; a reader sees what the writer adds.
    with opened(tmp_path / "b") as writer, opened(tmp_path / "b", read_only=True) as reader:
        assert reader.maintenance.info()["url"] == server.url
        writer.upsert([turn(2)])
        assert reader.count() == 2 and len(reader.view(Scope()).nearest(QUERY, 5)[0]) == 2
        with reader._session.connection.searching() as chroma:
            assert chroma is not None and chroma.count() == 2


def test_a_server_that_is_killed_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: SEARCH-9, STORE-4."""
    monkeypatch.setattr(chroma_link, "RETRY_SECONDS", 0.0)
    server = ChromaProcess(tmp_path / "server")
    server.start()
    try:
        with opened(tmp_path / "s", server.url) as store, opened(tmp_path / "s", read_only=True) as reader:
            store.upsert(turn(n) for n in range(20))
            with reader._session.connection.searching() as chroma:
                assert chroma is not None
            server.kill()
            with pytest.raises(StoreUnavailableError, match=r"not acknowledged|nothing was written"):
                store.upsert([turn(30)])
            for held in (store, reader):
                count = held.count()
                assert count in (20, 21) and len(by_words(held.view(Scope()), stems("plain"), 99)) == count
                assert len(held.view(Scope()).nearest(QUERY, 9)[0]) == 9
                with held._session.connection.searching() as chroma:
                    assert chroma is None or held is reader
            assert (store.degraded_reason or "") in ("Chroma can't be reached", "Chroma can't be written")
            assert "Error: " in (store.degraded_detail or "")
            assert store.maintenance.info()["degraded_reason"] == store.degraded_detail
            with pytest.raises(StoreUnavailableError, match="nothing was written"):
                store.delete(["m1"])
            server.start()
            with store._session.connection.searching() as chroma:
                assert chroma is not None
            store.upsert([turn(30)])
            healed(store, 21)
            with reader._session.connection.searching() as chroma:
                assert chroma is not None and chroma.count() == 21
            server.kill()
        # Opened while it is away: reads, and heals when it is back.
        with opened(tmp_path / "s") as store:
            assert store.count() == 21 and "reached" in (store.degraded_reason or "")
            assert any("reached" in finding for finding in verify_folder(tmp_path / "s").findings)
            server.start()
            store.upsert([turn(31)])
            healed(store, 22)
        # The server has lost everything: the sidecar fills it again.
        server.kill()
        shutil.rmtree(server.folder)
        server.start()
        with opened(tmp_path / "s") as store:
            healed(store, 22)
    finally:
        server.kill()


def test_a_lost_sidecar_or_folder_is_rebuilt_from_the_server(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: STORE-4."""
    path = tmp_path / "s"
    with opened(path, server.url) as store:
        store.upsert((turn(n) for n in range(30)), tenant="acme")
        before, collection = list(store.scan(Scope(tenant="acme"))), store.maintenance.info()["collection"]
    for file in path.glob("sidecar.sqlite3*"):
        file.unlink()
    with opened(path) as store:
        assert list(store.scan(Scope(tenant="acme"))) == before
        assert store.repairs and "missing" in store.repairs[0]
        healed(store, 30)
    (path / "sidecar.sqlite3").write_bytes(b"garbage" * 1000)
    with opened(path) as store:
        assert list(store.scan(Scope(tenant="acme"))) == before
        healed(store, 30)
    shutil.rmtree(path)
    with opened(path, ChromaServer(server.url, collection=collection)) as store:
        assert list(store.scan(Scope(tenant="acme"))) == before
        healed(store, 30)


def test_a_backup_never_touches_the_collection_of_its_original(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: OPS-8."""
    with opened(tmp_path / "s", server.url) as store:
        store.upsert(turn(n) for n in range(3))
        store.maintenance.backup(tmp_path / "copy")
        before = store.maintenance.info()["collection"]
        assert verify_folder(tmp_path / "copy").sound
        with opened(tmp_path / "copy", read_only=True) as reader:
            assert reader.count() == 3
        with opened(tmp_path / "copy", server.url) as copy:
            copy.delete(["m0"])
            healed(copy, 2)
            assert copy.maintenance.info()["collection"] != before
        healed(store, 3)


@pytest.mark.parametrize("lost", [False, True])
def test_a_copied_folder_never_touches_the_collection_of_its_original(
    server: ChromaProcess, tmp_path: Path, lost: bool
) -> None:
    """Also where the copy's sidecar is lost, and it knows of its vectors from the server alone. Proves: STORE-4."""
    with opened(tmp_path / "s", server.url) as store:
        store.upsert(turn(n) for n in range(9))
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    if lost:
        (tmp_path / "copy" / "sidecar.sqlite3").unlink()
    else:
        assert verify_folder(tmp_path / "copy").sound
        with opened(tmp_path / "copy", read_only=True) as reader, opened(tmp_path / "s") as store:
            store.delete(["m8"])
            assert len(reader.view(Scope()).nearest(QUERY, 20)[0]) == 9
            store.upsert([turn(8)])
    with opened(tmp_path / "copy", server.url) as copy:
        assert any("copied from another folder" in words for words in copy.repairs)
        copy.delete(["m0", "m1"])
        copy.upsert([turn(20)])
        healed(copy, 8)
        own = copy.maintenance.info()["collection"]
    with opened(tmp_path / "s") as store:
        assert not store.repairs and store.maintenance.info()["collection"] != own
        healed(store, 9)
        store.maintenance.rebuild()
    with opened(tmp_path / "copy") as copy:
        assert not copy.repairs and copy.maintenance.info()["collection"] == own
        healed(copy, 8)


def test_a_renamed_folder_keeps_its_collection(server: ChromaProcess, tmp_path: Path) -> None:
    """Also on a device that has another number since a restart. Proves: STORE-4."""
    with opened(tmp_path / "s", server.url) as store:
        store.upsert(turn(n) for n in range(3))
        before = store.maintenance.info()["collection"]
    (tmp_path / "s").rename(tmp_path / "renamed")
    with opened(tmp_path / "renamed") as store:
        assert not store.repairs and store.maintenance.info()["collection"] == before
    with closing(SqliteDatabase(tmp_path / "renamed" / "sidecar.sqlite3")) as database:
        device, others = database.meta()["folder"].split(" ", 1)
        database.set_meta({"folder": f"{int(device) + 1} {others}"})
    with opened(tmp_path / "renamed") as store:
        assert not store.repairs and store.maintenance.info()["collection"] == before
        healed(store, 3)


def test_another_server_is_refused_and_moving_is_possible(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with opened(tmp_path / "local") as store:
        store.upsert([turn(1), turn(2)])
    with pytest.raises(InvalidInputError, match="keeps its vectors in its own folder"):
        opened(tmp_path / "local", server.url)
    with opened(tmp_path / "local", server.url, move=True) as store:
        healed(store, 2)
        assert store.maintenance.info()["url"] == server.url
    with pytest.raises(InvalidInputError, match=r"to which .* belongs; to move it"):
        opened(tmp_path / "local", f"http://127.0.0.1:{free_port()}", read_only=True)
    with opened(tmp_path / "local") as store:
        healed(store, 2)


def test_compaction_removes_what_a_store_on_a_server_once_kept_in_its_folder(
    server: ChromaProcess, tmp_path: Path
) -> None:
    """Proves: STORE-6."""
    with opened(tmp_path) as store:
        store.upsert([turn(1), {**turn(2), "text": "Zanzibar"}])
    with opened(tmp_path, server.url, move=True) as store:
        store.delete(["m2"])
        assert b"Zanzibar" in (tmp_path / "chroma" / "chroma.sqlite3").read_bytes()
        store.maintenance.compact()
        healed(store, 1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["server.json", "sidecar.sqlite3", "writer.lock"]
    with opened(tmp_path) as store:
        healed(store, 1)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://h", "http://h:0", "http://h:x", "http://u@h", "http://h/p"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Proves: STORE-4."""
    with pytest.raises(InvalidInputError, match=r"url: got .*http://host:port"):
        ChromaServer(url)


def test_settings_name_the_server_and_the_key_is_written_nowhere(server: ChromaProcess, tmp_path: Path) -> None:
    """Proves: STORE-4."""
    assert server_from_settings(Settings()) is None
    settings = Settings(chroma_url=server.url, chroma_api_key="secret-key-of-cloud")
    place = server_from_settings(settings)
    assert place == ChromaServer(server.url, api_key="secret-key-of-cloud")
    assert "secret-key" not in repr(place) + repr(settings)
    with opened(tmp_path / "s", place) as store:
        store.upsert([turn(1)])
        healed(store, 1)
        assert "secret-key" not in str(store.maintenance.info())
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"secret-key" in file.read_bytes()]
    assert {"sidecar.sqlite3", "server.json"} <= {file.name for file in files}


def test_the_command_line_takes_a_url(
    server: ChromaProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: STORE-2, STORE-4."""
    source, place = tmp_path / "in.jsonl", str(tmp_path / "s")
    source.write_text('{"id": "n1", "kind": "archival", "text": "The ferry leaves at nine."}\n', encoding="utf-8")
    assert main(["ingest", str(source), "--store", place, "--url", server.url]) == 0
    assert main(["store", "verify", "--store", place]) == 0
    assert main(["store", "rebuild", "--store", place, "--url", server.url]) == 0
    assert main(["store", "info", "--store", place, "--url", server.url]) == 0
    assert server.url in capsys.readouterr().out
    assert main(["store", "info", "--store", place, "--url", "http://127.0.0.1:1"]) == 2
    assert "to move it" in capsys.readouterr().err
    assert main(["store", "rebuild", "--store", place, "--move"]) == 2


@pytest.mark.parametrize("compacted", [False, True])
def test_an_older_sidecar_takes_over_what_the_server_has(
    server: ChromaProcess, tmp_path: Path, compacted: bool
) -> None:
    """Proves: GUARD-1. Also where the collection was replaced since: the folder names the new one."""
    with opened(tmp_path / "a", server.url) as store:
        store.upsert(turn(n) for n in range(20))
    shutil.copy(tmp_path / "a" / "sidecar.sqlite3", tmp_path / "older.sqlite3")
    with opened(tmp_path / "a", server.url) as store:
        store.upsert([turn(3, "changed"), turn(30)])
        store.delete(["m7"])
        if compacted:
            store.maintenance.compact()
        known = {record.id: record.text for record in store.scan()}
    shutil.copy(tmp_path / "older.sqlite3", tmp_path / "a" / "sidecar.sqlite3")
    with opened(tmp_path / "a", server.url) as store:
        assert {record.id: record.text for record in store.scan()} == known
        assert store.maintenance.verify().sound and "taken over from Chroma" in store.repairs[0]


def test_a_server_that_hangs_is_told_of_within_seconds(server: ChromaProcess, tmp_path: Path) -> None:
    """It takes connections and answers none: whoever asks how the store is needn't wait for it. Proves: SEARCH-9."""
    with opened(tmp_path / "a", server.url) as store:
        store.upsert([turn(1)])
        assert store.maintenance.probe() is None
        with server.stopped():
            began = time.monotonic()
            assert "can't be reached" in str(store.maintenance.probe())
            assert time.monotonic() - began < 20
        until_healed = time.monotonic() + 30
        while store.maintenance.probe() is not None:
            assert time.monotonic() < until_healed
            time.sleep(0.5)


def test_a_search_waits_seconds_for_a_server_that_hangs(
    server: ChromaProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes have a minute; somebody waits for a search. Proves: SEARCH-9."""
    monkeypatch.setattr(chroma_clients, "_SEARCH_SECONDS", 0.5)
    with opened(tmp_path / "a", server.url) as store:
        store.upsert([turn(1)])
        chroma = store._session.connection.chroma
        assert len(chroma.nearest(QUERY, 1)[0]) == 1
        with server.stopped():
            began = time.monotonic()
            with pytest.raises(ChromaError, match="can't be searched"):
                chroma.nearest(QUERY, 1)
            assert time.monotonic() - began < 10
        assert len(chroma.nearest(QUERY, 1)[0]) == 1
