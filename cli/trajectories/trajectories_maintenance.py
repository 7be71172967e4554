"""`recall-loop trajectories score` and `migrate` (TRAJ-2, TRAJ-4)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from recall_loop.cli.core.common import open_store
from recall_loop.cli.core.problem_report import ProblemReport
from recall_loop.cli.core.progress_bars import progress_bar
from recall_loop.cli.core.screen import Screen, print_json
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.legacy_migration import MigrationReport
from recall_loop.memory.trajectories.legacy_migration import migrate_trajectories as migrate_tenant
from recall_loop.memory.trajectories.scoring.llm_scoring import make_scorer
from recall_loop.memory.trajectories.scoring.pending_scores import score_pending
from recall_loop.state.display import format_count
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings


def score(args: argparse.Namespace, settings: Settings) -> int:
    """Score runs that have no learning value; 1 where some still have none afterwards, else 0."""
    scorer = make_scorer("--by", args.by, settings)
    with open_store(settings) as store, progress_bar("score", None, "runs") as advance:
        report = score_pending(
            store,
            scorer,
            scope=Scope(tenant=settings.tenant),
            queued_only=args.pending,
            limit=args.limit,
            progress=lambda report: advance(report.scored, report.scored + report.failed),
        )
    _report_failures(report.errors.items(), "not scored")
    Screen().line(f"{format_count(report.scored, 'run')} scored, {report.failed:,} failed and queued")
    return 1 if report.failed else 0


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
