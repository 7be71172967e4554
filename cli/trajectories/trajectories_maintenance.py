"""`recall-loop trajectories score` and `migrate` (TRAJ-2, TRAJ-4)."""

from __future__ import annotations

import argparse
import json
import sys

from recall_loop.cli.core.common import open_store, read_settings
from recall_loop.cli.core.progress_bars import progress_bar
from recall_loop.cli.core.rendering import Screen, sanitize, sanitize_json
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.legacy_migration import MigrationReport
from recall_loop.memory.trajectories.legacy_migration import migrate_trajectories as migrate_tenant
from recall_loop.memory.trajectories.scoring.llm_scoring import make_scorer
from recall_loop.memory.trajectories.scoring.pending_scores import score_pending
from recall_loop.state.display import format_count
from recall_loop.state.scope import Scope

_SHOWN_PROBLEMS = 20


def score(args: argparse.Namespace) -> int:
    """Score runs that have no learning value; 1 where some still have none afterwards, else 0."""
    settings = read_settings(args)
    scorer = make_scorer("--by", args.by, settings)
    scope = Scope(tenant=settings.tenant if args.tenant is None else args.tenant)
    with (
        open_store(args.store, settings, create=False, read_only=False) as store,
        progress_bar("score", None, "runs") as advance,
    ):
        report = score_pending(
            store,
            scorer,
            scope=scope,
            queued_only=args.pending,
            limit=args.limit,
            progress=lambda so_far: advance(so_far.scored, so_far.scored + so_far.failed),
        )
    for record_id, reason in list(report.errors.items())[:_SHOWN_PROBLEMS]:
        sys.stderr.write(f"{sanitize(record_id)}: not scored: {sanitize(reason)}\n")
    Screen().line(f"{format_count(report.scored, 'run')} scored, {report.failed:,} failed and queued")
    return 1 if report.failed else 0


def migrate(args: argparse.Namespace) -> int:
    """Rewrite old records, of one tenant or of all; 1 where some couldn't be, else 0."""
    settings = read_settings(args)
    with open_store(args.store, settings, create=False, read_only=args.dry_run) as store:
        tenants = store.tenants() if args.tenant is None else [args.tenant]
        reports = [_migrate(store, tenant, args.dry_run) for tenant in tenants]
    if args.json:
        Screen().line(sanitize_json(json.dumps([_as_json(report) for report in reports], ensure_ascii=False)))
    else:
        for report in reports:
            _show(report)
    for report in reports:
        for record_id, reason in report.failed[:_SHOWN_PROBLEMS]:
            sys.stderr.write(f"{sanitize(record_id)}: not migrated: {sanitize(reason)}\n")
    return 1 if any(report.failed for report in reports) else 0


def _migrate(store: MemoryStore, tenant: str, dry_run: bool) -> MigrationReport:
    with progress_bar(f"migrate {tenant}", None, "records") as advance:
        return migrate_tenant(store, tenant, dry_run=dry_run, on_progress=lambda done, _: advance(done, done))


def _show(report: MigrationReport) -> None:
    screen, would = Screen(), "would be " if report.dry_run else ""
    screen.line(f"tenant {report.tenant}: {format_count(report.migrated, 'old record')} {would}migrated", "bold")
    before = f"{format_count(report.trajectories, 'past run')}, {report.legacy:,} of them old"
    after = f"{format_count(report.trajectories_after, 'past run')}, {report.legacy_after:,} of them old"
    screen.line(f"before: {before}{_listed('old outcome type', report.before)}", indent=2)
    screen.line(f"after:  {after}{_listed('execution', report.after)}", indent=2)


def _listed(heading: str, counts: dict[str, int]) -> str:
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
