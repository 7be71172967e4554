"""`recall-loop store backup`: a copy of a whole store, while others write to it (OPS-8)."""

from __future__ import annotations

import argparse

from recall_loop.cli.core.common import open_as_it_is, store_path
from recall_loop.cli.core.screen import Screen, print_json
from recall_loop.memory.store.backup import not_a_folder_error
from recall_loop.memory.store.files.store_place import checked_place, is_address, shown_place
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
        print_json({"records": records, "target": place})
    else:
        Screen().line(
            f"Backed up {format_count(records, 'record')} to {place}; the first open for writing completes it."
        )
    return 0
