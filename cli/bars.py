"""Progress bars on stderr; nothing at all where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]


@contextmanager
def progress_bar(label: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Yield a function of (done out of `total`, number of `unit`s so far) that moves the bar."""
    if not sys.stderr.isatty():
        yield _nothing
        return
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
            rate = f", {items / seconds:,.0f}/s" if seconds > 0 else ""
            progress.update(task, completed=done, words=f"{items:,} {unit}{rate}")

        yield advance


def _nothing(_done: int, _items: int) -> None:
    """Show nothing."""
