"""`recall-loop import`: memories of mem0, LangGraph's store or Letta into a store (STORE-2, OPS-6)."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import add_batch_size_option, add_store_option, add_tenant_option

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.intake.imports.external_memory import ImportSource
    from recall_loop.memory.intake.imports.import_run import ImportSummary, RejectedItem
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Import memories from another system (docs/importing.md). The source is opened read-only and read
completely before anything is written. Ids are kept, so the same command can be run again: it continues
after an interruption, and later it imports only changes.
"""
_EXAMPLE = """\
examples:
  recall-loop import mem0 /tmp/qdrant --history ~/.mem0/history.db --store ./my-memory --tenant acme
  recall-loop import langgraph-store store.sqlite --namespace 'memories.{user}' --store ./my-memory --dry-run
  recall-loop import letta memories.json --agent support --store ./my-memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb, the systems and their options."""
    parser = subparsers.add_parser(
        "import", help="import memories from another system", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    systems = parser.add_subparsers(dest="system", metavar="SYSTEM", required=True)
    mem0 = _add(systems, "mem0", "mem0's local vector store (Qdrant or Chroma), or a file with the output of get_all")
    mem0.add_argument("--collection", metavar="NAME", help="collection to read (default: mem0, else the only one)")
    mem0.add_argument("--history", type=Path, metavar="FILE", help="mem0's history.db: old versions, recent messages")
    _add_expired(mem0, "memories past their expiration date")
    langgraph = _add(systems, "langgraph-store", "the SQLite file of LangGraph's SqliteStore")
    langgraph.add_argument(
        "--namespace",
        metavar="TEMPLATE",
        help="namespaces to import and their owners, such as memories.{user}.*, with {user}, {agent}, "
        "{group}, {conversation}, {session} (default: all, with no owner)",
    )
    langgraph.add_argument(
        "--text-field",
        action="append",
        metavar="PATH",
        help="dotted path of the text in a value; may be repeated: the first that holds text is used "
        "(default: text, content, memory, data, page_content, content.content, else the whole value)",
    )
    _add_expired(langgraph, "items past their time to live")
    _add(systems, "letta", "Letta's archival export (JSON), or an agent file (.af)")


def _add(systems: Any, name: str, words: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = systems.add_parser(name, help=words, description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("source", type=Path, metavar="SOURCE", help=words)
    add_store_option(parser, writes=True)
    add_tenant_option(parser)
    for owner in ("user", "agent", "group"):
        parser.add_argument(f"--{owner}", metavar="ID", help=f"{owner} of items that name none (default: none)")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done (default: off)")
    add_batch_size_option(parser, "records")
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="file for rejected items (default: ./SOURCE.rejects.jsonl)"
    )
    return parser


def _add_expired(parser: argparse.ArgumentParser, items: str) -> None:
    parser.add_argument("--include-expired", action="store_true", help=f"also import {items} (default: off)")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import one source; 1 where items were refused, else 0."""
    from recall_loop.cli.core.common import ProblemReport, open_store
    from recall_loop.cli.core.progress_bars import progress_bar
    from recall_loop.memory.intake.files.batch_writes import WriteOptions
    from recall_loop.memory.intake.imports.import_run import import_source, preview_import

    options, source = WriteOptions(settings.tenant, args.batch_size), _source(args)
    problems = ProblemReport("item")

    def refuse(item: RejectedItem) -> None:
        problems.add(f"{args.source}: {item.location}", "refused", item.reason)

    if args.dry_run:
        with _open_if_exists(settings) as store:
            summary = preview_import(source, store, options, on_rejected=refuse)
    else:
        with open_store(settings, create=True) as store, progress_bar(args.source.name, 1000, "records") as advance:
            summary = import_source(
                source,
                store,
                options,
                rejects_path=args.rejects,
                on_rejected=refuse,
                on_progress=lambda done, total: advance(round(1000 * done / total), done),
            )
    problems.close()
    _print_summary(summary, options.tenant, dry=args.dry_run)
    return 1 if summary.rejected or summary.missing else 0


def _open_if_exists(settings: Settings) -> AbstractContextManager[MemoryStore | None]:
    from recall_loop.cli.core.common import open_store, store_path
    from recall_loop.memory.store.store import MemoryStore

    return open_store(settings, read_only=True) if MemoryStore.exists(store_path(settings)) else nullcontext()


def _source(args: argparse.Namespace) -> ImportSource:
    from recall_loop.memory.intake.imports.external_memory import DefaultOwner

    owner = DefaultOwner(args.user, args.agent, args.group)
    if args.system == "mem0":
        from recall_loop.memory.intake.imports.mem0 import Mem0Source

        expired = args.include_expired
        return Mem0Source(args.source, owner, collection=args.collection, history=args.history, expired=expired)
    if args.system == "letta":
        from recall_loop.memory.intake.imports.letta import LettaSource

        return LettaSource(args.source, owner)
    from recall_loop.memory.intake.imports.langgraph_store import LangGraphStoreSource

    fields = tuple(args.text_field or ())
    return LangGraphStoreSource(
        args.source, owner, namespaces=args.namespace, text_fields=fields, expired=args.include_expired
    )


def _print_summary(summary: ImportSummary, tenant: str, *, dry: bool) -> None:
    from recall_loop.cli.core.screen import Screen, sanitize
    from recall_loop.state.display import format_count

    screen = Screen()
    screen.line(f"{summary.path}: {summary.description}: {format_count(summary.found, 'item')}")
    counts = [f"{summary.created:,} created", f"{summary.replaced:,} replaced"]
    counts += [f"{summary.unchanged:,} unchanged", f"{summary.rejected:,} refused"]
    counts += [f"{number:,} left out ({why})" for why, number in sorted(summary.left_out.items())]
    if summary.repeated:
        counts.append(f"{summary.repeated:,} replaced by a later one with the same id")
    screen.line(f"{'would be: ' if dry else ''}{', '.join(counts)} ({summary.seconds:.1f} s)")
    before, after = (format_count(sum(each.values()), "record") for each in (summary.before, summary.after))
    screen.line(f"tenant {tenant}: {before} before{'' if dry else f', {after} after'}")
    if summary.missing:
        missing = format_count(summary.missing, "record")
        sys.stderr.write(f"{missing} can't be read back: `recall-loop store verify`\n")
    if summary.rejected and not dry:
        sys.stderr.write(f"Refused items are in {sanitize(str(summary.rejects_path))}\n")
