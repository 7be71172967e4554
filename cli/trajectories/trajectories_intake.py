"""`recall-loop trajectories convert` and `add`: runs out of files (TRAJ-1, TRAJ-2)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from recall_loop.cli.core.common import atomic_output, open_store, read_settings
from recall_loop.cli.core.rendering import Screen, sanitize, sanitize_json
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.masking import Masking, make_masking
from recall_loop.memory.trajectories.capture.runs_file import RunLine, read_runs
from recall_loop.memory.trajectories.scoring.adding import add_trajectories, with_agent_and_tags
from recall_loop.memory.trajectories.scoring.llm_scoring import make_scorer
from recall_loop.memory.trajectories.scoring.outcome_scoring import Scorer
from recall_loop.state.display import format_count
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import run_from_record

_BATCH = 200
_SHOWN_PROBLEMS = 20


def convert(args: argparse.Namespace) -> int:
    """Write runs as records, one a line; 1 where lines couldn't be used, else 0."""
    masking, bad, written = _masking(args), 0, 0
    _check_readable(args.files)
    with atomic_output(args.output) as out:
        for path in args.files:
            for line in read_runs(path, masking):
                if line.record is None:
                    bad += 1
                    _report(path, line, bad)
                    continue
                body = line.record.model_dump_json(exclude_defaults=True, exclude={"kind"})
                text = f'{{"kind":"trajectory",{body[1:]}'
                out.write((text if args.output else sanitize_json(text)) + "\n")
                written += 1
    rejected = f", {format_count(bad, 'line')} rejected" if bad else ""
    sys.stderr.write(f"{format_count(written, 'run')} converted{rejected}\n")
    return 1 if bad else 0


def add(args: argparse.Namespace) -> int:
    """Put runs into a store; 1 where lines couldn't be used, else 0.

    A run that is there already, with or without a score, is left as it is.
    """
    masking, settings = _masking(args), read_settings(args)
    _check_readable(args.files)
    how = _AddOptions(masking, None if args.score == "later" else make_scorer("--score", args.score, settings))
    ready = partial(with_agent_and_tags, agent_id=args.agent, tags=args.tag)
    tenant = settings.tenant if args.tenant is None else args.tenant
    total = _AddCounts()
    with open_store(args.store, settings, create=True, read_only=False) as store:
        for path in args.files:
            _add_file(path, store, tenant, ready, how, total)
    for line in total.lines():
        Screen().line(line)
    return 1 if total.rejected else 0


@dataclass(frozen=True)
class _AddOptions:
    masking: Masking
    scorer: Scorer | None


class _AddCounts:
    """What became of the lines."""

    def __init__(self) -> None:
        self.created = self.replaced = self.unchanged = self.rejected = self.unscored = 0

    def lines(self) -> Iterator[str]:
        parts = [f"{self.created:,} created", f"{self.replaced:,} replaced", f"{self.unchanged:,} unchanged"]
        yield ", ".join([*parts, f"{self.rejected:,} rejected"])
        if self.unscored:
            yield f"{format_count(self.unscored, 'run')} not scored yet: `recall-loop trajectories score --pending`"


def _add_file(
    path: Path,
    store: MemoryStore,
    tenant: str,
    ready: Callable[[Trajectory], Trajectory],
    how: _AddOptions,
    total: _AddCounts,
) -> None:
    lines = read_runs(path, how.masking)
    while batch := list(islice(lines, _BATCH)):
        good: dict[str, tuple[RunLine, Trajectory]] = {}
        for line in batch:
            if line.record is None:
                _reject(path, line, line.reason, total)
            else:  # of several lines with one id the last wins, as everywhere
                good[line.record.id] = (line, ready(line.record))
        added = add_trajectories(store, [record for _, record in good.values()], tenant=tenant, scorer=how.scorer)
        for (line, _), outcome in zip(good.values(), added, strict=True):
            if outcome.status == "rejected":
                _reject(path, line, outcome.error or "", total)
                continue
            setattr(total, outcome.status, getattr(total, outcome.status) + 1)
            written = outcome.status != "unchanged"
            total.unscored += written and run_from_record(outcome.record).outcome_score is None


def _masking(args: argparse.Namespace) -> Masking:
    return make_masking(args.mask, args.mask_key, defaults=args.default_masks)


def _check_readable(files: Iterable[Path]) -> None:
    """Fail before anything is written; opening a pipe would use it up."""
    for path in files:
        if not path.exists() or path.is_file() or path.is_dir():
            path.open("rb").close()


def _reject(path: Path, line: RunLine, reason: str, total: _AddCounts) -> None:
    total.rejected += 1
    _report(path, RunLine(line.number, None, reason), total.rejected)


def _report(path: Path, line: RunLine, seen: int) -> None:
    if seen <= _SHOWN_PROBLEMS:
        sys.stderr.write(f"{sanitize(str(path))}:{line.number}: rejected: {sanitize(line.reason)}\n")
