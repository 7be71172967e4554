"""Adds runs to a store and scores them (TRAJ-1, TRAJ-2); a run that is there already is left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from recall_loop.memory.trajectories.scoring.outcome_scoring import Scorer, record_with_outcome, record_with_run
from recall_loop.state.errors import validate_model
from recall_loop.state.records.records import Record, Trajectory
from recall_loop.state.records.trajectories import RunData, run_from_record
from recall_loop.state.scope import Scope

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.prepared_records import WriteStatus
    from recall_loop.memory.store.store import MemoryStore

_RUN_OWNER_FIELDS = ("agent_id", "agent_name", "group_id", "user_id", "conversation_id", "session", "label")


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """The outcome of adding one run; `record` is as it is in the store now, unless it was rejected."""

    record: Trajectory
    status: WriteStatus
    error: str | None = None


def add_trajectories(
    store: MemoryStore, records: Sequence[Trajectory], *, tenant: str, scorer: Scorer | None = None
) -> list[AddOutcome]:
    """Write runs, and score those that have no learning value.

    A run that the store has under the same id, with or without a score, is left as it is; if only its owner has changed
    it keeps its score. Scores that runs bring along stay.

    Args:
        store: the store, open for writing.
        records: the runs; of several with one id the last is written.
        tenant: whose they are.
        scorer: None leaves them queued for one.

    Returns:
        The outcome of each, in order; several with one id all have the outcome of the last.

    Raises:
        StoreUnavailableError: the store fails.
        StoreReadOnlyError: the store is open for reading only.
    """
    last = {record.id: record for record in records}
    known = {record.id: record for record in store.get(last, scope=Scope(tenant=tenant))}
    rewritten = (_record_to_write(record, known.get(record.id), scorer) for record in last.values())
    new = [record for record in rewritten if record is not None]
    outcomes = zip(new, store.upsert(new, tenant=tenant), strict=True)
    added = {record.id: AddOutcome(record, outcome.status, outcome.error) for record, outcome in outcomes}
    for record in known.values():
        if record.id not in added and isinstance(record, Trajectory):
            added[record.id] = AddOutcome(record, "unchanged")
    return [added[record.id] for record in records]


def with_agent_and_tags(record: Trajectory, agent_id: str | None, tags: Iterable[str]) -> Trajectory:
    """Return the record as that of an agent, with further tags.

    Raises:
        InvalidInputError: an id or a tag is not allowed.
    """
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
            if same_owner and set(record.tags) <= set(known.tags):
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
