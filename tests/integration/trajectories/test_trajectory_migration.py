"""Old trajectories into the new shape: once, again, and after a kill."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.legacy_migration import legacy_outcome_type, migrate_trajectories
from recall_loop.state.errors import StoreReadOnlyError
from recall_loop.state.records.legacy_trajectories import is_legacy
from recall_loop.state.records.records import Fact, Record, Trajectory
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import ForkedProcess

TYPES = ("success", "partial_success", "failure", "error")
STATUSES = ("completed", "incomplete", "failed", "error")
_CHILD = """
import sys, time
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.legacy_migration import migrate_trajectories
from tests.embedders import WordHashEmbedder
with MemoryStore.open(sys.argv[1], embedder=WordHashEmbedder()) as store:
    def progress(done, total):
        print(done, flush=True)
        time.sleep(0.2)
    migrate_trajectories(store, "acme", batch_size=10, on_progress=progress)
"""


def old(number: int) -> Trajectory:
    outcome = {"type": TYPES[number % 4], "confidence": 0.8, "reasoning": ["so"], "colour": number}
    attributes = {"outcome": outcome, "outcome_score": (number % 11) / 10, "keep": {"me": number}}
    return Trajectory(id=f"t{number}", text=f"old run {number}", tags=("old",), agent_id="a", attributes=attributes)


def everything(store: MemoryStore, tenant: str = "acme") -> list[Record]:
    return list(store.scan(Scope(tenant=tenant)))


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def test_migration_loses_nothing_and_is_done_once(store: MemoryStore) -> None:
    """Proves: TRAJ-4."""
    new = Trajectory(id="n", text="new", attributes={"execution": {"status": "error"}, "outcome_score": 0.8})
    store.upsert([*(old(number) for number in range(40)), new, Fact(id="f", text="a fact")], tenant="acme")
    store.upsert([old(1)], tenant="other")
    before = everything(store)
    report = migrate_trajectories(store, "acme", batch_size=7)
    assert (report.trajectories, report.trajectories_after) == (41, 41)
    assert (report.legacy, report.migrated, report.legacy_after, report.failed) == (40, 40, 0, [])
    assert report.before == dict.fromkeys(TYPES, 10)
    assert report.after == dict.fromkeys(STATUSES, 10)
    after = everything(store)
    assert [record.id for record in after] == [record.id for record in before]
    for number, (was, record) in enumerate(zip(before[:40], after[:40], strict=True)):
        run = run_from_record(record)
        assert record.model_copy(update={"attributes": was.attributes}) == was
        assert (run.execution.status, run.execution.confidence) == (STATUSES[number % 4], 0.8)
        assert run.outcome_score == (number % 11) / 10
        assert run.extra == {"keep": {"me": number}, "outcome": {"colour": number}}
    assert after[40:] == before[40:]
    again = migrate_trajectories(store, "acme")
    assert (again.legacy, again.migrated, again.trajectories_after) == (0, 0, 41)
    assert everything(store) == after
    assert is_legacy(everything(store, "other")[0].attributes)
    assert store.tenants() == ["acme", "other"]
    assert store.count(Scope(tenant="acme"), Filters(execution_status="failed")) == 10


def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    """Proves: TRAJ-4."""
    with MemoryStore.open(tmp_path / "s", embedder=WordHashEmbedder()) as store:
        store.upsert([old(number) for number in range(8)])
        before = everything(store, "default")
    with MemoryStore.open(tmp_path / "s", embedder=WordHashEmbedder(), read_only=True) as store:
        report = migrate_trajectories(store, "default", dry_run=True)
        assert (report.migrated, report.legacy_after, report.after) == (8, 8, dict.fromkeys(STATUSES, 2))
        assert everything(store, "default") == before
        with pytest.raises(StoreReadOnlyError):
            migrate_trajectories(store, "default")


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signal")
def test_a_kill_half_way_loses_nothing_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """Proves: TRAJ-4, STORE-4."""
    place = tmp_path / "s"
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        store.upsert([old(number) for number in range(100)], tenant="acme")
    with ForkedProcess(_CHILD, str(place)) as child:
        while int(child.stdout.readline()) < 30:
            time.sleep(0.01)
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        records = everything(store)
        left = [record for record in records if is_legacy(record.attributes)]
        assert len(records) == 100
        assert 0 < len(left) <= 70
        report = migrate_trajectories(store, "acme")
        assert (report.trajectories, report.migrated, report.legacy_after) == (100, len(left), 0)
        for record in everything(store):
            number = int(record.id[1:])
            assert run_from_record(record).execution.status == STATUSES[number % 4]
            assert run_from_record(record).extra["keep"] == {"me": number}


def test_a_record_without_a_type_is_counted_as_such(store: MemoryStore) -> None:
    """Proves: TRAJ-4."""
    shapes = [{"data": {"turns": []}}, {"outcome": "success"}, {"data": {"outcome": {"type": "error"}}}]
    records = [Trajectory(id=f"t{n}", text="x", attributes=shape) for n, shape in enumerate(shapes)]
    assert [legacy_outcome_type(record) for record in records] == ["(none)", "success", "error"]
    store.upsert(records)
    report = migrate_trajectories(store, "default")
    assert report.after == {"unknown": 1, "completed": 1, "error": 1}
    found = store.scan(Scope(), content_types=[ContentType.TRAJECTORY])
    assert not any(is_legacy(record.attributes) for record in found)
