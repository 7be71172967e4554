"""A PostgreSQL of the tests' own, and schemas in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.foreign.postgres_backend import PostgresServer

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL."""
    with closing(PostgresServer()) as server:
        yield server


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new schema."""
    found = postgres.address(f"shared {next(_NUMBERS)}")
    yield found
    postgres.drop(found)


@pytest.fixture
def run_script(root, tmp_path) -> Callable[..., object]:
    """Start a script in a process of its own, with this checkout's tests on its path."""
    import subprocess
    import sys

    running: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        code = f"import sys; sys.path.insert(0, {str(root)!r})\n{script}"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()
