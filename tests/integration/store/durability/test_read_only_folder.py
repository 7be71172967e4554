"""A store in a folder that can't be written, as on a read-only disk: a sound one isn't called damaged."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from recall_loop.memory.store.store import MemoryStore

pytestmark = pytest.mark.slow

_CLI = "import sys; from recall_loop.cli.main import main; sys.exit(main(sys.argv[1:]))"
# Linux's capabilities by which root writes what its owner may not, and the call that takes one away.
_DROP_CAPABILITY, _OVERRIDES = 24, (1, 2)


def _bound_by_permissions() -> None:
    for capability in _OVERRIDES:
        ctypes.CDLL(None).prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


_SEARCHED = """
import json, sys
from recall_loop.memory.store.store import MemoryStore
with MemoryStore.open(sys.argv[1], read_only=True) as store:
    with store._session.connection.searching() as side:
        pass
    info = store.maintenance.info()
    print(json.dumps([store.degraded_reason, store.maintenance.probe(), info["vector_search"]["larger_scopes"]]))
"""


def _ended(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python where nobody, root neither, can write to the store in a folder."""
    with MemoryStore.open(folder) as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry leaves at nine."}])
    places = [folder, *folder.rglob("*")]
    modes = {place: place.stat().st_mode for place in places}
    try:
        for place in places:
            place.chmod(modes[place] & ~0o222)
        command = [sys.executable, "-c", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_bound_by_permissions)
    finally:
        for place, mode in modes.items():
            place.chmod(mode)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root can't be bound by permissions")
def test_a_sound_store_that_cannot_be_written_is_sound(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    ended = _ended(tmp_path / "store", _CLI, "store", "verify", "--json", "--store", tmp_path / "store")
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["sound"], report["records"], report["chroma_rows"]) == (0, True, 1, None)
    assert any("Chroma was not compared" in note for note in report["notes"])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root can't be bound by permissions")
def test_a_sound_store_that_cannot_be_written_is_not_degraded(tmp_path: Path) -> None:
    """Searches that would ask Chroma, which opens no such folder, read the tables. Proves: SEARCH-9."""
    ended = _ended(tmp_path / "store", _SEARCHED, tmp_path / "store")
    assert json.loads(ended.stdout) == [None, None, "sqlite"]
