"""The queue of stored runs that wait for a score (TRAJ-2).

The queue is the store itself: a run waits while `scoring_pending` is set, or simply has no score. Runs are written
back in small batches as they are scored, so that a command that is killed loses at most one batch, and the next one
goes on with what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from recall_loop.memory.trajectories.scoring.outcome_scoring import (
    Scorer,
    ScoringFailure,
    ScoringOutcome,
    record_with_outcome,
)
from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

_BATCH = 20


@dataclass(frozen=True)
class ScoringReport:
    """Counts of runs that were scored or failed (these stay queued), and the reasons by record id."""

    scored: int = 0
    failed: int = 0
    errors: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: ScoringReport) -> ScoringReport:
        """Return both together."""
        return ScoringReport(self.scored + other.scored, self.failed + other.failed, self.errors | other.errors)


def score_pending(
    store: MemoryStore,
    scorer: Scorer,
    *,
    scope: Scope | None = None,
    queued_only: bool = False,
    limit: int | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    progress: Callable[[ScoringReport], None] | None = None,
) -> ScoringReport:
    """Score the runs in `scope` that have no score; each is tried once.

    Args:
        store: the store, open for writing.
        scorer: `score_by_rules`, or one that asks a language model.
        scope: absent = the default tenant.
        queued_only: only runs that are queued, not all that lack a score.
        limit: most runs to try.
        clock: gives the time of scoring, in UTC.
        progress: is called after every batch with the report so far.

    Raises:
        StoreUnavailableError: the store fails; earlier batches are written.
        StoreReadOnlyError: the store is open for reading only.
    """
    scope, report = scope or Scope(), ScoringReport()
    unscored = islice(_unscored_records(store, scope, queued_only=queued_only), limit)
    while batch := list(islice(unscored, _BATCH)):
        outcomes = _score_batch(scorer, batch)
        report += _write_scores(store, scope.tenant, outcomes, clock)
        if progress is not None:
            progress(report)
        if len(outcomes) < len(batch):  # the scorer can't be asked for now: the rest stays as it is
            break
    return report


def rescore_record(
    store: MemoryStore,
    record: Record,
    scorer: Scorer,
    *,
    tenant: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ScoringReport | None:
    """Score one stored run, also one that has a score already; a failure leaves an old score as it is.

    Returns:
        What became of it; None if the run was erased, changed or scored meanwhile, and so is left as it is.

    Raises:
        StoreUnavailableError: the store fails.
        StoreReadOnlyError: the store is open for reading only.
    """
    report = _write_scores(store, tenant, [(record, scorer(run_from_record(record)))], clock)
    return report if report.scored or report.failed else None


def _unscored_records(store: MemoryStore, scope: Scope, *, queued_only: bool) -> Iterator[Record]:
    """Yield runs without a score in their order; writing them back doesn't move them."""
    for record in store.scan(scope, Filters(scored=False), (ContentType.TRAJECTORY,)):
        run = run_from_record(record)
        # Old records may keep their score deeper down, where the filter doesn't look.
        if run.outcome_score is None and (run.scoring_pending or not queued_only):
            yield record


_ScoredRecords = list[tuple[Record, ScoringOutcome]]


def _score_batch(scorer: Scorer, batch: list[Record]) -> _ScoredRecords:
    """Return what the scorer says of each run, up to the first for which it can't be asked."""
    outcomes: _ScoredRecords = []
    for record in batch:
        outcome = scorer(run_from_record(record))
        if isinstance(outcome, ScoringFailure) and outcome.retry_later:
            break
        outcomes.append((record, outcome))
    return outcomes


def _write_scores(
    store: MemoryStore, tenant: str, outcomes: _ScoredRecords, clock: Callable[[], datetime]
) -> ScoringReport:
    # Asking a model takes minutes: what was erased, changed or scored meanwhile must not come back as it was.
    stored = {one.id: one for one in store.get([record.id for record, _ in outcomes], scope=Scope(tenant=tenant))}
    outcomes = [(record, outcome) for record, outcome in outcomes if stored.get(record.id) == record]
    records = [record_with_outcome(record, outcome, clock()) for record, outcome in outcomes]
    errors = {row.id or "": row.error for row in store.upsert(records, tenant=tenant) if row.error}
    errors |= {record.id: outcome.detail for record, outcome in outcomes if isinstance(outcome, ScoringFailure)}
    return ScoringReport(len(outcomes) - len(errors), len(errors), errors)
