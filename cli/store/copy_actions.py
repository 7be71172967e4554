"""The actions of `recall-loop store` that copy one: backup (OPS-8), move (HOST-4)."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from recall_loop.cli.core.common import open_as_it_is, store_path
from recall_loop.cli.core.progress_bars import progress_bar
from recall_loop.cli.core.screen import Screen, print_json
from recall_loop.cli.store.store_actions import expired_words
from recall_loop.memory.store.backup import not_a_folder_error
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.files.store_place import checked_place, is_address, shown_place
from recall_loop.memory.store.moving.move_store import MoveReport, move_store
from recall_loop.state.display import format_count
from recall_loop.state.settings.settings import Settings


def backup(args: argparse.Namespace, settings: Settings) -> int:
    """Copy the store to TARGET, and say how many records the copy has."""
    source, target = store_path(settings), checked_place(args.target, "TARGET")
    if is_address(source):
        raise not_a_folder_error(source)
    with open_as_it_is(settings) as store:
        report = store.maintenance.backup(target)
    records, place = report.records or 0, shown_place(target)
    if args.json:
        print_json({"records": records, "expired": report.expired or 0, "target": place})
    else:
        copied = f"{format_count(records, 'record')}{expired_words(report)}"
        Screen().line(f"Backed up {copied} to {place}; the first open for writing completes it.")
    return 0


def move(args: argparse.Namespace, settings: Settings) -> int:
    """Copy the store to `--to`, compare both sides, and say what was compared."""
    source, target = store_path(settings), checked_place(args.to, "--to")
    with progress_bar("move", None, "rows") as advance:
        report = move_store(
            source,
            target,
            embedder=make_embedder(settings),
            url=settings.chroma_url,
            progress=lambda _, rows: advance(rows, rows),
        )
    if args.json:
        print_json(asdict(report) | {"records": report.records})
    else:
        _print_report(report, shown_place(source), shown_place(target))
    return 0


def _print_report(report: MoveReport, source: str, target: str) -> None:
    screen = Screen()
    screen.line(f"{'table':<12} {'rows':>12}  checksum, the same on both sides")
    for name, total in report.tables.items():
        screen.line(f"{name:<12} {total.rows:>12,}  {total.checksum}")
    how = ", continuing an interrupted move" if report.resumed else ""
    how = " in an earlier run of this move" if report.done_before else how
    screen.line(f"Moved {format_count(report.records, 'record')} to {target}{how}; {source} is unchanged.")
