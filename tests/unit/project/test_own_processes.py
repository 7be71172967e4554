"""The processes that the project starts of itself."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
STARTED = re.compile(r'sys\.executable,(.*?)"-m"')


def test_none_imports_from_the_folder_that_it_is_started_in() -> None:
    """Proves: OPS-2, STORE-4 (a `queue.py` or `json.py` of the user's is not Python's own)."""
    rooms = ("cli", "evals", "graph", "llm", "memory", "nodes", "service", "telemetry")
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    found = {str(file.relative_to(ROOT)): options for file in files for options in STARTED.findall(file.read_text())}
    assert "graph/batch/batch_engines.py" in found
    assert {name for name, options in found.items() if '"-P"' not in options} == set()
