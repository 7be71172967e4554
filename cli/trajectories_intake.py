"""`recall-loop trajectories convert` and `add`: runs out of files (TRAJ-1, TRAJ-2)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from recall_loop.cli.common import open_store, read_settings, whole_file
from recall_loop.cli.render import Screen, safe, safe_json
from recall_loop.cli.trajectories_scorers import scorer_of
from recall_loop.cli.words import count
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.masking import Masking, make_masking
from recall_loop.memory.trajectories.runs_file import RunLine, read_runs
from recall_loop.memory.trajectories.scoring import Scorer, scored_record
from recall_loop.state.records import Trajectory
from recall_loop.state.scope import Scope
from recall_loop.state.trajectories import RunData, attributes_of, run_of

_BATCH = 200
_SHOWN_PROBLEMS = 20


def convert(args: argparse.Namespace) -> int:
    """Write runs as records, one a line; 1 where lines couldn't be used, else 0."""
    masking, bad, written = _masking(args), 0, 0
    _readable(args.files)
    with whole_file(args.output) as out:
        for path in args.files:
            for line in read_runs(path, masking):
                if line.record is None:
                    bad += 1
                    _report(path, line, bad)
                    continue
                body = line.record.model_dump_json(exclude_defaults=True, exclude={"kind"})
                text = f'{{"kind":"trajectory",{body[1:]}'
                out.write((text if args.output else safe_json(text)) + "\n")
                written += 1
    rejected = f", {count(bad, 'line')} rejected" if bad else ""
    sys.stderr.write(f"{count(written, 'run')} converted{rejected}\n")
    return 1 if bad else 0


def add(args: argparse.Namespace) -> int:
    """Put runs into a store; 1 where lines couldn't be used, else 0.

    A run that is there already, with or without a score, is left as it is.
    """
    masking, settings = _masking(args), read_settings(args)
    _readable(args.files)
    scorer = None if args.score == "later" else scorer_of("--score", args.score, settings)
    tenant = settings.tenant if args.tenant is None else args.tenant
    total = _Added()
    with open_store(args.store, settings, create=True, read_only=False) as store:
        for path in args.files:
            _add_file(path, store, tenant, _Ready(scorer, args.agent, args.tag), masking, total)
    for line in total.lines():
        Screen().line(line)
    return 1 if total.rejected else 0


class _Ready:
    """Makes a converted record ready for the store: agent, tags, learning value."""

    def __init__(self, scorer: Scorer | None, agent: str | None, tags: Iterable[str]) -> None:
        self._scorer, self._agent, self._tags = scorer, agent, tuple(tags)

    def marked(self, record: Trajectory) -> Trajectory:
        """Return the record with its agent and tags."""
        tags = tuple(dict.fromkeys((*record.tags, *self._tags)))
        return record.model_copy(update={"agent_id": self._agent or record.agent_id, "tags": tags})

    def scored(self, record: Trajectory) -> Trajectory:
        """Return the record with a learning value, or queued for one; one that it has stays."""
        run = run_of(record)
        if run.outcome_score is not None:
            return record
        if self._scorer is None:
            queued = run.model_copy(update={"scoring_pending": True})
            return record.model_copy(update={"attributes": attributes_of(queued)})
        return scored_record(record, self._scorer(run), datetime.now(UTC))


_WHOSE = ("agent_id", "agent_name", "group_id", "user_id", "conversation_id", "session", "label")


class _Added:
    """What became of the lines."""

    def __init__(self) -> None:
        self.created = self.replaced = self.unchanged = self.rejected = self.unscored = 0

    def lines(self) -> Iterator[str]:
        parts = [f"{self.created:,} created", f"{self.replaced:,} replaced", f"{self.unchanged:,} unchanged"]
        yield ", ".join([*parts, f"{self.rejected:,} rejected"])
        if self.unscored:
            yield f"{count(self.unscored, 'run')} not scored yet: `recall-loop trajectories score --pending`"


def _add_file(path: Path, store: MemoryStore, tenant: str, ready: _Ready, masking: Masking, total: _Added) -> None:
    lines = read_runs(path, masking)
    while batch := list(islice(lines, _BATCH)):
        good: dict[str, tuple[RunLine, Trajectory]] = {}
        for line in batch:
            if line.record is None:
                _reject(path, line, line.reason, total)
            else:  # of several lines with one id the last wins, as everywhere
                good[line.record.id] = (line, ready.marked(line.record))
        known = {record.id: record for record in store.get(good, scope=Scope(tenant=tenant))}
        given = [(line, _carried(known.get(record.id), record)) for line, record in good.values()]
        new = [(line, record) for line, record in given if not _same(known.get(record.id), record)]
        total.unchanged += len(good) - len(new)
        finished = [ready.scored(record) for _, record in new]
        for outcome in store.upsert(finished, tenant=tenant):
            if outcome.status == "rejected":
                _reject(path, new[outcome.index][0], outcome.error or "", total)
                continue
            setattr(total, outcome.status, getattr(total, outcome.status) + 1)
            total.unscored += run_of(finished[outcome.index]).outcome_score is None


def _same(known: object, record: Trajectory) -> bool:
    """Say whether the store has this run already, whatever its score."""
    if not isinstance(known, Trajectory) or any(getattr(known, name) != getattr(record, name) for name in _WHOSE):
        return False
    return _unscored(run_of(known)) == _unscored(run_of(record)) and set(record.tags) <= set(known.tags)


def _carried(known: object, record: Trajectory) -> Trajectory:
    """Return the record with the score that the store has of the very same run, whoever's it is now."""
    if not isinstance(known, Trajectory) or run_of(record).outcome_score is not None:
        return record
    before = run_of(known)
    if before.outcome_score is None or _unscored(before) != _unscored(run_of(record)):
        return record
    return record.model_copy(update={"attributes": known.attributes})


def _unscored(run: RunData) -> RunData:
    names = ("summary", "outcome_score", "scoring", "scoring_error", "task_category", "complexity_level")
    return run.model_copy(update={**dict.fromkeys(names), "scoring_pending": False})


def _masking(args: argparse.Namespace) -> Masking:
    return make_masking(args.mask, args.mask_key, defaults=args.default_masks)


def _readable(files: Iterable[Path]) -> None:
    """Fail before anything is written; opening a pipe would use it up."""
    for path in files:
        if not path.exists() or path.is_file() or path.is_dir():
            path.open("rb").close()


def _reject(path: Path, line: RunLine, reason: str, total: _Added) -> None:
    total.rejected += 1
    _report(path, RunLine(line.number, None, reason), total.rejected)


def _report(path: Path, line: RunLine, seen: int) -> None:
    if seen <= _SHOWN_PROBLEMS:
        sys.stderr.write(f"{safe(str(path))}:{line.number}: rejected: {safe(line.reason)}\n")
