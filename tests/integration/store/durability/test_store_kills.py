"""kill -9 at random moments (STORE-4); benchmarks/kills/kill_nine.py does the same for longer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.processes.forked_process import run_forked_file


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_kills_lose_nothing_acknowledged(tmp_path: Path, root: Path) -> None:
    """Proves: STORE-4."""
    file = root / "benchmarks" / "kills" / "kill_nine.py"
    # A call takes some hundredths of a second: within a third of the usual time there are many to be killed in.
    words = ["--moments", "16", "--longest", "0.35", "--lines", "200", "--seed", "11", "--folder", str(tmp_path / "k")]
    done = run_forked_file(file, *words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert done.stdout.count('"failed": 0') == 2
