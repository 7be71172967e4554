"""Tables of reports for people: how they look, and how figures read in them."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.markup import escape
from rich.table import Table


def report_table(
    *columns: str, title: str | None = None, left: int = 1, padding: int = 1, no_wrap: bool = False
) -> Table:
    """Return a table; its first `left` columns hold words, the others figures, which `no_wrap` keeps in one line."""
    table = Table(title=title and escape(title), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, padding))
    for name in columns[:left]:
        table.add_column(escape(name), overflow="fold")
    for name in columns[left:]:
        table.add_column(escape(name), justify="right", no_wrap=no_wrap)
    return table


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure with so many decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return names with their counts."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())
