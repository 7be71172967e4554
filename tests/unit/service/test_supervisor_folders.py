"""The folders of supervisors that were killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from recall_loop.service.workers.supervisor import shared_folder

KEEPER = """
import time
from recall_loop.service.workers.supervisor import shared_folder
with shared_folder() as folder:
    (folder / "metrics").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


def test_the_next_start_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living one's folder stays, and so do others'. Proves: OPS-1."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "recall-loop-demo-1").mkdir()
    with subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        left = Path(keeper.stdout.readline().strip())
        with shared_folder() as own:
            assert left.is_dir() and own.parent == left.parent == tmp_path
        keeper.kill()
    assert left.is_dir()
    with shared_folder() as own:
        assert not left.exists() and own.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["recall-loop-demo-1"]
