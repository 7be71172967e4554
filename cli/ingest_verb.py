"""`recall-loop ingest`: files of records, messages, exports, tables or notes into a store (STORE-2, MOVE-1)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import (
    add_batch_size_option,
    add_language_option,
    add_owner_options,
    add_store_option,
    add_tenant_option,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.cli.core.ingest_files import FileRun
    from recall_loop.memory.intake.files.entries import FileOwner
    from recall_loop.memory.intake.files.ingest import IngestOptions, IngestSummary
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Read files into a store: records (docs/records.md), lists of chat messages (OpenAI, LangChain), exports from ChatGPT,
Claude and Slack as downloaded or unpacked, WhatsApp and Telegram chats, mail (mbox, .eml), CSV tables, Markdown notes
and plain text; for a folder, all files in it. The detected format is printed first; --dry-run shows the first records
and writes nothing. An item that can't be stored is reported and written to a rejects file with the reason, and one of
several files that can't be read is named and skipped; the others are stored, and the exit code is 1. If no file can be
read, it is 2 and nothing is written. Running it again is safe: the same file gives the same records. An interrupted
run of records continues after the last acknowledged lines.
"""
_EXAMPLE = """\
examples:
  recall-loop ingest conversations.json --user ada --store ./my-memory --dry-run
  recall-loop ingest notes.md chat.jsonl slack-export.zip --store ./my-memory --tenant acme
  recall-loop ingest ~/Documents/vault --store ./my-memory
  recall-loop ingest 'WhatsApp Chat - Ines.zip' Inbox.mbox --user ada --timezone Europe/Oslo --store ./my-memory
  recall-loop ingest talk.json --format openai --user ada --conversation monday --store ./my-memory
"""
_FORMATS = (
    "auto",
    "records",
    "openai",
    "langchain",
    "chatgpt",
    "claude",
    "slack",
    "whatsapp",
    "telegram",
    "mail",
    "csv",
    "markdown",
    "text",
    "locomo",
)

_OWNER = ("user_id", "agent_id", "conversation_id", "language", "timezone")
_STANDARD_INPUT = Path("/dev/stdin")


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "ingest",
        help="read files of records, messages, exports, tables or notes into a store",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="files in UTF-8 (tables also as Excel saves them), ZIP exports, folders of either, or - for standard "
        "input",
    )
    add_store_option(parser, writes=True)
    add_tenant_option(parser)
    add(
        "--format",
        choices=_FORMATS,
        default="auto",
        help="format of the files, see docs/records.md (default: %(default)s, detected from the content)",
    )
    add("--dry-run", action="store_true", help="show the format, the first three records and counts; write nothing")
    whose = parser.add_argument_group("defaults for records that don't set these")
    add_owner_options(whose, "their conversation (default for messages: the file's name)")
    add_language_option(whose, "those that state none", "each text")
    whose.add_argument(
        "--timezone", metavar="ZONE", help="time zone of times without one, such as Europe/Berlin (default: UTC)"
    )
    add_batch_size_option(parser, "lines")
    add("--rejects", type=Path, metavar="FILE", help="file for rejected lines (default: FILE.rejects.jsonl)")
    add(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="continue an interrupted run of the same file (default: on)",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ingest the files, or show what is in them; 1 where items were rejected or files skipped, else 0."""
    from recall_loop.cli.core.common import check_readable
    from recall_loop.cli.core.ingest_files import FileRun, find_files
    from recall_loop.memory.intake.files.entries import FileOwner
    from recall_loop.memory.intake.files.file_preview import examine_file

    owner = FileOwner(**{name: getattr(args, name) for name in _OWNER})
    given = [_STANDARD_INPUT if str(path) == "-" else path for path in args.files]
    files = FileRun(find_files(given, settings, args.rejects))

    def examine(path: Path) -> None:
        check_readable([] if path.is_dir() else [path])
        examine_file(path, args.format, owner)

    readable = files.readable(examine)  # an unsupported file is reported before anything is written
    if args.dry_run:
        rejected = _show_all(files, readable, args.format, owner)
    else:
        rejected = _ingest_all(files, readable, settings, args, owner)
    return 1 if rejected or files.skipped else 0


def _show_all(files: FileRun, paths: Sequence[Path], format_name: str, owner: FileOwner) -> bool:
    """Show what ingest would do with each file; return whether items would be rejected."""
    from recall_loop.cli.core.ingest_files import show_preview

    previews = files.read_each(paths, lambda path: show_preview(path, format_name, owner))
    files.close(len(previews))
    return any(preview.rejected for _, preview in previews)


def _ingest_all(
    files: FileRun, paths: Sequence[Path], settings: Settings, args: argparse.Namespace, owner: FileOwner
) -> bool:
    """Ingest each file; return whether items were rejected."""
    from recall_loop.cli.core.common import open_store
    from recall_loop.memory.intake.files.ingest import IngestOptions

    options = IngestOptions(settings.tenant, args.batch_size, args.format, args.resume, owner)
    with open_store(settings, create=True) as store:
        summaries = files.read_each(paths, lambda path: _ingest(path, store, options, args.rejects))
    files.close(len(summaries))
    return any(summary.rejected for _, summary in summaries)


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
    _print_summary(summary, options.format_name)
    return summary


def _print_summary(summary: IngestSummary, format_name: str) -> None:
    from recall_loop.cli.core.screen import Screen, sanitize
    from recall_loop.state.display import format_count

    counts = [f"{summary.created:,} created", f"{summary.replaced:,} replaced"]
    counts += [f"{summary.unchanged:,} unchanged", f"{summary.rejected:,} rejected"]
    counts += [f"{number:,} left out ({why})" for why, number in sorted(summary.left_out.items())]
    if summary.duplicates:
        counts.append(f"{format_count(summary.duplicates, 'id')} given more than once")
    if summary.warnings:
        counts.append(format_count(summary.warnings, "warning"))
    if summary.skipped_lines:
        counts.append(f"{format_count(summary.skipped_lines, 'line')} done by an earlier run")
    taken = f"{summary.format_words}: " if format_name == "auto" else ""
    if not (summary.stored or summary.rejected or summary.left_out or summary.skipped_lines):
        counts = ["nothing in it to keep"]
    Screen().line(f"{summary.path}: {taken}{', '.join(counts)} ({summary.seconds:.1f} s)")
    if summary.rejected:
        sys.stderr.write(f"Rejected lines are in {sanitize(str(summary.rejects_path))}\n")
