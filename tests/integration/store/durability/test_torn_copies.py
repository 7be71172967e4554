"""Copies that were taken while a writer was at work: what tries their files ends, whatever Chroma does."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from recall_loop.memory.store.chroma import probe
from recall_loop.memory.store.chroma.probe import has_dangling_links, vector_files_readable
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
# Chroma writes its vector files each time that another thousand rows have come.
ROWS = 1100


def written(path: Path, first: int) -> None:
    with MemoryStore.open(path, embedder=WordHashEmbedder()) as store:
        store.upsert({"id": f"m{n}", "kind": "message", "text": f"words {n}"} for n in range(first, first + ROWS))


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A copy in which the rows of the vector index, and their links, are later than its header and all else."""
    store, copy = tmp_path / "store", tmp_path / "copy"
    written(store, 0)
    shutil.copytree(store, copy)
    written(store, ROWS)
    for later in store.rglob("data_level0.bin"):
        shutil.copy2(later, copy / later.relative_to(store))
    return copy


def test_verify_ends_where_the_vector_index_links_to_rows_that_it_does_not_hold(torn: Path) -> None:
    """Chroma's core waits for ever for a lock of its own, or ends the process. Proves: STORE-4."""
    assert has_dangling_links(torn / "chroma")
    assert not has_dangling_links(torn.with_name("store") / "chroma")
    assert not vector_files_readable(torn / "chroma")
    assert any("block it" in line for line in verify_folder(torn).findings)
    with MemoryStore.open(torn, embedder=WordHashEmbedder()) as store:
        assert store.maintenance.verify().sound
        assert store.count() == ROWS


@pytest.mark.skipif(sys.platform != "linux", reason="what another process does is known on Linux only")
@pytest.mark.parametrize(
    ("script", "patience", "status"),
    [
        ("import time; time.sleep(90)", 90, None),
        ("import time\nwhile time.process_time() < 1: pass", 90, 0),
        ("while True: pass", 1, None),
    ],
)
def test_a_trial_ends_that_does_nothing_or_takes_too_long(
    script: str, patience: int, status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: STORE-4."""
    monkeypatch.setattr(probe, "_IDLE_SECONDS", 0.5)
    monkeypatch.setattr(probe, "_IDLE_CPU_SECONDS", 0.01)
    begin = time.monotonic()
    assert probe._exit_status([sys.executable, "-S", "-c", script], patience) == status
    assert time.monotonic() - begin < 60
