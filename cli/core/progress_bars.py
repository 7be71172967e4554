"""Progress on stderr: a bar on a terminal; elsewhere nothing, or a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from recall_loop.evals.runs.dataset_ingest import StageProgress

Advance = Callable[[int, int], None]
LINE_SECONDS = 5.0


@contextmanager
def progress_bar(
    label: str, total: int | None, unit: str, *, quiet: bool = False, lines: bool = False
) -> Iterator[Advance]:
    """Yield a function of (done out of `total`, number of `unit`s so far) that shows the progress.

    With `lines` a line is written every five seconds where stderr is no terminal; `quiet` = nothing anywhere.
    """
    terminal = sys.stderr.isatty()
    if lines and not (quiet or terminal):
        yield _LineProgress(label, total, unit)
        return
    with _bars(hidden=quiet or not terminal) as bars:
        task = bars.add_task(label, total=total, words="")

        def advance(done: int, items: int) -> None:
            seconds = bars.tasks[task].elapsed or 0.0
            rate = f", {_format_rate(items / seconds)}" if seconds > 0 else ""
            bars.update(task, completed=done, words=f"{items:,} {unit}{rate}")

        yield advance


@contextmanager
def stage_progress() -> Iterator[StageProgress]:
    """Yield a function of (stage, done, total) that shows how far ingesting and asking are; on a terminal only."""
    with _bars(hidden=not sys.stderr.isatty()) as bars:
        tasks = {stage: bars.add_task(stage, total=None, words="") for stage in ("ingest", "ask")}

        def advance(stage: str, done: int, total: int) -> None:
            bars.update(tasks[stage], completed=done, total=total, words=f"{done:,}/{total:,}")

        yield advance


@contextmanager
def rebuild_progress() -> Iterator[tuple[Advance, Advance]]:
    """Yield two functions of (records done, records in all): for embedding, and for the index of vectors.

    Each has a bar on a terminal. Elsewhere embedding, which may take hours, writes a line every five seconds. If the
    first call says that some are embedded already, a line says so too.
    """
    with _bars(hidden=not sys.stderr.isatty()) as bars:
        yield _Stage(bars, "embed", resumable=True), _Stage(bars, "rebuild")


class _Stage:
    """One of several stages that share their bars; it has one from its first call on."""

    def __init__(self, bars: Progress, label: str, *, resumable: bool = False) -> None:
        self._bars, self._label, self._resumable = bars, label, resumable
        self._lines: _LineProgress | None = None
        self._task: TaskID | None = None
        self._first = 0

    def __call__(self, done: int, total: int) -> None:
        """Show how many records are done."""
        if self._task is None:
            self._task = self._begin(done, total)
        now = done - self._first
        if self._lines is not None:
            self._lines(done, now)
        seconds = self._bars.tasks[self._task].elapsed or 0.0
        rate = f", {_format_rate(now / seconds)}" if now and seconds > 0 else ""
        words = f"{done:,} of {total:,} records{rate}"
        self._bars.update(self._task, completed=done, total=total, words=words)

    def _begin(self, done: int, total: int) -> TaskID:
        self._first = done
        if self._resumable and done:
            words = f"resuming: {done:,} of {total:,} are embedded already"
            self._bars.console.print(words, highlight=False, soft_wrap=True)
        if self._resumable and self._bars.disable:
            self._lines = _LineProgress(self._label, total, "records")
        return self._bars.add_task(self._label, total=total, completed=done, words="")


def _bars(*, hidden: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=hidden,
    )


class _LineProgress:
    """Writes "batch: 1,200 of 10,000 requests, 14.2/s, 10 min left", at most one every five seconds."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._began = self._last_line = time.monotonic()

    def __call__(self, done: int, items: int) -> None:
        """Write a line if the last one is five seconds old."""
        now = time.monotonic()
        if now - self._last_line < LINE_SECONDS:
            return
        self._last_line = now
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
