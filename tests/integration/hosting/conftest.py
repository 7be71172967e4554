"""A schema for each test in the tests' own PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.foreign.postgres_backend import PostgresServer

PASSWORD = "hunter2-hunter2"


@pytest.fixture
def address(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a schema that isn't there yet, with a password that nothing may show."""
    found = postgres.address(request.node.nodeid).replace("postgres:@", f"postgres:{PASSWORD}@")
    assert PASSWORD in found
    yield found
    postgres.drop(found)
