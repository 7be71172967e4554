"""PostgreSQL is away: runs end as their contract says, in time, and nobody is told addresses (HOST-3, STOP-6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.postgres import reader_pool
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason
from tests.embedders import WordHashEmbedder
from tests.foreign.postgres_backend import PostgresServer

pytestmark = pytest.mark.slow
QUESTION = "When does the ferry leave?"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    postgres = PostgresServer()
    yield postgres
    postgres.close()


def test_a_run_without_postgresql_ends_in_time_and_says_why(server: PostgresServer) -> None:
    """Proves: HOST-3, STOP-2, STOP-6. It goes on once PostgreSQL is back, and so does everything else."""
    place = server.address("outage")
    settings = Settings(deadline_seconds=2, tool_backoff_seconds=0.1)
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "a", "text": "The ferry leaves at nine."}])
        assert retrieve(QUESTION, store=store, settings=settings).facts
        graph = build_graph(store, settings=settings)
        server.stop()
        began = time.monotonic()
        result = retrieve(QUESTION, store=store, settings=settings)
        assert time.monotonic() - began < 4
        assert (result.stop.reason, result.degraded) == (StopReason.TOOL_FAILURE, True)
        assert result.warnings == ("StoreUnavailableError: PostgreSQL can't be read",)
        output = graph.invoke({"messages": [("user", QUESTION)]})
        assert (output["stop"]["reason"], output["degraded"]) == ("tool_failure", True)
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.maintenance.probe()
        assert time.monotonic() - began < 4
        server.start()
        give_up = time.monotonic() + 30
        while not retrieve(QUESTION, store=store, settings=settings).facts:
            assert time.monotonic() < give_up


def test_only_the_first_waits_long_for_a_connection(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-3, STOP-6. Without a deadline, too, a run's attempts don't each wait for as long as possible."""
    monkeypatch.setattr(reader_pool, "CONNECT_SECONDS", 4)
    with MemoryStore.open(server.address("outage"), embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "a", "text": "The ferry leaves at nine."}])
        server.stop()
        began = time.monotonic()
        with caplog.at_level(logging.CRITICAL):
            result = retrieve(QUESTION, store=store, settings=Settings(tool_backoff_seconds=0.1))
        assert result.stop.reason is StopReason.TOOL_FAILURE
        assert time.monotonic() - began < 14
