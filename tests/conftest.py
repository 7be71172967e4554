"""Common fixtures of all tests: a clean environment, an embedder loaded once, stores, snapshots.

Sockets to anywhere but loopback are refused by the options in pyproject.toml.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
    from recall_loop.memory.store.store import MemoryStore
    from tests.foreign.postgres_backend import PostgresServer

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOTS = ROOT / "tests" / "snapshots"
# Tests run on every core already, and the matrices here are small: more threads only wait for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Every run, and each of the processes that tests start, would compile the project and these tests again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Nothing here speaks to strangers: each client would read all of the world's certificates. A model may be one's own.
if not os.environ.get("TEST_LLM_BASE_URL", "").startswith("https:"):
    os.environ["SSL_CERT_DIR"] = str(SNAPSHOTS)
    os.environ.pop("SSL_CERT_FILE", None)
# Stores commit thousands of times, and a disk lets each commit wait, though no test ends the machine that runs it: what
# a killed process has written is there in either place. A run needs some 2 GB; TMPDIR names another folder.
MEMORY_FOLDER = Path("/dev/shm")
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK)
    and not os.statvfs(MEMORY_FOLDER).f_flag & os.ST_NOEXEC
    and shutil.disk_usage(MEMORY_FOLDER).free > 4 << 30
):
    os.environ["TMPDIR"] = str(MEMORY_FOLDER)
    tempfile.tempdir = None
# What collection makes stays to the end: looking for garbage in it, then and later, takes a tenth of the run.
gc.disable()

_FOREIGN_PREFIXES = ("LANGCHAIN_", "LANGGRAPH_", "LANGSMITH_", "OPENAI_")

# The same cases on every run: a failure in CI is one that can be seen at home.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    # It measures time, and a busy machine is slow.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="update tests/snapshots")
    backends = ("sqlite", "postgres")
    parser.addoption("--backend", choices=backends, default=backends[0], help="where stores keep their tables")


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: many tests wait for processes and sockets."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start files with slow tests first, so that no process is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        if item.config.getoption("--backend") != "sqlite" and item.get_closest_marker("folder"):
            item.add_marker(pytest.mark.skip(reason="about the files of a folder"))


def pytest_collection_finish() -> None:
    """Begin to look for garbage, in what the tests make; in what is old seldom, which takes a tenth of a second."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Forget the knobs and keys of whoever runs the tests, for child processes too; a model takes one processor."""
    from recall_loop.memory.store.embed.onnx_model import limit_threads
    from recall_loop.state.settings.settings import ENV_PREFIX, Settings

    for name in list(os.environ):
        upper = name.upper()
        if upper.startswith((ENV_PREFIX, *_FOREIGN_PREFIXES)) or upper in Settings.BARE_NAMES:
            del os.environ[name]
    os.environ["LANGSMITH_TRACING"] = "false"
    # As for the matrices above, and the vectors are the same.
    limit_threads(1)


@pytest.fixture(scope="session", autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the tables of every store where `--backend` says."""
    if request.config.getoption("--backend") == "sqlite":
        yield
        return
    from tests.foreign.postgres_backend import PostgresServer, stores_in

    with closing(PostgresServer()) as server, stores_in(server):
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that runs, for all tests of a process."""
    from tests.foreign.postgres_backend import PostgresServer

    with closing(PostgresServer()) as server:
        yield server


@pytest.fixture(scope="session")
def embedder() -> MiniLmEmbedder:
    """The real embedder, loaded once, which remembers what it was asked."""
    from tests.embedders import RememberingEmbedder

    return RememberingEmbedder()


@pytest.fixture
def store(embedder: MiniLmEmbedder) -> Iterator[MemoryStore]:
    """An empty store in memory."""
    from recall_loop.memory.store.store import MemoryStore

    with MemoryStore.in_memory(embedder=embedder) as opened:
        yield opened


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The public data sets, which lie beside the project and are not part of it."""
    found = ROOT.parent / "shared" / "data"
    if not found.is_dir():
        pytest.skip("no data sets: ../shared/data is not there")
    return found


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of that name under tests/snapshots, or update the file."""
    update = request.config.getoption("--update-snapshots")

    def compare(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert text == expected, f"tests/snapshots/{name} differs; if that is meant, run `make snapshots`"

    return compare
