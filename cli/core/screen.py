"""Where verbs print: a console that never lets stored text control the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# Beyond ASCII: C1 controls, separators that break lines, and marks that turn the reading direction.
_UNSAFE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_UNPRINTABLE = re.compile(f"[\x00-\x1f{_UNSAFE}\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSAFE}]")


def sanitize(text: str) -> str:
    """Return `text` on one line with every control or invisible character shown as a symbol."""
    return _UNPRINTABLE.sub(_symbol, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def sanitize_json(value: str) -> str:
    """Return JSON text with terminal controls as escapes; it reads back as the same value."""
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8":
        return json.dumps(json.loads(value))
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", value)


def shorten(text: str, limit: int) -> str:
    """Return `text` with at most `limit` characters, cut at a word, with an ellipsis where cut."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[limit // 2 :] else head).rstrip() + "…"


def dotted(*parts: str | None) -> str:
    """Return the parts that say something, with dots between."""
    return " · ".join(filter(None, parts))


PIPED_WIDTH = 200  # a pipe has no width: table rows aren't wrapped
_BAR_CELLS = 20
_MIN_BAR_CELLS = 6
_VALUE_CELLS = 6


def make_console(*, tables: bool = False) -> Console:
    """Return a console for stdout: colours and wrapping on a terminal only; NO_COLOR is honoured.

    With `tables` a pipe gets rows of 200 cells; else its lines have any length.
    """
    piped = not sys.stdout.isatty()
    width = PIPED_WIDTH if tables and piped else None
    return Console(
        file=sys.stdout, highlight=False, markup=False, emoji=False, width=width, soft_wrap=piped and not tables
    )


def print_json(value: Any, indent: int | None = None) -> None:
    """Write a value as JSON, without anything that a terminal reads as a command."""
    print_json_text(json.dumps(value, ensure_ascii=False, indent=indent))


def print_json_text(text: str) -> None:
    """Write JSON text, without anything that a terminal reads as a command."""
    sys.stdout.write(sanitize_json(text) + "\n")
    sys.stdout.flush()


class Screen:
    """Writes paragraphs, rows and bars to a console."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or make_console()

    def line(self, text: str | Text = "", style: str = "", indent: int = 0) -> None:
        """Write one paragraph, indented by `indent` cells; a `Text` must be safe already."""
        body = Text(sanitize(text), style=style) if isinstance(text, str) else Text("", style=style) + text
        if self.console.soft_wrap:
            self.console.print(Text(" " * indent) + body)
        else:
            self.console.print(Padding(body, (0, 0, 0, indent), expand=False))

    def row(self, head: Text, body: Text, indent: int = 0) -> None:
        """Write a paragraph whose further lines begin under the first one's `body`; both must be safe already."""
        if self.console.soft_wrap:
            self.console.print(Text(" " * indent) + head + body)
            return
        grid = Table.grid(padding=0)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(head, body)
        self.console.print(Padding(grid, (0, 0, 0, indent), expand=False))

    def rule(self, title: str) -> None:
        """Write a heading that sets off what follows."""
        self.line()
        room = 70 if self.console.soft_wrap else min(70, self.console.width - 5)
        self.line(f"── {title} {'─' * max(4, room - len(title))}", "bold magenta")

    def bars(self, values: Mapping[str, float], indent: int, style: str = "") -> None:
        """Write one bar a line, each value in [0,1]; on a narrow terminal they are short."""
        width = max(map(len, values), default=0)
        room = _BAR_CELLS
        if not self.console.soft_wrap:
            room = max(_MIN_BAR_CELLS, min(_BAR_CELLS, self.console.width - indent - width - _VALUE_CELLS))
        for name, value in values.items():
            body = Text(f"{sanitize(name).replace('_', ' '):<{width}} ")
            self.line(body.append(_bar(value, room), style=style).append(f" {value:.2f}"), indent=indent)


def _bar(value: float, cells: int) -> str:
    filled = round(min(max(value, 0.0), 1.0) * cells)
    return "█" * filled + "░" * (cells - filled)
