"""One side older, damaged or another store's: nothing acknowledged is lost, and nothing erased comes back (GUARD-1)."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError, StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked, run_forked_file

ALL = Scope()


def turn(number: int, text: str = "text") -> dict[str, Any]:
    return {
        "id": f"m{number}", "kind": "message", "text": f"{text} {number}", "conversation_id": "c", "position": number,
    }  # fmt: skip


def opened(path: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(path, **{"embedder": WordHashEmbedder(), **options})


def texts(store: MemoryStore) -> dict[str, str]:
    return {record.id: record.text for record in store.scan()}


def sidecar_of(source: Path, target: Path) -> None:
    """Put the sidecar of a closed store in the place of another's."""
    for file in target.glob("sidecar.sqlite3*"):
        file.unlink()
    shutil.copy2(source / "sidecar.sqlite3", target)


@pytest.fixture
def ahead(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A store whose sidecar is older than its Chroma, and what was acknowledged."""
    with opened(tmp_path / "s") as store:
        store.upsert(turn(n) for n in range(30))
    shutil.copytree(tmp_path / "s", tmp_path / "earlier")
    with opened(tmp_path / "s") as store:
        store.upsert(turn(n, "changed") for n in (3, 4, 40, 41))
        store.delete(["m7", "m8"])
        known = texts(store)
    sidecar_of(tmp_path / "earlier", tmp_path / "s")
    return tmp_path / "s", known


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed")
def test_killed_and_damaged_stores_lose_nothing_acknowledged(tmp_path: Path, root: Path) -> None:
    """Proves: GUARD-1, STORE-4. `make damage` does the same with more records and more places."""
    file = root / "benchmarks" / "kills" / "damage_matrix.py"
    done = run_forked_file(file, "--records", "80", "--flips", "2", "--folder", str(tmp_path / "d"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert '"cases": 42, "failed": 0' in done.stdout


def test_an_older_sidecar_takes_over_what_chroma_has_and_repairs_say_so(
    ahead: tuple[Path, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: GUARD-1."""
    path, known = ahead
    with opened(path) as store:
        assert texts(store) == known and store.maintenance.verify().sound
        words = store.repairs[0]
        assert "records taken over from Chroma" in words and "2 deleted records deleted again" in words
        assert words in caplog.text
        with MemoryStore.in_memory(embedder=WordHashEmbedder()) as fresh:
            fresh.upsert(store.scan())
            for ours, theirs in zip(vectors(store), vectors(fresh), strict=True):
                assert np.allclose(ours, theirs, atol=2e-3)
    with opened(path) as store:
        assert store.repairs == [] and texts(store) == known


def test_what_is_recovered_begins_a_history_anew_and_repairs_say_so(tmp_path: Path) -> None:
    """Versions stand in the sidecar alone: nothing of an earlier text may be left in Chroma. Proves: GUARD-1, API-3."""
    path = tmp_path / "s"
    with opened(path) as store:
        store.upsert(turn(n) for n in range(5))
        store.update("m1", {"text": "second"})
    shutil.copytree(path, tmp_path / "earlier")
    with opened(path) as store:
        store.update("m1", {"text": "third"})
        store.update("m2", {"text": "other"})
        assert [len(store.history(name)) for name in ("m1", "m2")] == [2, 1]
    sidecar_of(tmp_path / "earlier", path)
    with opened(path) as store:
        assert texts(store)["m1"] == "third" and "without the versions of these changes" in store.repairs[0]
        assert [[one.after.text for one in store.history(name)] for name in ("m1", "m2")] == [["second"], []]
    for file in path.glob("sidecar.sqlite3*"):
        file.unlink()
    with opened(path) as store:
        assert texts(store)["m2"] == "other" and "without the versions that `history` gives" in store.repairs[0]
        assert [store.history(name) for name in texts(store)] == [[]] * 5
        store.update("m1", {"text": "fourth"})
        assert [(one.number, one.before.text) for one in store.history("m1")] == [(1, "third")]


def vectors(store: MemoryStore) -> tuple[Any, Any]:
    """Return own and context vectors in the order of the records' ids."""
    view = store.view(ALL)
    rows = sorted(view.rows(view.rowids()).values(), key=lambda row: row.record.id)
    own, context = view.vectors(np.array([row.rowid for row in rows]))
    return own, context


CRASH = """
import os, signal
from tests.embedders import WordHashEmbedder
from recall_loop.memory.store.recovery import reconciling
from recall_loop.memory.store.write import taking_over
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
MemoryStore.open({path!r}, embedder=WordHashEmbedder())
"""


@pytest.mark.parametrize(
    "step", ["reconciling._erase", "reconciling.take_rows", "taking_over.note_state", "reconciling._mark"]
)
def test_a_kill_while_the_sides_are_merged_loses_nothing(ahead: tuple[Path, dict[str, str]], step: str) -> None:
    """Proves: GUARD-1."""
    path, known = ahead
    child = run_forked(CRASH.format(path=str(path), step=step))
    assert child.returncode == -signal.SIGKILL, child.stderr
    with opened(path) as store:
        assert texts(store) == known and store.maintenance.verify().sound


def test_an_embedder_that_fails_leaves_what_chroma_has_for_the_next_open(ahead: tuple[Path, dict[str, str]]) -> None:
    """Proves: GUARD-1."""

    class Failing(WordHashEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            raise EmbedderError("no answer")

    path, known = ahead
    with pytest.raises(StoreUnavailableError, match="Open the store again when it answers"):
        opened(path, embedder=Failing())
    with opened(path) as store:
        assert texts(store) == known


@pytest.mark.parametrize("side", ["sidecar", "chroma"])
def test_what_was_erased_stays_erased_whichever_side_is_put_back(tmp_path: Path, side: str) -> None:
    """Proves: GUARD-1, STORE-6. No word of an erased record is kept to remember that it was erased."""
    with opened(tmp_path / "s") as store:
        store.upsert([turn(1), turn(2, "zanzibarword"), turn(3)])
    shutil.copytree(tmp_path / "s", tmp_path / "earlier")
    with opened(tmp_path / "s") as store:
        store.delete(["m2"])
        store.maintenance.compact()
    for file in (tmp_path / "s").rglob("*"):
        assert not file.is_file() or b"zanzibarword" not in file.read_bytes().lower()
    if side == "sidecar":
        sidecar_of(tmp_path / "earlier", tmp_path / "s")
    else:
        shutil.rmtree(tmp_path / "s" / "chroma")
        shutil.copytree(tmp_path / "earlier" / "chroma", tmp_path / "s" / "chroma")
    with opened(tmp_path / "s") as store:
        assert texts(store).keys() == {"m1", "m3"} and store.maintenance.verify().sound and store.repairs
        store.upsert([turn(2, "again")])  # its id can be used again
    with opened(tmp_path / "s") as store:
        assert texts(store)["m2"] == "again 2" and store.repairs == []


def test_another_stores_chroma_is_kept_aside_and_nothing_of_it_is_taken_over(tmp_path: Path) -> None:
    """Proves: GUARD-1, STORE-3."""
    for name in ("one", "two"):
        with opened(tmp_path / name) as store:
            store.upsert(turn(n, name) for n in range(5 if name == "one" else 9))
    shutil.rmtree(tmp_path / "one" / "chroma")
    shutil.copytree(tmp_path / "two" / "chroma", tmp_path / "one" / "chroma")
    with opened(tmp_path / "one") as store:
        assert set(texts(store).values()) == {f"one {n}" for n in range(5)} and store.maintenance.verify().sound
        assert "another store's" in store.repairs[0] and "kept aside" in store.repairs[0]
        assert (tmp_path / "one" / "chroma.aside-1" / "chroma.sqlite3").exists()
        store.maintenance.compact()
        assert not list((tmp_path / "one").glob("chroma.aside*"))


def test_an_older_sidecar_that_is_indexed_again_first_is_still_the_older_one(
    ahead: tuple[Path, dict[str, str]],
) -> None:
    """Proves: GUARD-1. Upgrades of words, and repairs of their index, come before Chroma is looked at."""
    path, known = ahead
    with sqlite3.connect(path / "sidecar.sqlite3") as connection:
        connection.execute("DELETE FROM meta WHERE key = 'words'")
        connection.execute("DELETE FROM fts WHERE rowid = 4")
    connection.close()
    (path / "sidecar.suspect").touch()
    with opened(path) as store:
        assert texts(store) == known and store.maintenance.verify().sound


def damage_text(path: Path, side: str) -> None:
    """Change a letter of a stored text, as a flipped bit does: everything else stays as it is."""
    with sqlite3.connect(path / ("sidecar.sqlite3" if side == "sidecar" else "chroma/chroma.sqlite3")) as connection:
        if side == "sidecar":
            connection.execute("UPDATE bodies SET record = replace(record, 'text 5', 'tezt 5')")
        else:
            connection.execute(
                "UPDATE embedding_metadata SET string_value = 'tezt 5' "
                "WHERE key = 'chroma:document' AND string_value = 'text 5'"
            )
    connection.close()


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A closed store of a few messages."""
    with opened(tmp_path / "s") as store:
        store.upsert(turn(n) for n in range(10))
    return tmp_path / "s"


@pytest.mark.parametrize("how", ["open", "rebuild"])
@pytest.mark.parametrize("side", ["sidecar", "chroma"])
def test_a_damaged_text_is_found_and_the_sound_one_is_taken(closed: Path, side: str, how: str) -> None:
    """Proves: GUARD-6."""
    damage_text(closed, side)
    with opened(closed, read_only=True) as store:
        assert not store.maintenance.verify().sound
        (finding,) = [line for line in store.maintenance.verify().findings if "damaged in" in line]
        assert f"damaged in {'the sidecar' if side == 'sidecar' else 'Chroma'}" in finding and "1 (m5)" in finding
    with opened(closed, defer=how == "rebuild") as store:
        if how == "rebuild":
            store.maintenance.rebuild()
        assert texts(store)["m5"] == "text 5" and store.maintenance.verify().sound and store.degraded_reason is None
        assert "1 records" in store.repairs[0]
    with opened(closed) as store:
        assert store.repairs == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_text_is_never_served(closed: Path, read_only: bool) -> None:
    """Proves: GUARD-6, SEARCH-9. Chroma's is, and the store says so; without Chroma there is an error."""
    damage_text(closed, "sidecar")
    reads = [
        lambda store: [record.text for record in store.get(["m5"], scope=ALL)],
        lambda store: [record.text for record in store.scan() if record.id == "m5"],
        lambda store: [record.text for record in store.page() if record.id == "m5"],
        lambda store: [record.text for record in store.newest() if record.id == "m5"],
        lambda store: [hit.record.text for hit in search(store, "text 5").hits if hit.record.id == "m5"],
    ]
    for read in reads:
        with opened(closed, read_only=read_only) as store:
            assert read(store) == ["text 5"] and "damaged in the sidecar" in (store.degraded_reason or "")
        (closed / "sidecar.suspect").unlink()  # else the next open repairs it
    shutil.move(closed / "chroma", closed / "away")
    with opened(closed, read_only=True) as store:
        for read in reads:
            with pytest.raises(StoreUnavailableError, match="recall-loop store rebuild"):
                read(store)


@pytest.mark.parametrize("what", ["gone", "another store's", "earlier"])
def test_a_chroma_that_is_gone_or_replaced_is_told_on_reads_and_named_in_repairs(
    closed: Path, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: SEARCH-9, STORE-4."""
    shutil.copytree(closed, tmp_path / "copy")
    with opened(closed) as store:
        store.upsert([turn(20)])
    with opened(tmp_path / "other") as store:
        store.upsert([turn(1, "other")])
    with opened(closed, read_only=True) as store:
        assert store.degraded_reason is None
        assert store.maintenance.info()["vector_search"]["larger_scopes"] == "chroma"
    shutil.copytree(closed, tmp_path / "moved")
    with opened(tmp_path / "moved", read_only=True) as store:
        assert store.degraded_reason is None  # the whole store may be copied
    shutil.rmtree(closed / "chroma")
    if what != "gone":
        shutil.copytree(tmp_path / ("copy" if what == "earlier" else "other") / "chroma", closed / "chroma")
    with opened(closed, read_only=True) as store:
        assert "Chroma" in (store.degraded_reason or "") and "open the store once for writing" in store.degraded_reason
        assert "Chroma" in (search(store, "text 5").degraded_reason or "")
        assert store.maintenance.info()["vector_search"]["larger_scopes"] == "sqlite"
    with opened(closed) as store:
        assert store.count() == 11 and store.degraded_reason is None and store.maintenance.verify().sound
        assert "Chroma" in store.repairs[0] and store.repairs[0] in caplog.text
    with opened(closed, read_only=True) as store:
        assert store.degraded_reason is None


def test_a_sidecar_without_any_table_is_one_that_was_never_finished(closed: Path) -> None:
    """Proves: STORE-4."""
    for file in closed.glob("sidecar.sqlite3*"):
        file.write_bytes(b"")
    assert "never finished" in verify_folder(closed).findings[0]
    with pytest.raises(StoreUnavailableError, match="never finished; open it once for writing"):
        opened(closed, read_only=True)
    with opened(closed) as store:
        assert store.count() > 0 and store.maintenance.verify().sound


@pytest.mark.parametrize("read_only", [True, False])
def test_a_chroma_that_goes_while_the_store_is_open_is_told_with_the_next_read(closed: Path, read_only: bool) -> None:
    """Proves: SEARCH-9."""
    with opened(closed, read_only=read_only) as store:
        assert search(store, "text 5").degraded_reason is None
        shutil.move(closed / "chroma", closed / "away")
        assert "Chroma's files" in (search(store, "text 5").degraded_reason or "")
        shutil.move(closed / "away", closed / "chroma")
        if read_only:
            assert search(store, "text 5").degraded_reason is None
        else:
            store.upsert([turn(30)])
            assert search(store, "text 5").degraded_reason is None and store.maintenance.verify().sound
