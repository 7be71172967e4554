"""A PostgreSQL of this run's own, with a schema for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.foreign.postgres_backend import PostgresServer

PASSWORD = "hunter2-hunter2"


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with closing(PostgresServer()) as running:
        yield running


@pytest.fixture
def address(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a schema that isn't there yet, with a password that nothing may show."""
    found = server.address(request.node.nodeid).replace("postgres:@", f"postgres:{PASSWORD}@")
    assert PASSWORD in found
    yield found
    server.drop(found)
