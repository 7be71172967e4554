"""Schemas in the tests' own PostgreSQL, and scripts beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.foreign.postgres_backend import PostgresServer
from tests.processes.forked_process import ForkedProcess

_NUMBERS = itertools.count()


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new schema."""
    found = postgres.address(f"shared {next(_NUMBERS)}")
    yield found
    postgres.drop(found)


@pytest.fixture
def run_script() -> Iterator[Callable[..., ForkedProcess]]:
    """Start a script in a process of its own."""
    with ExitStack() as running:
        yield lambda script, *arguments: running.enter_context(ForkedProcess(f"import sys\n{script}", *arguments))
