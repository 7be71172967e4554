"""Progress on stderr: a bar on a terminal; elsewhere nothing, or a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]
LINE_SECONDS = 5.0


@contextmanager
def progress_bar(
    label: str, total: int | None, unit: str, *, quiet: bool = False, lines: bool = False
) -> Iterator[Advance]:
    """Yield a function of (done out of `total`, number of `unit`s so far) that shows how far things are.

    With `lines` a line is written every five seconds where stderr is no terminal; `quiet` = nothing anywhere.
    """
    if quiet or not (lines or sys.stderr.isatty()):
        yield _ignore_progress
    elif not sys.stderr.isatty():
        yield _LineProgress(label, total, unit)
    else:
        with _bar(label, total, unit) as advance:
            yield advance


@contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=False) as progress:
        task = progress.add_task(escape(label), total=total, words="")

        def advance(done: int, items: int) -> None:
            seconds = progress.tasks[task].elapsed or 0.0
            rate = f", {_format_rate(items / seconds)}" if seconds > 0 else ""
            progress.update(task, completed=done, words=f"{items:,} {unit}{rate}")

        yield advance


class _LineProgress:
    """Writes "batch: 1,200 of 10,000 requests, 14.2/s, 10 min left", at most one every five seconds."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._began = self._told = time.monotonic()

    def __call__(self, done: int, items: int) -> None:
        """Tell how far things are, if it is time."""
        now = time.monotonic()
        if now - self._told < LINE_SECONDS:
            return
        self._told = now
        rate = items / (now - self._began)
        of = f" of {self._total:,}" if self._total else ""
        left = f", {_format_duration((self._total - done) / rate)} left" if self._total and rate > 0 else ""
        sys.stderr.write(f"{self._label}: {done:,}{of} {self._unit}, {_format_rate(rate)}{left}\n")
        sys.stderr.flush()


def _format_rate(each_second: float) -> str:
    return f"{each_second:,.0f}/s" if each_second >= 10 else f"{each_second:.1f}/s"


def _format_duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _ignore_progress(_done: int, _items: int) -> None:
    """Show nothing."""
