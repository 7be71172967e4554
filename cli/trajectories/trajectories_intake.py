"""Past runs brought into a store, scored and migrated."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from recall_loop.cli.core.common import ProblemReport, atomic_output, check_readable, open_store, trajectory_of
from recall_loop.cli.core.progress_bars import progress_bar
from recall_loop.cli.core.screen import Screen, print_json, sanitize_json
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.masking import Masking, make_masking
from recall_loop.memory.trajectories.capture.runs_file import read_runs
from recall_loop.memory.trajectories.legacy_migration import MigrationReport
from recall_loop.memory.trajectories.legacy_migration import migrate_trajectories as migrate_tenant
from recall_loop.memory.trajectories.scoring.outcome_scoring import Scorer, make_scorer
from recall_loop.memory.trajectories.scoring.pending_scores import (
    ScoringReport,
    add_trajectories,
    rescore_record,
    score_pending,
    with_agent_and_tags,
)
from recall_loop.state.display import format_count
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

_BATCH_SIZE = 200  # smaller than for other writes: a language model may score each run in between


def convert(args: argparse.Namespace, _: Settings) -> int:
    """Write runs as records, one a line; 1 where lines couldn't be used, else 0."""
    masking, problems, written = _masking(args), ProblemReport(), 0
    check_readable(args.files)
    with atomic_output(args.output) as out:
        for path in args.files:
            for number, run in read_runs(path, masking):
                if isinstance(run, InvalidLine):
                    problems.add(f"{path}:{number}", "rejected", run.reason)
                    continue
                body = run.model_dump_json(exclude_defaults=True, exclude={"kind"})
                text = f'{{"kind":"trajectory",{body[1:]}'
                out.write((text if args.output else sanitize_json(text)) + "\n")
                written += 1
    problems.close()
    rejected = f", {format_count(problems.count, 'line')} rejected" if problems.count else ""
    sys.stderr.write(f"{format_count(written, 'run')} converted{rejected}\n")
    return 1 if problems.count else 0


def add(args: argparse.Namespace, settings: Settings) -> int:
    """Put runs into a store; 1 where lines couldn't be used, else 0.

    An existing run, with or without a score, is left unchanged.
    """
    masking = _masking(args)
    check_readable(args.files)
    scorer = None if args.score == "later" else make_scorer("--score", args.score, settings)
    with open_store(settings, create=True) as store:
        intake = _RunIntake(args, store, settings.tenant, scorer)
        for path in args.files:
            intake.add_file(path, read_runs(path, masking))
    return intake.close()


class _RunIntake:
    """Adds the runs of files to a store, and counts their outcomes."""

    def __init__(self, args: argparse.Namespace, store: MemoryStore, tenant: str, scorer: Scorer | None) -> None:
        self._store, self._tenant, self._scorer = store, tenant, scorer
        self._label = partial(with_agent_and_tags, agent_id=args.agent, tags=args.tag)
        self._counts: Counter[str] = Counter()
        self._unscored = 0
        self._problems, self._warnings = ProblemReport(), ProblemReport("warning")

    def add_file(self, path: Path, lines: Iterator[tuple[int, Trajectory | InvalidLine]]) -> None:
        """Add the runs of one file."""
        first: dict[str, int] = {}
        while batch := list(islice(lines, _BATCH_SIZE)):
            runs: dict[str, tuple[int, Trajectory]] = {}
            for number, run in batch:
                if isinstance(run, InvalidLine):
                    self._reject(path, number, run.reason)
                    continue
                if (earlier := first.setdefault(run.id, number)) != number:
                    reason = f"id {run.id!r} is also on line {earlier}; the later line wins"
                    self._warnings.add(f"{path}:{number}", "warning", reason)
                runs[run.id] = (number, self._label(run))
            self._add_batch(path, runs)

    def _add_batch(self, path: Path, runs: dict[str, tuple[int, Trajectory]]) -> None:
        records = [record for _, record in runs.values()]
        outcomes = add_trajectories(self._store, records, tenant=self._tenant, scorer=self._scorer)
        for (number, _), outcome in zip(runs.values(), outcomes, strict=True):
            if outcome.status == "rejected":
                self._reject(path, number, outcome.error or "")
                continue
            self._counts[outcome.status] += 1
            written = outcome.status != "unchanged"
            self._unscored += written and run_from_record(outcome.record).outcome_score is None

    def _reject(self, path: Path, number: int, reason: str) -> None:
        self._problems.add(f"{path}:{number}", "rejected", reason)

    def close(self) -> int:
        """Write the counts and return the exit code."""
        self._problems.close()
        self._warnings.close()
        screen, counts = Screen(), self._counts | Counter(rejected=self._problems.count)
        statuses = ("created", "replaced", "unchanged", "rejected")
        screen.line(", ".join(f"{counts[status]:,} {status}" for status in statuses))
        if self._unscored:
            runs = format_count(self._unscored, "run")
            screen.line(f"{runs} not scored yet: `recall-loop trajectories score --pending`")
        return 1 if self._problems.count else 0


def _masking(args: argparse.Namespace) -> Masking:
    return make_masking(args.mask, args.mask_key, defaults=args.default_masks)


def score(args: argparse.Namespace, settings: Settings) -> int:
    """Score runs that have no learning value, or those that are named; 1 where one couldn't be scored, else 0."""
    scorer = make_scorer("--by", args.by, settings)
    if args.ids and (args.pending or args.limit):
        raise InvalidInputError("ID", args.ids[0], "either ids, or --pending and --limit")
    with open_store(settings) as store, progress_bar("score", None, "runs") as advance:
        report = (
            _rescore(store, args.ids, scorer, settings.tenant)
            if args.ids
            else score_pending(
                store,
                scorer,
                scope=Scope(tenant=settings.tenant),
                queued_only=args.pending,
                limit=args.limit,
                progress=lambda report: advance(report.scored, report.scored + report.failed),
            )
        )
    _report_failures(report.errors.items(), "not scored")
    kept = "failed" if args.ids else "failed and queued"
    Screen().line(f"{format_count(report.scored, 'run')} scored, {report.failed:,} {kept}")
    return 1 if report.failed else 0


def _rescore(store: MemoryStore, ids: Iterable[str], scorer: Scorer, tenant: str) -> ScoringReport:
    """Score runs that may have a learning value already; if one doesn't exist, none is scored."""
    records, report = [trajectory_of(store, run_id, tenant) for run_id in dict.fromkeys(ids)], ScoringReport()
    for record in records:
        changed = ScoringReport(failed=1, errors={record.id: "it was changed meanwhile, and is left as it is"})
        report += rescore_record(store, record, scorer, tenant=tenant) or changed
    return report


def migrate(args: argparse.Namespace, settings: Settings) -> int:
    """Rewrite old records, of one tenant or of all; 1 where some couldn't be, else 0."""
    with open_store(settings, read_only=args.dry_run) as store:
        tenants = store.tenants() if args.tenant is None else [args.tenant]
        reports = [_migrate(store, tenant, args.dry_run) for tenant in tenants]
    if args.json:
        print_json([_as_json(report) for report in reports])
    for report in reports:
        if not args.json:
            _show(report)
        _report_failures(report.failed, "not migrated")
    return 1 if any(report.failed for report in reports) else 0


def _report_failures(failures: Iterable[tuple[str, str]], verdict: str) -> None:
    problems = ProblemReport()
    for record_id, reason in failures:
        problems.add(record_id, verdict, reason)
    problems.close()


def _migrate(store: MemoryStore, tenant: str, dry_run: bool) -> MigrationReport:
    with progress_bar(f"migrate {tenant}", None, "records") as advance:
        return migrate_tenant(store, tenant, dry_run=dry_run, on_progress=lambda done, _: advance(done, done))


def _show(report: MigrationReport) -> None:
    screen, would = Screen(), "would be " if report.dry_run else ""
    screen.line(f"tenant {report.tenant}: {format_count(report.migrated, 'old record')} {would}migrated", "bold")
    before = f"{format_count(report.trajectories, 'past run')}, {report.legacy:,} of them old"
    after = f"{format_count(report.trajectories_after, 'past run')}, {report.legacy_after:,} of them old"
    screen.line(f"before: {before}{_format_counts('old outcome type', report.before)}", indent=2)
    screen.line(f"after:  {after}{_format_counts('execution', report.after)}", indent=2)


def _format_counts(heading: str, counts: dict[str, int]) -> str:
    if not counts:
        return ""
    return f" ({heading}: {', '.join(f'{name} {number:,}' for name, number in sorted(counts.items()))})"


def _as_json(report: MigrationReport) -> dict[str, object]:
    return {
        "tenant": report.tenant,
        "dry_run": report.dry_run,
        "migrated": report.migrated,
        "before": {"trajectories": report.trajectories, "old": report.legacy, "by_outcome_type": report.before},
        "after": {
            "trajectories": report.trajectories_after,
            "old": report.legacy_after,
            "by_execution_status": report.after,
        },
        "failed": dict(report.failed),
    }
