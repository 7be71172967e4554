"""Adding runs with a score, and scoring those that wait for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from recall_loop.memory.trajectories.scoring.outcome_scoring import (
    Scorer,
    ScoringFailure,
    ScoringOutcome,
    record_with_outcome,
    record_with_run,
)
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record, Trajectory
from recall_loop.state.records.trajectories import RunData, run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.store.tables.prepared_records import WriteStatus


_BATCH = 20


@dataclass(frozen=True)
class ScoringReport:
    """Counts of runs that were scored or failed (these stay queued), and the reasons by record id."""

    scored: int = 0
    failed: int = 0
    errors: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: ScoringReport) -> ScoringReport:
        return ScoringReport(self.scored + other.scored, self.failed + other.failed, self.errors | other.errors)


def score_pending(
    store: MemoryStore,
    scorer: Scorer,
    *,
    scope: Scope | None = None,
    queued_only: bool = False,
    limit: int | None = None,
    progress: Callable[[ScoringReport], None] | None = None,
    actor: str | None = None,
) -> ScoringReport:
    """Score the runs in `scope` that have no score; each is tried once.

    Args:
        store: the store, open for writing.
        scorer: `score_by_rules`, or one that asks a language model.
        scope: absent = the default tenant.
        queued_only: only runs that are queued, not all that lack a score.
        limit: most runs to try.
        progress: is called after every batch with the report so far.
        actor: who asks for it, for the runs' histories.

    Raises:
        StoreUnavailableError: the store fails; earlier batches are written.
        StoreReadOnlyError: the store is open for reading only.
    """
    scope, report = scope or Scope(), ScoringReport()
    unscored = islice(_unscored_records(store, scope, queued_only=queued_only), limit)
    while batch := list(islice(unscored, _BATCH)):
        outcomes = _score_batch(scorer, batch)
        report += _write_scores(store, scope.tenant, outcomes, actor)
        if progress is not None:
            progress(report)
        if len(outcomes) < len(batch):  # the scorer can't be called now: the remaining runs are unchanged
            break
    return report


def rescore_record(
    store: MemoryStore, record: Record, scorer: Scorer, *, tenant: str, actor: str | None = None
) -> ScoringReport | None:
    """Score one stored run, also one that has a score already; a failure leaves an old score as it is.

    Returns None if the run was erased, changed or scored meanwhile, and so is left as it is. Raises as `score_pending`.
    """
    report = _write_scores(store, tenant, [(record, scorer(run_from_record(record)))], actor)
    return report if report.scored or report.failed else None


def _unscored_records(store: MemoryStore, scope: Scope, *, queued_only: bool) -> Iterator[Record]:
    """Yield runs without a score in their order; writing them back doesn't move them."""
    for record in store.scan(scope, Filters(scored=False), (ContentType.TRAJECTORY,)):
        run = run_from_record(record)
        # Old records may keep their score deeper, where the filter doesn't look.
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


def _write_scores(store: MemoryStore, tenant: str, outcomes: _ScoredRecords, actor: str | None = None) -> ScoringReport:
    # Asking a model takes minutes: a run that was erased, changed or scored meanwhile must not be overwritten.
    stored = {one.id: one for one in store.get([record.id for record, _ in outcomes], scope=Scope(tenant=tenant))}
    outcomes = [(record, outcome) for record, outcome in outcomes if stored.get(record.id) == record]
    records = [record_with_outcome(record, outcome, datetime.now(UTC)) for record, outcome in outcomes]
    rows = store.upsert(records, tenant=tenant, actor=actor, on_reject="report")
    errors = {row.id or "": row.error for row in rows if row.error}
    errors |= {record.id: outcome.detail for record, outcome in outcomes if isinstance(outcome, ScoringFailure)}
    return ScoringReport(len(outcomes) - len(errors), len(errors), errors)


_RUN_OWNER_FIELDS = ("agent_id", "agent_name", "group_id", "user_id", "conversation_id", "session", "label")


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """The outcome of adding one run; `record` is as it is in the store now, unless it was rejected."""

    record: Trajectory
    status: WriteStatus
    error: str | None = None


def add_trajectories(
    store: MemoryStore,
    records: Sequence[Trajectory],
    *,
    tenant: str,
    scorer: Scorer | None = None,
    actor: str | None = None,
) -> list[AddOutcome]:
    """Write runs, and score those that have no learning value; without a scorer they are queued for one.

    A run that the store has under the same id, with or without a score, is left as it is; if only its owner or
    its expiry has changed it keeps its score. Scores that runs bring along stay. A run under the id of another
    kind of record is rejected. `actor` is named in the history of runs that are replaced.

    Returns the outcome of each, in order; of several with one id the last is written, and all have its outcome.
    Raises as `score_pending`.
    """
    last = {record.id: record for record in records}
    known = {record.id: record for record in store.get(last, scope=Scope(tenant=tenant))}
    taken = [record for record in known.values() if not isinstance(record, Trajectory)]
    others = {record.id: _rejected(last.pop(record.id), record) for record in taken}
    rewritten = (_record_to_write(record, known.get(record.id), scorer) for record in last.values())
    new = [record for record in rewritten if record is not None]
    outcomes = zip(new, store.upsert(new, tenant=tenant, actor=actor, on_reject="report"), strict=True)
    added = others | {record.id: AddOutcome(record, outcome.status, outcome.error) for record, outcome in outcomes}
    for record in known.values():
        if record.id not in added and isinstance(record, Trajectory):
            added[record.id] = AddOutcome(record, "unchanged")
    return [added[record.id] for record in records]


def _rejected(record: Trajectory, known: Record) -> AddOutcome:
    allowed = f"an id that no record of another kind has: this is a {known.kind.value}'s"
    return AddOutcome(record, "rejected", str(InvalidInputError("id", record.id, allowed)))


def with_agent_and_tags(record: Trajectory, agent_id: str | None, tags: Iterable[str]) -> Trajectory:
    """Return the record as that of an agent, with further tags; raise `InvalidInputError` where one is not allowed."""
    given = {"agent_id": agent_id or record.agent_id, "tags": tuple(dict.fromkeys((*record.tags, *tags)))}
    checked = validate_model(Trajectory, {"id": "-", "text": "-", **given})
    return record.model_copy(update={name: getattr(checked, name) for name in given})


def _record_to_write(record: Trajectory, known: Record | None, scorer: Scorer | None) -> Trajectory | None:
    """Return the record with a learning value, or queued for one; None if the store has this run already."""
    run = run_from_record(record)
    if isinstance(known, Trajectory):
        stored = run_from_record(known)
        if _unscored(stored) == _unscored(run):
            same_owner = all(getattr(known, name) == getattr(record, name) for name in _RUN_OWNER_FIELDS)
            same_expiry = record.expires_at in (None, known.expires_at)
            if same_owner and same_expiry and set(record.tags) <= set(known.tags):
                return None
            if run.outcome_score is None and stored.outcome_score is not None:
                return record.model_copy(update={"attributes": known.attributes})
    if run.outcome_score is not None:
        return record
    if scorer is None:
        return record_with_run(record, run.model_copy(update={"scoring_pending": True}))
    return record_with_outcome(record, scorer(run), datetime.now(UTC))


def _unscored(run: RunData) -> RunData:
    """Return a run without what scoring adds to it."""
    names = ("summary", "outcome_score", "scoring", "scoring_error", "task_category", "complexity_level")
    return run.model_copy(update={**dict.fromkeys(names), "scoring_pending": False})
