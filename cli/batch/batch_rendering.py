"""The summary of a batch: a small table for people, or JSON (OPS-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from recall_loop.cli.core.screen import Screen, print_json, sanitize
from recall_loop.graph.batch.batch_output import BatchSummary
from recall_loop.state.display import format_count


def print_summary(output: Path, summary: BatchSummary, seconds: float) -> None:
    """Write where the result lines are and how the requests ended."""
    screen = Screen()
    skipped = f", {summary.skipped:,} done by an earlier run" if summary.skipped else ""
    outcome = f"{summary.succeeded:,} answered, {summary.failed:,} failed{skipped}"
    screen.line(f"{output}: {format_count(summary.total, 'request')}: {outcome}", "bold")
    for name, value in _rows(summary, seconds):
        screen.row(Text(f"{name:<14}  ", "dim"), Text(sanitize(value)), indent=2)


def _rows(summary: BatchSummary, seconds: float) -> Iterator[tuple[str, str]]:
    done = summary.total - summary.skipped
    rate = f", {done / seconds:,.1f} requests/s" if done and seconds > 0 else ""
    yield "time", f"{seconds:,.1f} s{rate}"
    if summary.succeeded:
        yield "stop reasons", _counts(summary.stop_reasons)
        yield "latency", ", ".join(f"{name} {value:,.2f} s" for name, value in summary.latency().items())
        yield "iterations", f"{summary.iterations:,}, {summary.iterations / summary.succeeded:.1f} a request"
    if summary.llm_calls:
        calls, tokens = format_count(summary.llm_calls, "call"), format_count(summary.llm_tokens, "token")
        yield "language model", f"{calls}, {tokens}"
    if summary.degraded:
        yield "degraded", f"{format_count(summary.degraded, 'result')}; `warnings` say why"
    if summary.errors:
        yield "errors", _counts(summary.errors)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common())


def print_summary_json(output: Path, summary: BatchSummary, seconds: float) -> None:
    """Write the summary as one JSON object."""
    print_json({"output": str(output), "seconds": round(seconds, 3), **summary.as_json()})
