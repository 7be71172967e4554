"""People-readable output: progress of a run, ranked facts with provenance, confidence, stop reason.

Everything is printed as plain `Text`, so rich never reads markup in what memory holds, and passes `safe` first.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recall_loop.cli.core.fact_rendering import write_fact
from recall_loop.cli.core.safe_text import sanitize, sanitize_json, shorten
from recall_loop.state.display import ANSWERABLE_TEXT, CONFIDENCE_TEXTS, STOP_REASON_TEXTS, format_count
from recall_loop.state.result import Confidence, RetrieveResult
from recall_loop.state.types import StopReason

__all__ = ["Screen", "make_console", "sanitize", "sanitize_json", "shorten"]

_BAR_CELLS = 20
_LEAST_CELLS = 6
_VALUE_CELLS = 6
_WIDE = 60
_LABEL_STYLES = {"high": "green", "medium": "yellow", "low": "red"}


def make_console() -> Console:
    """Return a console for stdout: colours and wrapping on a terminal only; NO_COLOR is honoured."""
    return Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not sys.stdout.isatty(),
    )


class Screen:
    """Writes the parts of a run to a console."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or make_console()
        self._answering = False
        self._asked: Mapping[str, Any] | None = None

    @property
    def _wide(self) -> bool:
        return self.console.soft_wrap or self.console.width >= _WIDE

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
            room = max(_LEAST_CELLS, min(_BAR_CELLS, self.console.width - indent - width - _VALUE_CELLS))
        for name, value in values.items():
            body = Text(f"{sanitize(name).replace('_', ' '):<{width}} ")
            self.line(body.append(_bar(value, room), style=style).append(f" {value:.2f}"), indent=indent)

    def event(self, event: Mapping[str, Any]) -> None:
        """Write one progress event; kinds that it doesn't know are left out."""
        writer = {
            "queries_planned": self._planned,
            "call_done": self._called,
            "novelty": self._novelty,
            "judged": self._judged,
            "answer_token": self._answer_token,
            "answer_reset": self._answer_reset,
            "stopped": self._stopped,
        }.get(str(event.get("type")))
        if writer:
            writer(event)

    def result(
        self,
        result: RetrieveResult,
        *,
        top: int | None = None,
        debug: bool = False,
        terms: Collection[str] = frozenset(),
    ) -> None:
        """Write the answer: stop reason, facts (the `top` best, or all; words of `terms` marked) and confidence."""
        self.stop(result)
        for warning in result.warnings:
            self.line(f"warning: {warning}", "yellow")
        if self._answering:  # it was shown while it was written
            self.line()
        elif result.answer:
            self.line()
            self.line(result.answer, "bold")
        self.facts(result, top, debug, terms)
        self.confidence(result.confidence)

    def stop(self, result: RetrieveResult) -> None:
        """Write why the run ended."""
        self._reason(result.stop.reason, result.stop.iteration)

    def facts(self, result: RetrieveResult, top: int | None, debug: bool, terms: Collection[str] = frozenset()) -> None:
        """Write the ranked facts, each with where it comes from."""
        shown = result.facts[:top]
        self.line()
        self.line(_facts_heading(len(shown), len(result.facts)), "bold")
        for rank, fact in enumerate(shown, start=1):
            write_fact(self, rank, fact, terms, debug)

    def confidence(self, confidence: Confidence) -> None:
        """Write the label, the score, whether memory holds an answer, and every component as a bar."""
        style = _LABEL_STYLES[confidence.label]
        self.line()
        self.line(f"Confidence {confidence.score:.2f}, {CONFIDENCE_TEXTS[confidence.label]}", f"bold {style}")
        if confidence.answerable is not None:
            self.line(f"{ANSWERABLE_TEXT} {confidence.answerable:.2f}", indent=3)
        self.bars(confidence.components, 3, style)
        self.line(f"raw {confidence.raw_score:.2f}, calibration {confidence.calibration_id}", "dim", 3)

    def _planned(self, event: Mapping[str, Any]) -> None:
        """Write what is tried; its queries are written when their yields are known."""
        self._queries(())
        self.line()
        heading = f"Iteration {event.get('iteration')}: {event.get('strategy')} with {event.get('tool')}"
        self.line(f"{heading}{' (refined)' if event.get('origin') == 'refine' else ''}", "bold cyan")
        self._asked = event

    def _queries(self, yields: Sequence[Mapping[str, Any]]) -> None:
        """Write the queries of the iteration, each with what it brought, and the repeats struck out."""
        event, self._asked = self._asked, None
        if event is None:
            return
        known = {found["query"]: found for found in yields}
        for query in event.get("queries") or ():
            found = known.get(query.get("text"))
            brought = f"{found['results']:>3} found {found['new_facts']:>3} new  " if found else ""
            head = Text(brought, "" if found and found["new_facts"] else "dim")
            if self._wide:
                head.append(f"{sanitize(str(query.get('source', ''))):<12} ", "dim")
            body = Text(sanitize(str(query.get("text", ""))))
            self.row(head, body.append(format_narrowing(query.get("narrowed")), "dim"), 3)
        repeats = event.get("repeats") or ()
        for text in repeats:
            self.row(Text("repeat, not asked: ", "dim"), Text(sanitize(str(text)), "dim strike"), 3)
        if event.get("dropped_repeats") and not repeats:
            self.line(f"{format_count(int(event['dropped_repeats']), 'repeat')} dropped", "dim", 3)

    def _called(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            self.line(
                f"search failed after {format_count(int(event['attempts']), 'attempt')}: {event['error']}", "red", 3
            )
            return
        found = format_count(int(event.get("result_count", 0)), "result")
        self.line(f"{found} in {float(event.get('duration_ms', 0.0)):.0f} ms", "dim", 3)

    def _novelty(self, event: Mapping[str, Any]) -> None:
        self._queries(event.get("yields") or ())
        self.line(
            f"{format_count(int(event.get('new_facts', 0)), 'new fact')} ({event.get('unique_facts')} in all)",
            "bold",
            3,
        )
        self.bars({"coverage": float(event.get("coverage", 0.0))}, 3, "green")
        missing = ", ".join(map(str, event.get("uncovered") or ()))
        if missing:
            self.line(f"still open: {missing}", "yellow", 3)

    def _judged(self, event: Mapping[str, Any]) -> None:
        """Write what a language model says of the evidence."""
        said = "enough" if event.get("stop") else "not enough"
        reason = f": {event['reason']}" if event.get("reason") else ""
        self.line(f"model: {said}, {event.get('confidence')} confidence{reason}", indent=3)

    def _answer_token(self, event: Mapping[str, Any]) -> None:
        """Write the next piece of the answer, as it comes."""
        if not self._answering:
            self.line()
        self._answering = True
        self.console.print(Text(sanitize(str(event.get("text", ""))), style="bold"), end="")

    def _answer_reset(self, _: Mapping[str, Any]) -> None:
        """End what doesn't count."""
        self.line(" … (begins anew)" if self._answering else "")
        self._answering = False

    def _stopped(self, _: Mapping[str, Any]) -> None:
        """Leave the reason to the result, which always follows."""
        self._queries(())

    def _reason(self, reason: StopReason, iteration: int) -> None:
        self.line()
        self.line(
            f"Stopped after {format_count(iteration, 'iteration')}: {STOP_REASON_TEXTS[reason]} ({reason}).", "bold"
        )


def _facts_heading(shown: int, found: int) -> str:
    if not found:
        return "Nothing found"
    return (
        f"{format_count(found, 'fact')}, best first"
        if shown == found
        else f"Best {shown} of {format_count(found, 'fact')}"
    )


def _bar(value: float, cells: int) -> str:
    filled = round(min(max(value, 0.0), 1.0) * cells)
    return "█" * filled + "░" * (cells - filled)


def format_narrowing(narrowed: Mapping[str, Any] | None) -> str:
    """Return what a query is narrowed to, to be put behind its text."""
    if not narrowed:
        return ""
    filters = dict(narrowed["filters"])
    start, end = filters.pop("start_time", None), filters.pop("end_time", None)
    told = [f"from {_format_time(start)}"] if start else []
    told += [f"before {_format_time(end)}"] if end else []
    told += [f"{name} {value}" for name, value in filters.items()]
    told += [narrowed["tool"]] if narrowed["tool"] else []
    return sanitize(f" ({', '.join(told)})")


def _format_time(iso: str) -> str:
    """Return the day, with hour and minute where it isn't the beginning of the day."""
    return iso[:10] if iso[10:16] in ("", "T00:00") else iso[:16]
