"""A process that has had a store open, while another one writes it (STORE-4)."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from recall_loop.memory.store.chroma.chroma_clients import open_client
from recall_loop.memory.store.recovery.verify import VerificationReport, verify_folder
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked

# Python complains of files that nobody closes, as here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SOUND = VerificationReport(records=5, expired=0, chroma_rows=5)
OTHER_WRITER = """
import sys
from tests.embedders import WordHashEmbedder
from recall_loop.memory.store.store import MemoryStore
with MemoryStore.open(sys.argv[1], embedder=WordHashEmbedder()) as store:
    store.upsert([{"id": "new", "text": "Joel has a canoe."}, {"id": "m1", "text": "The bus is late."}])
    store.delete(["m2"])
"""


def opened(path: Path, **options: object) -> MemoryStore:
    return MemoryStore.open(path, embedder=WordHashEmbedder(), **options)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store that was garbage before anybody closed it."""
    store = opened(tmp_path / "s")
    store.upsert({"id": f"m{number}", "text": f"The ferry leaves at {number}."} for number in range(5))
    del store
    gc.collect()
    return tmp_path / "s"


def write_elsewhere(folder: Path) -> None:
    done = run_forked(OTHER_WRITER, str(folder))
    assert done.returncode == 0, done.stderr


def test_a_store_that_nobody_closed_hides_nothing_from_the_next(folder: Path) -> None:
    """Proves: STORE-4. Neither verification nor an open sees what Chroma held before another process wrote."""
    write_elsewhere(folder)
    assert verify_folder(folder) == SOUND
    with opened(folder) as store:
        assert store.maintenance.verify() == SOUND
        assert store.degraded_reason is None


def test_each_reader_sees_what_another_process_has_written(folder: Path) -> None:
    """Proves: STORE-4. Also while another one in this process still has open what was there before."""
    with opened(folder, read_only=True) as first, first._session.connection.searching() as held:
        assert held is not None and held.count() == 5
        write_elsewhere(folder)
        assert verify_folder(folder) == SOUND
        with opened(folder, read_only=True) as second, second._session.connection.searching() as chroma:
            assert chroma is not None and chroma.count() == 5
            assert second.maintenance.verify() == SOUND
    assert verify_folder(folder) == SOUND


def test_clients_of_a_folder_do_not_pile_up(folder: Path) -> None:
    """Proves: GUARD-7. What nobody closed is closed before the folder is opened again."""
    from chromadb.api.shared_system_client import SharedSystemClient

    for _ in range(3):
        store = opened(folder)
        del store
        gc.collect()
    with opened(folder):
        held = [name for name in SharedSystemClient._identifier_to_system if name.startswith(str(folder))]
        assert len(held) == 1


def test_chromas_settings_are_read_once_for_clients_that_share_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them took a quarter of what opening a store does."""
    from chromadb.config import Settings

    open_client(tmp_path / "first").close()
    read, make = [], Settings.__init__
    monkeypatch.setattr(Settings, "__init__", lambda self, **given: (read.append(given), make(self, **given))[1])
    clients = [open_client(tmp_path / name) for name in ("second", "third")]
    folders = [Path(client.get_settings().persist_directory).name for client in clients]
    assert (folders, read) == (["second", "third"], [])
    for client in clients:
        assert client.get_settings().anonymized_telemetry is False
        client.close()
