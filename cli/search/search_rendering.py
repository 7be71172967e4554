"""Results of a search, for people (SEARCH-6, SEARCH-8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from recall_loop.cli.core.run_rendering import format_minute
from recall_loop.cli.core.screen import Screen, make_console, sanitize
from recall_loop.memory.search.present.result_display import TruncationProfile, truncate_hits
from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.state.display import CONTENT_TYPE_TEXTS, format_count
from recall_loop.state.records.records import Record

_MIN_TEXT_WIDTH = 24


def print_results(response: SearchResponse, profile: TruncationProfile) -> None:
    """Write the results as a table, or what was searched if there are none."""
    screen = Screen(make_console(tables=True))
    if response.degraded_reason:
        screen.line(f"warning: {response.degraded_reason}", "yellow")
    if response.corrected:
        screen.line(f"spelling: {response.corrected}", "yellow")
    if response.time_range:
        ends = (("from", response.time_range.start), ("before", response.time_range.end))
        screen.line(f"time: {' '.join(f'{word} {format_minute(end)}' for word, end in ends if end)}", "dim")
    if not response.hits:
        screen.line(_empty_line(response), "bold")
        screen.line(_searched_line(response), "dim")
        return
    screen.console.print(_table(response, profile))
    screen.line(
        f"{format_count(len(response.hits), 'result')} out of {format_count(response.allowed, 'record')}", "bold"
    )
    screen.line(_searched_line(response), "dim")


def _table(response: SearchResponse, profile: TruncationProfile) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name in ("", "score", "similar"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("what", "author", "time"):
        table.add_column(name, overflow="fold", max_width=20)
    table.add_column("text", overflow="fold", min_width=_MIN_TEXT_WIDTH)
    for rank, (hit, text) in enumerate(zip(response.hits, truncate_hits(response, profile), strict=True), start=1):
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
            scores = " · ".join(f"{name} {_format_retriever_score(value)}" for name, value in hit.debug.items())
            body.append(f"\n{sanitize(scores)}", style="dim")
        table.add_row(*(Text(sanitize(cell)) for cell in cells), body)
    return table


def _valid_until(record: Record) -> str:
    """Return the day on which a fact ceased to be true; nothing for what still is."""
    until = getattr(record, "valid_until", None)
    return f" until {until.date().isoformat()}" if until is not None else ""


def _format_retriever_score(value: object) -> str:
    if isinstance(value, Mapping) and {"rank", "score"} <= set(value):
        return f"#{value['rank']} ({value['score']:.3f})"
    return json.dumps(value, default=str, ensure_ascii=False)


def _empty_line(response: SearchResponse) -> str:
    if not response.allowed:
        return "Nothing to search: no record matches the scope, the types and the filters."
    return f"Nothing found among {format_count(response.allowed, 'record')}."


def _searched_line(response: SearchResponse) -> str:
    scope = response.scope.model_dump(mode="json", exclude_none=True)
    if response.scope.agent_id is None:
        scope.pop("mode")
    filters = response.filters.model_dump(mode="json", exclude_none=True)
    return (
        f"searched {_pairs(scope)}; types {', '.join(response.content_types)}; "
        f"filters {_pairs(filters) or 'none'}; retrievers {', '.join(response.legs)}; generation {response.generation}"
    )


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items())


def _plain(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
