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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root can't be bound by permissions")
def test_a_sound_store_that_cannot_be_written_is_sound(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path / "store") as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry leaves at nine."}])
    places = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    modes = {place: place.stat().st_mode for place in places}
    try:
        for place in places:
            place.chmod(modes[place] & ~0o222)
        command = [sys.executable, "-c", _CLI, "store", "verify", "--json", "--store", tmp_path / "store"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_bound_by_permissions)
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["sound"], report["records"], report["chroma_rows"]) == (0, True, 1, None)
    assert any("Chroma was not compared" in note for note in report["notes"])
