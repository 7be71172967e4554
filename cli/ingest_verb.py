"""`recall-loop ingest`: files of records or conversations into a store (STORE-2, OPS-2)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import (
    add_batch_size_option,
    add_store_option,
    add_tenant_option,
    open_store,
    read_settings,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.intake.files.ingest import IngestOptions, IngestProblem, IngestSummary
    from recall_loop.memory.store.store import MemoryStore

_SHOWN_PROBLEMS = 20
_DESCRIPTION = """\
Read JSON Lines files into a store, one record a line (docs/records.md). A line that can't be used is
reported, and written to a rejects file with its reason; the rest goes in, and the exit code is 1.
Running it again is safe: the same file gives the same records. A run that was cut short goes on where
the store had acknowledged it.
"""
_EXAMPLE = """\
example:
  recall-loop ingest notes.jsonl chat.jsonl --store ./memory --tenant acme
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
        help="records: our own; locomo: conversations in LoCoMo's layout (default: %(default)s)",
    )
    add_batch_size_option(parser, "lines")
    parser.add_argument("--rejects", type=Path, metavar="FILE", help="where bad lines go (default: FILE.rejects.jsonl)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on where a run of the same file was cut short (default: on)",
    )


def run(args: argparse.Namespace) -> int:
    """Ingest the files; 1 where lines were rejected, else 0.

    Raises:
        InvalidInputError: an option is not allowed.
        StoreError: the store can't be opened or written.
        OSError: a file can't be read.
    """
    from recall_loop.memory.intake.files.ingest import IngestOptions

    for path in args.files:  # before anything is written; opening a pipe would use it up
        if not path.exists() or path.is_file() or path.is_dir():
            path.open("rb").close()
    settings = read_settings(args)
    options = IngestOptions(
        tenant=settings.tenant if args.tenant is None else args.tenant,
        format_name=args.format,
        batch_size=args.batch_size,
        resume=args.resume,
    )
    rejected = 0
    with open_store(args.store, settings, create=True, read_only=False) as store:
        for path in args.files:
            rejected += _ingest(path, store, options, args.rejects).rejected
    return 1 if rejected else 0


def _ingest(path: Path, store: MemoryStore, options: IngestOptions, rejects_path: Path | None) -> IngestSummary:
    from recall_loop.cli.core.progress_bars import progress_bar
    from recall_loop.memory.intake.files.ingest import ingest_file

    reporter = _IngestReporter()
    size = path.stat().st_size if path.is_file() else None
    with progress_bar(path.name, size, "lines") as advance:
        summary = ingest_file(
            path,
            store,
            options,
            rejects_path=rejects_path,
            on_problem=reporter.problem,
            on_progress=lambda line, offset: advance(offset or 0, line),
        )
    reporter.close(summary)
    return summary


class _IngestReporter:
    """Writes the first problems of a file to stderr, and how many there were."""

    def __init__(self) -> None:
        self._seen = 0

    def problem(self, problem: IngestProblem) -> None:
        from recall_loop.cli.core.rendering import sanitize

        self._seen += 1
        if self._seen <= _SHOWN_PROBLEMS:
            word = "rejected" if problem.rejected else "warning"
            sys.stderr.write(f"{sanitize(str(problem.path))}:{problem.line}: {word}: {sanitize(problem.reason)}\n")

    def close(self, summary: IngestSummary) -> None:
        from recall_loop.cli.core.rendering import Screen, sanitize
        from recall_loop.state.display import format_count

        if self._seen > _SHOWN_PROBLEMS:
            sys.stderr.write(f"… and {format_count(self._seen - _SHOWN_PROBLEMS, 'more problem')}\n")
        parts = [f"{summary.created:,} created", f"{summary.replaced:,} replaced"]
        parts += [f"{summary.unchanged:,} unchanged", f"{summary.rejected:,} rejected"]
        if summary.duplicates:
            parts.append(f"{format_count(summary.duplicates, 'id')} given more than once")
        if summary.skipped_lines:
            parts.append(f"{format_count(summary.skipped_lines, 'line')} done by an earlier run")
        Screen().line(f"{summary.path}: {', '.join(parts)} ({summary.seconds:.1f} s)")
        if summary.rejected:
            sys.stderr.write(f"Rejected lines are in {sanitize(str(summary.rejects_path))}\n")
