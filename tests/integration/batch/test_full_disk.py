"""A file that can't be written, as on a full disk: the error names it, and nothing half-written is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.forked_process import run_forked

# The system's limit on the size of files stands in for a full disk: writing fails, and the error names no file.
_FULL = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
_KEYS = "from recall_loop.cli.main import main; sys.exit(main(['keys', 'add', '--tenant', 'a', '--keys', sys.argv[1]]))"
_RESULTS = """
from pathlib import Path
from recall_loop.graph.batch.batch_output import ResultsFile
try:
    with ResultsFile(Path(sys.argv[1]), resume=False) as output:
        output.append([{"id": "q1", "line": 1, "digest": "0" * 16, "result": {}}])
except OSError as error:
    sys.exit(f"{error.filename}: {error.strerror}")
"""


@pytest.mark.parametrize("code", [_KEYS, _RESULTS])
def test_a_full_disk_is_reported_and_leaves_no_partial_line(code: str, tmp_path: Path) -> None:
    """Proves: OPS-2."""
    path = tmp_path / "out.json"
    ended = run_forked(_FULL + code, str(path))
    assert ended.returncode != 0
    assert f"{path}: File too large" in ended.stderr.splitlines()[-1]
    assert [found.suffix for found in tmp_path.iterdir()] in ([], [".lock"])
