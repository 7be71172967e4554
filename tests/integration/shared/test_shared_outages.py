"""PostgreSQL is away: runs end as their contract says, in time, and nobody is told addresses (HOST-3, STOP-6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.postgres import held_connections
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason
from tests.embedders import WordHashEmbedder
from tests.foreign.postgres_backend import PostgresServer

pytestmark = pytest.mark.slow
QUESTION = "When does the ferry leave?"


@pytest.fixture(scope="module")
def stopped() -> Iterator[PostgresServer]:
    """A PostgreSQL that tests may stop: nobody else's stores are in it."""
    with closing(PostgresServer()) as started:
        yield started


@pytest.fixture
def server(stopped: PostgresServer) -> PostgresServer:
    stopped.start()
    return stopped


def test_a_run_without_postgresql_ends_in_time_and_says_why(server: PostgresServer) -> None:
    """Proves: HOST-3, STOP-2, STOP-6. It goes on once PostgreSQL is back, and so does everything else."""
    place = server.address("run")
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


def test_writes_that_fail_for_one_reason_are_one_line_of_the_log(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-3. Each of them is an error to whoever writes."""
    with MemoryStore.open(server.address("writes"), embedder=WordHashEmbedder()) as store:
        server.stop()
        for number in range(6):
            with pytest.raises(StoreUnavailableError):
                store.upsert([{"id": str(number), "text": "The ferry leaves at nine."}])
        failures = [record.getMessage() for record in caplog.records if "last write failed" in record.getMessage()]
        # The connection breaks, and then there is none.
        assert 1 <= len(failures) <= 2
        assert len(set(failures)) == len(failures)


def test_an_outage_is_told_within_seconds(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: HOST-3, STOP-6. Without a deadline, too; the first waits as long as for a restart, the next don't."""
    settings = Settings(tool_backoff_seconds=0.1)
    with MemoryStore.open(server.address("outage"), embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "a", "text": "The ferry leaves at nine."}])
        server.stop()
        with caplog.at_level(logging.CRITICAL):
            for most in (7, 4):
                began = time.monotonic()
                result = retrieve(QUESTION, store=store, settings=settings)
                assert result.stop.reason is StopReason.TOOL_FAILURE
                assert time.monotonic() - began < most


def test_a_restart_is_waited_for(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: HOST-3. What is asked meanwhile is answered, and soon after PostgreSQL is back."""
    with MemoryStore.open(server.address("restart"), embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "a", "text": "The ferry leaves at nine."}])
        server.stop()
        with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.CRITICAL):
            asked = pool.submit(retrieve, QUESTION, store=store)
            time.sleep(1)
            server.start()
            back = time.monotonic()
            assert asked.result().facts
            assert time.monotonic() - back < 3


def test_an_address_says_how_long_an_outage_is_waited_for(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-3 (libpq's own connect_timeout)."""
    place = server.address("wait").replace("schema=", "connect_timeout=1&schema=")
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        server.stop()
        began = time.monotonic()
        with caplog.at_level(logging.CRITICAL), pytest.raises(StoreUnavailableError):
            store.count()
        assert time.monotonic() - began < 2.5


def test_a_busy_pool_is_waited_for(address: str) -> None:
    """Proves: HOST-3. Readers that are many aren't an outage: they wait their turn for longer than one lasts."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store, ExitStack() as held:
        for _ in range(8):
            held.enter_context(store._session.database.reading())
        with ThreadPoolExecutor(1) as pool:
            counted = pool.submit(store.count)
            time.sleep(held_connections.AWAY_SECONDS + 1)
            held.close()
            assert counted.result() == 0
