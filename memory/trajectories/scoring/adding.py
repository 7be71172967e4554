"""Runs put into a store, and scored (TRAJ-1, TRAJ-2): one that is there already is neither written nor scored again."""

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
    """What became of one run: the record as it stands in the store now, unless it was rejected."""

    record: Trajectory
    status: WriteStatus
    error: str | None = None


def add_trajectories(
    store: MemoryStore, records: Sequence[Trajectory], *, tenant: str, scorer: Scorer | None = None
) -> list[AddOutcome]:
    """Write runs, and score those that have no learning value.

    A run that the store has under the same id, with or without a score, is left as it is; where only whose it is has
    changed it keeps its score. Scores that runs bring along stay.

    Args:
        store: the store, open for writing.
        records: the runs; of several with one id the last is written.
        tenant: whose they are.
        scorer: None leaves them queued for one.

    Returns:
        What became of each, in order; of several with one id all say what became of the last.

    Raises:
        StoreUnavailableError: the store fails.
        StoreReadOnlyError: the store is open for reading only.
    """
    last = {record.id: record for record in records}
    known = {record.id: record for record in store.get(last, scope=Scope(tenant=tenant))}
    given = {record_id: _carry_score(known.get(record_id), record) for record_id, record in last.items()}
    new = [_scored(record, scorer) for record in given.values() if not _same(known.get(record.id), record)]
    outcomes = zip(new, store.upsert(new, tenant=tenant), strict=True)
    written = {record.id: AddOutcome(record, outcome.status, outcome.error) for record, outcome in outcomes}
    return [written.get(record.id) or _unchanged(known[record.id], record) for record in records]


def _unchanged(known: Record, record: Trajectory) -> AddOutcome:
    return AddOutcome(known if isinstance(known, Trajectory) else record, "unchanged")


def with_agent_and_tags(record: Trajectory, agent_id: str | None, tags: Iterable[str]) -> Trajectory:
    """Return the record as that of an agent, with further tags.

    Raises:
        InvalidInputError: an id or a tag is not allowed.
    """
    given = {"agent_id": agent_id or record.agent_id, "tags": tuple(dict.fromkeys((*record.tags, *tags)))}
    checked = validate_model(Trajectory, {"id": "-", "text": "-", **given})
    return record.model_copy(update={name: getattr(checked, name) for name in given})


def _scored(record: Trajectory, scorer: Scorer | None) -> Trajectory:
    """Return the record with a learning value, or queued for one; one that it has stays."""
    run = run_from_record(record)
    if run.outcome_score is not None:
        return record
    if scorer is None:
        return record_with_run(record, run.model_copy(update={"scoring_pending": True}))
    return record_with_outcome(record, scorer(run), datetime.now(UTC))


def _same(known: Record | None, record: Trajectory) -> bool:
    """Say whether the store has this run already, whatever its score."""
    if not isinstance(known, Trajectory) or any(
        getattr(known, name) != getattr(record, name) for name in _RUN_OWNER_FIELDS
    ):
        return False
    return _unscored(run_from_record(known)) == _unscored(run_from_record(record)) and set(record.tags) <= set(
        known.tags
    )


def _carry_score(known: Record | None, record: Trajectory) -> Trajectory:
    """Return the record with the score that the store has of the very same run, whoever's it is now."""
    if not isinstance(known, Trajectory) or run_from_record(record).outcome_score is not None:
        return record
    before = run_from_record(known)
    if before.outcome_score is None or _unscored(before) != _unscored(run_from_record(record)):
        return record
    return record.model_copy(update={"attributes": known.attributes})


def _unscored(run: RunData) -> RunData:
    names = ("summary", "outcome_score", "scoring", "scoring_error", "task_category", "complexity_level")
    return run.model_copy(update={**dict.fromkeys(names), "scoring_pending": False})
