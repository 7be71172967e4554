"""People-readable output: progress of a run, ranked facts with provenance, confidence, stop reason.

Text from memory may hold anything. It is printed as plain `Text`, so rich never reads markup in it,
and control characters are shown as symbols, so it can't move the cursor, recolour or rename a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from recall_loop.cli.words import CONFIDENCE_WORDS, CONTENT_WORDS, STOP_WORDS, count
from recall_loop.state.result import Confidence, Evidence, RecalledFact, RetrieveResult
from recall_loop.state.types import StopReason

_BAR_CELLS = 20
_SHOWN_CHARACTERS = 320
_SNIPPET_CHARACTERS = 160
_SHOWN_SOURCES = 3
# Beyond ASCII: C1 controls, separators that break lines, and marks that turn the reading direction.
_UNSAFE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_INVISIBLE = re.compile(f"[\x00-\x1f{_UNSAFE}\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSAFE}]")
_LABEL_STYLES = {"high": "green", "medium": "yellow", "low": "red"}


def safe(text: str) -> str:
    """Return `text` on one line with every control or invisible character shown as a symbol."""
    return _INVISIBLE.sub(_symbol, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def safe_json(value: str) -> str:
    """Return JSON text with terminal controls as escapes; it reads back as the same value."""
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8":
        return json.dumps(json.loads(value))
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", value)


def shorten(text: str, limit: int) -> str:
    """Return `text` with at most `limit` characters, cut at a word, with an ellipsis where cut."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[limit // 2 :] else head).rstrip() + "…"


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

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """Write one paragraph, indented by `indent` cells."""
        body = Text(safe(text), style=style)
        if self.console.soft_wrap:
            self.console.print(Text(" " * indent) + body)
        else:
            self.console.print(Padding(body, (0, 0, 0, indent), expand=False))

    def rule(self, title: str) -> None:
        """Write a heading that sets off what follows."""
        self.line()
        self.line(f"── {title} {'─' * max(4, 70 - len(title))}", "bold magenta")

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

    def result(self, result: RetrieveResult, *, top: int | None = None, debug: bool = False) -> None:
        """Write the answer: stop reason, facts (the `top` best, or all) and confidence."""
        self.stop(result)
        for warning in result.warnings:
            self.line(f"warning: {warning}", "yellow")
        if self._answering:  # it was shown while it was written
            self.line()
        elif result.answer:
            self.line()
            self.line(result.answer, "bold")
        self.facts(result, top, debug)
        self.confidence(result.confidence)

    def stop(self, result: RetrieveResult) -> None:
        """Write why the run ended."""
        self._reason(result.stop.reason, result.stop.iteration)

    def facts(self, result: RetrieveResult, top: int | None, debug: bool) -> None:
        """Write the ranked facts, each with where it comes from."""
        shown = result.facts[:top]
        self.line()
        self.line(_facts_heading(len(shown), len(result.facts)), "bold")
        for rank, fact in enumerate(shown, start=1):
            self._fact(rank, fact, debug)

    def confidence(self, confidence: Confidence) -> None:
        """Write the label, the score and every component as a bar."""
        style = _LABEL_STYLES[confidence.label]
        self.line()
        self.line(f"Confidence {confidence.score:.2f}, {CONFIDENCE_WORDS[confidence.label]}", f"bold {style}")
        width = max(map(len, confidence.components), default=0)
        for name, value in confidence.components.items():
            self.line(f"{name.replace('_', ' '):<{width}} {_bar(value)} {value:.2f}", indent=3)
        self.line(f"raw {confidence.raw_score:.2f}, calibration {confidence.calibration_id}", "dim", 3)

    def _planned(self, event: Mapping[str, Any]) -> None:
        self.line()
        heading = f"Iteration {event.get('iteration')}: {event.get('strategy')} with {event.get('tool')}"
        self.line(f"{heading}{' (refined)' if event.get('origin') == 'refine' else ''}", "bold cyan")
        for query in event.get("queries") or ():
            self.line(f"{query.get('source', ''):<12} {query.get('text', '')}", indent=3)
        if event.get("dropped_repeats"):
            self.line(f"{count(int(event['dropped_repeats']), 'repeat')} dropped", "dim", 3)

    def _called(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            self.line(f"search failed after {count(int(event['attempts']), 'attempt')}: {event['error']}", "red", 3)
            return
        found = count(int(event.get("result_count", 0)), "result")
        self.line(f"{found} in {float(event.get('duration_ms', 0.0)):.0f} ms", "dim", 3)

    def _novelty(self, event: Mapping[str, Any]) -> None:
        text = (
            f"{count(int(event.get('new_facts', 0)), 'new fact')} ({event.get('unique_facts')} in all), "
            f"coverage {event.get('coverage', 0.0):.2f} ({event.get('coverage_gain', 0.0):+.2f})"
        )
        missing = ", ".join(map(str, event.get("uncovered") or ()))
        self.line(f"{text}; still open: {missing}" if missing else text, indent=3)

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
        self.console.print(Text(safe(str(event.get("text", ""))), style="bold"), end="")

    def _answer_reset(self, _: Mapping[str, Any]) -> None:
        """End what doesn't count."""
        self.line(" … (begins anew)" if self._answering else "")
        self._answering = False

    def _stopped(self, event: Mapping[str, Any]) -> None:
        """Leave the reason to the result, which always follows."""

    def _reason(self, reason: StopReason, iteration: int) -> None:
        self.line()
        self.line(f"Stopped after {count(iteration, 'iteration')}: {STOP_WORDS[reason]} ({reason}).", "bold")

    def _fact(self, rank: int, fact: RecalledFact, debug: bool) -> None:
        label = f"[{fact.label}] " if fact.label else ""
        self.line(f"{rank:>2}. {label}{shorten(safe(fact.text), _SHOWN_CHARACTERS)}")
        self.line(_provenance(fact), "dim", 4)
        others = [evidence for evidence in fact.evidence if evidence.source_id != fact.id]
        for evidence in others[:_SHOWN_SOURCES]:
            self.line(f"from {_source(evidence)}", "dim", 4)
        if len(others) > _SHOWN_SOURCES:
            self.line(f"and {count(len(others) - _SHOWN_SOURCES, 'more source')}", "dim", 4)
        if debug and fact.debug:
            self.line(json.dumps(fact.debug, default=str, ensure_ascii=False), "dim", 4)


def _facts_heading(shown: int, found: int) -> str:
    if not found:
        return "Nothing found"
    return f"{count(found, 'fact')}, best first" if shown == found else f"Best {shown} of {count(found, 'fact')}"


def _provenance(fact: RecalledFact) -> str:
    parts = [f"{CONTENT_WORDS[fact.content_type]} {fact.id}", fact.author, _day(fact.created_at)]
    parts += [f"score {fact.score:.2f}", f"similarity {fact.similarity:.2f}"]
    return " · ".join(part for part in parts if part)


def _source(evidence: Evidence) -> str:
    who = " · ".join(part for part in (evidence.source_id, evidence.author, _day(evidence.created_at)) if part)
    return f"{who}: {shorten(safe(evidence.snippet), _SNIPPET_CHARACTERS)}" if evidence.snippet else who


def _day(when: datetime | None) -> str | None:
    return when.strftime("%Y-%m-%d %H:%M") if when else None


def _bar(value: float) -> str:
    filled = round(min(max(value, 0.0), 1.0) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)
