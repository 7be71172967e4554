"""The actions of `recall-loop store` with single records: list, update."""

from __future__ import annotations

import argparse
import json
from typing import Any

from recall_loop.cli.core.common import open_as_it_is, open_store, scope_from, warn_of_empty_scope
from recall_loop.cli.core.filter_pairs import filters_from
from recall_loop.cli.core.screen import Screen, print_json
from recall_loop.memory.intake.files.record_lines import export_line
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.settings.settings import Settings

# Fields whose values aren't text.
_JSON_FIELDS = frozenset({"attributes", "blocks", "confidence", "position", "source_ids", "tags"})


def list_records(args: argparse.Namespace, settings: Settings) -> int:
    """Print a page of records, newest first (API-1)."""
    filters, scope = filters_from(args.filter, "--filter"), scope_from(args, settings)
    with open_as_it_is(settings) as store:
        page = store.newest(scope, filters, args.content_types, after=args.after, limit=args.limit)
        if not page:
            warn_of_empty_scope(store, scope)
    if args.json:
        print_json({"records": [json.loads(export_line(record)) for record in page], "after": page.after})
        return 0
    screen = Screen()
    for record in page:
        screen.line(_line(record))
    if page.after:
        screen.line(f"More: --after {page.after}", style="dim")
    return 0


def update_record(args: argparse.Namespace, settings: Settings) -> int:
    """Change some fields of a record (API-1, API-3); raises where there is none."""
    changes = dict(_change(pair) for pair in args.changes)
    with open_store(settings) as store:
        record = store.update(args.id, changes, tenant=settings.tenant, actor=args.actor)
    Screen().line(_line(record))
    return 0


def _change(pair: str) -> tuple[str, Any]:
    """Return a field and its new value: JSON where it is some, but text for fields that take text alone."""
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise InvalidInputError("FIELD=VALUE", pair, "a field of the record, `=` and its new value")
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    is_text = name not in _JSON_FIELDS and read is not None
    return name, value if is_text and not isinstance(read, str) else read


def _line(record: Record) -> str:
    when = record.created_at.isoformat(timespec="seconds") if record.created_at else "-"
    said_by = record.author or (record.role.value if record.role else None)
    return f"{record.id}  {when}  {record.kind.value}  {f'{said_by}: ' if said_by else ''}{record.text}"
