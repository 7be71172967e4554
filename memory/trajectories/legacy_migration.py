"""Rewrites old records in the new shape (TRAJ-4), in batches; may be repeated.

A record that is in the new shape is left alone, so a migration that was killed is simply started again: what it
had written was acknowledged, the rest is still there in the old shape. Nothing is deleted, and what has no
place in the new shape is kept under `extra`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recall_loop.state.records.legacy_trajectories import is_legacy
from recall_loop.state.records.trajectories import run_attributes, run_from_record
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.records.records import Record

MIGRATION_BATCH_SIZE = 200


@dataclass(slots=True)
class MigrationReport:
    """The counts of a migration, which never changes the number of trajectories in scope.

    `before` counts old records by their `outcome` type, `after` the same by execution status; with `dry_run` as they
    would be. `failed` has id and reason of each record that couldn't be rewritten and stands as it was, `legacy_after`
    counts the old records that are left.
    """

    tenant: str
    dry_run: bool
    trajectories: int = 0
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    migrated: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    trajectories_after: int = 0
    legacy_after: int = 0

    @property
    def legacy(self) -> int:
        """Old records that were found."""
        return self.before.total()


def migrate_trajectories(
    store: MemoryStore,
    tenant: str,
    *,
    dry_run: bool = False,
    batch_size: int = MIGRATION_BATCH_SIZE,
    on_progress: Callable[[int, int], None] | None = None,
) -> MigrationReport:
    """Rewrite a tenant's old trajectories; `on_progress` is told (done, all) after each acknowledged batch.

    Where the store fails (`StoreError`), the batches before are done.
    """
    scope = Scope(tenant=tenant)
    report = MigrationReport(tenant, dry_run)
    ids: list[str] = []  # ids first: a scan would see records written in the meantime
    for record in _trajectories(store, scope):
        report.trajectories += 1
        if is_legacy(record.attributes):
            ids.append(record.id)
            report.before[legacy_outcome_type(record)] += 1
    for start in range(0, len(ids), batch_size):
        batch = ids[start : start + batch_size]
        _rewrite(store, scope, batch, report)
        if on_progress:
            on_progress(start + len(batch), len(ids))
    for record in _trajectories(store, scope):
        report.trajectories_after += 1
        report.legacy_after += is_legacy(record.attributes)
    return report


def legacy_outcome_type(record: Record) -> str:
    """Return an old record's outcome type, or `(none)`."""
    data = record.attributes.get("data")
    outcome = record.attributes.get("outcome", data.get("outcome") if isinstance(data, dict) else None)
    kind = outcome.get("type") if isinstance(outcome, dict) else outcome
    return str(kind) if kind is not None else "(none)"


def _rewrite(store: MemoryStore, scope: Scope, ids: list[str], report: MigrationReport) -> None:
    # Read again: a record may have been changed, migrated or deleted since the scan.
    old = [record for record in store.get(ids, scope=scope) if is_legacy(record.attributes)]
    runs = {record.id: run_from_record(record, warn=False) for record in old}
    if not report.dry_run:
        # As mappings, so that the store checks the new attributes and rejects a record that can't hold them.
        attributes = {record_id: {"attributes": run_attributes(run)} for record_id, run in runs.items()}
        new = [record.model_dump(exclude_none=True) | attributes[record.id] for record in old]
        for outcome in store.upsert(new, tenant=scope.tenant, on_reject="report"):
            if outcome.status == "rejected":
                report.failed.append((str(outcome.id), outcome.error or ""))
                runs.pop(str(outcome.id))
    report.migrated += len(runs)
    report.after.update(run.execution.status.value for run in runs.values())


def _trajectories(store: MemoryStore, scope: Scope) -> Iterator[Record]:
    return store.scan(scope, content_types=[ContentType.TRAJECTORY])
