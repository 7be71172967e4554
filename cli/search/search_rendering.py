"""Results of a search, for people and as JSON (SEARCH-6, SEARCH-8)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from recall_loop.cli.core.fact_rendering import format_minute
from recall_loop.cli.core.safe_text import sanitize
from recall_loop.cli.core.screen import Screen, make_console, print_json
from recall_loop.memory.search.present.serialization import response_to_json, truncate_hits
from recall_loop.memory.search.present.truncation import FULL_PROFILE, TruncationProfile, parse_profile, profile_for
from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.state.display import CONTENT_TYPE_TEXTS, format_count
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams

_MIN_TEXT_WIDTH = 24


def read_profile(args: argparse.Namespace, scope: Scope, params: SearchParams) -> TruncationProfile:
    """Return how much of each text is shown.

    Raises:
        InvalidInputError: `--profile` is neither a name nor a list of steps.
    """
    if args.full:
        return FULL_PROFILE
    return parse_profile(args.profile) if args.profile else profile_for(scope, params.searched_types)


def print_results(found: SearchResponse, profile: TruncationProfile) -> None:
    """Write the results as a table, or what was searched if there are none."""
    screen = Screen(make_console(tables=True))
    if found.degraded_reason:
        screen.line(f"warning: {found.degraded_reason}", "yellow")
    if found.corrected:
        screen.line(f"spelling: {found.corrected}", "yellow")
    if found.time_range:
        ends = (("from", found.time_range.start), ("before", found.time_range.end))
        screen.line(f"time: {' '.join(f'{word} {format_minute(end)}' for word, end in ends if end)}", "dim")
    if not found.hits:
        screen.line(_empty_line(found), "bold")
        screen.line(_searched_line(found), "dim")
        return
    screen.console.print(_table(found, profile))
    screen.line(f"{format_count(len(found.hits), 'result')} out of {format_count(found.allowed, 'record')}", "bold")
    screen.line(_searched_line(found), "dim")


def print_results_json(found: SearchResponse, profile: TruncationProfile) -> None:
    """Write everything about the results, and what was searched."""
    print_json(response_to_json(found, profile), indent=2)


def _table(found: SearchResponse, profile: TruncationProfile) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name in ("", "score", "similar"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("what", "author", "time"):
        table.add_column(name, overflow="fold", max_width=20)
    table.add_column("text", overflow="fold", min_width=_MIN_TEXT_WIDTH)
    for rank, (hit, text) in enumerate(zip(found.hits, truncate_hits(found, profile), strict=True), start=1):
        record = hit.record
        shown = f"[{record.label}] {text.text}" if record.label else text.text
        cells = (
            str(rank),
            f"{hit.score:.3f}",
            f"{hit.similarity:.3f}",
            f"{CONTENT_TYPE_TEXTS[record.kind]} {record.id}",
            record.author or record.subject or record.agent_name or "",
            format_minute(record.created_at) + _valid_until(record),
        )
        body = Text(sanitize(shown))
        if hit.debug is not None:
            body.append(f"\n{sanitize(_retriever_scores(hit.debug))}", style="dim")
        table.add_row(*(Text(sanitize(cell)) for cell in cells), body)
    return table


def _valid_until(record: Record) -> str:
    """Return the day on which a fact ceased to be true; nothing for what still is."""
    until = getattr(record, "valid_until", None)
    return f" until {until.date().isoformat()}" if until is not None else ""


def _retriever_scores(debug: Mapping[str, Any]) -> str:
    """Return the rank and score of each retriever on one line."""
    return " · ".join(f"{name} {_format_retriever_score(value)}" for name, value in debug.items())


def _format_retriever_score(value: object) -> str:
    if isinstance(value, Mapping) and {"rank", "score"} <= set(value):
        return f"#{value['rank']} ({value['score']:.3f})"
    return json.dumps(value, default=str, ensure_ascii=False)


def _empty_line(found: SearchResponse) -> str:
    if not found.allowed:
        return "Nothing to search: there is no record that scope, types and filters leave."
    return f"Nothing found among {format_count(found.allowed, 'record')}."


def _searched_line(found: SearchResponse) -> str:
    scope = found.scope.model_dump(mode="json", exclude_none=True)
    if found.scope.agent_id is None:
        scope.pop("mode")
    filters = found.filters.model_dump(mode="json", exclude_none=True)
    return (
        f"looked in {_pairs(scope)}; types {', '.join(found.content_types)}; "
        f"filters {_pairs(filters) or 'none'}; legs {', '.join(found.legs)}; generation {found.generation}"
    )


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items())


def _plain(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
