"""`recall-loop ingest`: files of records or conversations into a store (STORE-2, OPS-2)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import add_batch_size_option, add_store_option, add_tenant_option

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.intake.files.ingest import IngestOptions, IngestSummary
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Read JSON Lines files into a store, one record per line (docs/records.md). An invalid line is reported
and written to a rejects file with the reason; the others are stored, and the exit code is 1.
Running it again is safe: the same file gives the same records. An interrupted run continues after the
last lines that the store acknowledged.
"""
_EXAMPLE = """\
example:
  recall-loop ingest notes.jsonl chat.jsonl --store ./my-memory --tenant acme
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "ingest", help="read files of records into a store", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON Lines files, UTF-8")
    add_store_option(parser)
    add_tenant_option(parser)
    parser.add_argument(
        "--format",
        choices=("records", "locomo"),
        default="records",
        help="records: our own format; locomo: conversations in LoCoMo's layout (default: %(default)s)",
    )
    add_batch_size_option(parser, "lines")
    parser.add_argument("--rejects", type=Path, metavar="FILE", help="for rejected lines (default: FILE.rejects.jsonl)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="continue an interrupted run of the same file (default: on)",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ingest the files; 1 where lines were rejected, else 0."""
    from recall_loop.cli.core.common import check_readable, open_store
    from recall_loop.memory.intake.files.ingest import IngestOptions

    check_readable(args.files)
    options = IngestOptions(
        tenant=settings.tenant, format_name=args.format, batch_size=args.batch_size, resume=args.resume
    )
    with open_store(settings, create=True) as store:
        summaries = [_ingest(path, store, options, args.rejects) for path in args.files]
    return 1 if any(summary.rejected for summary in summaries) else 0


def _ingest(path: Path, store: MemoryStore, options: IngestOptions, rejects_path: Path | None) -> IngestSummary:
    from recall_loop.cli.core.common import ProblemReport
    from recall_loop.cli.core.progress_bars import progress_bar
    from recall_loop.memory.intake.files.ingest import ingest_file

    problems = ProblemReport()
    size = path.stat().st_size if path.is_file() else None
    with progress_bar(path.name, size, "lines") as advance:
        summary = ingest_file(
            path,
            store,
            options,
            rejects_path=rejects_path,
            on_problem=lambda problem: problems.add(
                f"{problem.path}:{problem.line}", "rejected" if problem.rejected else "warning", problem.reason
            ),
            on_progress=lambda line, offset: advance(offset or 0, line),
        )
    problems.close()
    _print_summary(summary)
    return summary


def _print_summary(summary: IngestSummary) -> None:
    from recall_loop.cli.core.screen import Screen, sanitize
    from recall_loop.state.display import format_count

    counts = [f"{summary.created:,} created", f"{summary.replaced:,} replaced"]
    counts += [f"{summary.unchanged:,} unchanged", f"{summary.rejected:,} rejected"]
    if summary.duplicates:
        counts.append(f"{format_count(summary.duplicates, 'id')} given more than once")
    if summary.skipped_lines:
        counts.append(f"{format_count(summary.skipped_lines, 'line')} done by an earlier run")
    Screen().line(f"{summary.path}: {', '.join(counts)} ({summary.seconds:.1f} s)")
    if summary.rejected:
        sys.stderr.write(f"Rejected lines are in {sanitize(str(summary.rejects_path))}\n")
