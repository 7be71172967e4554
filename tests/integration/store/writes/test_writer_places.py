"""Where a folder that is open for writing is: however it was named, and where it was moved since (STORE-4)."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recall_loop import Memory
from recall_loop.memory.store.chroma.chroma_files import fingerprint_files
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnusableError
from tests.embedders import WordHashEmbedder

REMOVED = "the folder or its lock was removed or replaced while this store was open; open it again"


def opened(folder: Path | str, **options: Any) -> MemoryStore:
    return MemoryStore.open(folder, embedder=WordHashEmbedder(), **options)


def assert_free(folder: Path, count: int) -> None:
    """It can be had alone, needs no repair, and holds so many records."""
    with opened(folder, re_embed=True) as store:
        assert store.repairs == [] and store.maintenance.verify().sound and store.count() == count


def test_a_process_that_goes_to_another_folder_keeps_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STORE-4. A relative path is that of the opening."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = opened("memory")
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.upsert([{"id": "a", "text": "one"}])
    with ThreadPoolExecutor(1) as pool:  # each thread opens a connection of its own
        assert pool.submit(store.count).result() == 1
    with opened("../memory") as same, opened("memory") as another:
        assert same.count() == 1 and another.count() == 0
    store.close()
    assert_free(tmp_path / "memory", 1)
    assert_free(tmp_path / "elsewhere" / "memory", 0)


def test_a_changed_link_does_not_redirect_an_open_store(tmp_path: Path) -> None:
    """Proves: STORE-4. As where a deployment switches `current` to the next release."""
    link = tmp_path / "current"
    for number, name in enumerate(("first", "second")):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        if number == 0:
            first = opened(link)
    with opened(link) as second:
        first.upsert([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
        second.upsert([{"id": "c", "text": "three"}])
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(first.count).result() == 2 and pool.submit(second.count).result() == 1
        first.close()
    assert_free(tmp_path / "first", 2)
    assert_free(tmp_path / "second", 1)


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_write_to_a_removed_folder_is_rejected(
    tmp_path: Path, made_anew: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: STORE-4. It would go into files that nobody can open any more, and into those of the new one."""
    folder = tmp_path / "memory"
    old = opened(folder)
    old.upsert([{"id": "a", "text": "one"}])
    old.count_recalls(["a"])
    shutil.rmtree(folder)
    new = opened(folder) if made_anew else None
    if new is not None:
        new.upsert([{"id": f"{number}", "text": f"text {number}"} for number in range(1200)])
    vectors = fingerprint_files(folder / "chroma")
    for write in (
        lambda: old.upsert([{"text": "two"}]),
        lambda: old.update("a", {"text": "two"}),
        lambda: old.delete(["a"]),
        old.maintenance.compact,
        old.maintenance.rebuild,
    ):
        with pytest.raises(StoreUnusableError, match=REMOVED):
            write()
    old.close()
    assert f"records were not written: {folder}: {REMOVED}" in caplog.text
    if new is None:
        assert not folder.exists()
        return
    assert fingerprint_files(folder / "chroma") == vectors and new.degraded_reason is None
    assert new.count() == 1200
    new.close()
    assert_free(folder, 1200)


def test_a_folder_that_was_moved_away_is_not_written_by_its_old_name(tmp_path: Path) -> None:
    """Proves: STORE-4. As by restoring a backup beside a process that writes."""
    with opened(tmp_path / "memory") as store:
        store.upsert([{"id": "a", "text": "one"}])
        store.maintenance.backup(tmp_path / "backup")
        store.upsert([{"id": "b", "text": "two"}])
        (tmp_path / "memory").rename(tmp_path / "before")
        (tmp_path / "backup").rename(tmp_path / "memory")
        with pytest.raises(StoreUnusableError, match=REMOVED):
            store.upsert([{"id": "c", "text": "three"}])
        with opened(tmp_path / "memory") as restored:
            assert [record.id for record in restored.scan()] == ["a"]
            restored.upsert([{"id": "c", "text": "three"}])
    assert_free(tmp_path / "memory", 2)
    with opened(tmp_path / "before") as before:
        assert before.count() == 2


def test_a_memory_says_that_its_folder_is_gone(tmp_path: Path) -> None:
    """Proves: API-1, STORE-4."""
    with Memory(tmp_path / "memory", embedder=WordHashEmbedder()) as memory:
        memory.add("one")
        shutil.rmtree(tmp_path / "memory")
        with pytest.raises(StoreUnusableError, match=REMOVED):
            memory.add("two")
    with Memory(tmp_path / "memory", embedder=WordHashEmbedder()) as memory:
        memory.add("two")
        assert len(memory.list().records) == 1
