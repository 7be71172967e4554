"""The summary of a batch: a small table for people, or JSON (OPS-3)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table
from rich.text import Text

from recall_loop.cli.core.rendering import Screen, make_console, sanitize, sanitize_json
from recall_loop.graph.batch.batch_summary import BatchSummary
from recall_loop.state.display import format_count


def print_summary(output: Path, summary: BatchSummary, seconds: float) -> None:
    """Write where the lines are and what became of the requests."""
    screen = Screen(make_console())
    skipped = f", {summary.skipped:,} done by an earlier run" if summary.skipped else ""
    words = f"{summary.succeeded:,} answered, {summary.failed:,} failed{skipped}"
    screen.line(f"{output}: {format_count(summary.total, 'request')}: {words}", "bold")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(summary, seconds):
        table.add_row(f"  {name}", Text(sanitize(value)))
    if sys.stdout.isatty():
        screen.console.print(table)
    else:
        for name, value in _rows(summary, seconds):
            screen.line(f"{name:<14}  {value}", indent=2)


def _rows(summary: BatchSummary, seconds: float) -> Iterator[tuple[str, str]]:
    done = summary.total - summary.skipped
    rate = f", {done / seconds:,.1f} requests/s" if done and seconds > 0 else ""
    yield "time", f"{seconds:,.1f} s{rate}"
    if summary.succeeded:
        yield "stop reasons", _counts(summary.stop_reasons)
        yield "latency", ", ".join(f"{name} {value:,.2f} s" for name, value in summary.latency().items())
        yield "iterations", f"{summary.iterations:,}, {summary.iterations / summary.succeeded:.1f} a request"
    if summary.llm_calls:
        yield (
            "language model",
            f"{format_count(summary.llm_calls, 'call')}, {format_count(summary.llm_tokens, 'token')}",
        )
    if summary.degraded:
        yield "degraded", f"{format_count(summary.degraded, 'result')}; `warnings` say why"
    if summary.errors:
        yield "errors", _counts(summary.errors)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common())


def print_summary_json(output: Path, summary: BatchSummary, seconds: float) -> None:
    """Write the summary as one JSON object."""
    figures = {"output": str(output), "seconds": round(seconds, 3), **summary.as_json()}
    sys.stdout.write(sanitize_json(json.dumps(figures)) + "\n")
