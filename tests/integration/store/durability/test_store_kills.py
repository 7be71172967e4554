"""kill -9 at random moments (STORE-4); benchmarks/kills/kill_nine.py does the same for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_fifty_kills_lose_nothing_acknowledged(tmp_path: Path, root: Path) -> None:
    """Proves: STORE-4."""
    command = [sys.executable, str(root / "benchmarks" / "kills" / "kill_nine.py"), "--moments", "50", "--seed", "11"]
    done = subprocess.run([*command, "--folder", str(tmp_path / "k")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert done.stdout.count('"failed": 0') == 2
