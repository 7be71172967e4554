"""A run on the terminal: its events as they come, and its facts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from recall_loop.cli.core.screen import Screen, dotted, sanitize, shorten
from recall_loop.state.display import (
    ANSWERABLE_TEXT,
    CONFIDENCE_TEXTS,
    CONTENT_TYPE_TEXTS,
    STOP_REASON_TEXTS,
    format_count,
)
from recall_loop.state.result import Confidence, Evidence, RecalledFact, RetrieveResult
from recall_loop.state.types import StopReason
from recall_loop.text.words.tokens import stems

_SHOWN_CHARACTERS = 320
_SNIPPET_CHARACTERS = 160
_SHOWN_SOURCES = 3
_SHOWN_MATCHES = 5
_WORD = re.compile(r"[^\W_]+")
_MARK = "bold underline"


def highlight_terms(text: str, terms: Collection[str]) -> Text:
    """Return sanitized text with the words marked whose stem is in `terms`."""
    shown = Text(sanitize(text))
    if terms:
        for word in _WORD.finditer(shown.plain):
            if not frozenset(stems(word[0])).isdisjoint(terms):
                shown.stylize(_MARK, *word.span())
    return shown


def write_fact(screen: Screen, rank: int, fact: RecalledFact, terms: Collection[str], debug: bool) -> None:
    """Write one fact, its provenance and its sources; with `debug` the parts of its score and the queries behind it."""
    label = Text(f"[{sanitize(fact.label)}] " if fact.label else "")
    screen.row(Text(f"{rank:>2}. "), label + highlight_terms(shorten(sanitize(fact.text), _SHOWN_CHARACTERS), terms))
    screen.line(_provenance(fact), "dim", 4)
    if newer := fact.superseded_by or fact.superseded_by_hint:
        screen.line(f"older, see {newer}{f': {fact.superseded_reason}' if fact.superseded_reason else ''}", "yellow", 4)
    others = [evidence for evidence in fact.evidence if evidence.source_id != fact.id]
    for evidence in others[:_SHOWN_SOURCES]:
        screen.line(_evidence_line(evidence, terms), "dim", 4)
    if len(others) > _SHOWN_SOURCES:
        screen.line(f"and {format_count(len(others) - _SHOWN_SOURCES, 'more source')}", "dim", 4)
    if debug and fact.debug:
        _write_score_parts(screen, fact.debug)


def _write_score_parts(screen: Screen, debug: Mapping[str, Any]) -> None:
    """Write the components of the score, and the queries that found the fact."""
    components = debug.get("components") or {}
    screen.bars({name: value for name, value in components.items() if round(value, 2)}, 4, "cyan")
    matches = debug.get("matches") or ()
    for match in matches[:_SHOWN_MATCHES]:
        origin = f"{match['source']}, iteration {match['iteration']}"
        screen.line(f'found by "{match["query"]}" ({origin})', "dim", 4)
    if len(matches) > _SHOWN_MATCHES:
        more = len(matches) - _SHOWN_MATCHES
        screen.line(f"and by {more} more {'query' if more == 1 else 'queries'}", "dim", 4)


def _provenance(fact: RecalledFact) -> str:
    return dotted(
        f"{CONTENT_TYPE_TEXTS[fact.content_type]} {fact.id}",
        fact.author,
        format_minute(fact.created_at),
        f"until {format_minute(fact.valid_until)}" if fact.valid_until else None,
        f"score {fact.score:.2f}",
        f"similarity {fact.similarity:.2f}",
    )


def _evidence_line(evidence: Evidence, terms: Collection[str]) -> Text:
    source = dotted(evidence.source_id, evidence.author, format_minute(evidence.created_at))
    line = Text(f"from {sanitize(source)}")
    if evidence.snippet:
        snippet = shorten(sanitize(evidence.snippet), _SNIPPET_CHARACTERS)
        line.append(": ").append_text(highlight_terms(snippet, terms))
    return line


def format_minute(when: datetime | None) -> str:
    """Return a time to the minute, as 2024-05-01 09:30; nothing for None."""
    return when.strftime("%Y-%m-%d %H:%M") if when else ""


_WIDE = 60
LABEL_STYLES = {"high": "green", "medium": "yellow", "low": "red"}


class RunScreen(Screen):
    """Writes the parts of a run to a console."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._answering = False
        self._planned: Mapping[str, Any] | None = None  # the iteration whose queries aren't printed yet

    def event(self, event: Mapping[str, Any]) -> None:
        """Write one progress event; kinds that it doesn't know are left out."""
        writer = {
            "queries_planned": self._write_plan,
            "call_done": self._write_call,
            "novelty": self._write_novelty,
            "judged": self._write_verdict,
            "answer_token": self._write_answer_token,
            "answer_reset": self._reset_answer,
            "stopped": self._write_end,
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
        """Write why the run ended, the answer, the facts (the `top` best, or all) and how sure the result is.

        Words whose stem is in `terms` are marked; `debug` adds what scores are made of.
        """
        stop = result.stop
        iterations = format_count(stop.iteration, "iteration")
        self.line()
        self.line(f"Stopped after {iterations}: {STOP_REASON_TEXTS[stop.reason]} ({stop.reason}).", "bold")
        for warning in result.warnings:
            self.line(f"warning: {warning}", "yellow")
        if self._answering:  # it was already shown while it was streamed
            self.line()
        elif result.answer:
            self.line()
            self.line(result.answer, "bold")
        shown = result.facts[:top]
        self.line()
        self.line(_facts_heading(len(shown), result), "bold")
        for rank, fact in enumerate(shown, start=1):
            write_fact(self, rank, fact, terms, debug)
        self.confidence(result.confidence)

    def confidence(self, confidence: Confidence) -> None:
        """Write the label, the score, whether memory holds an answer, and every component as a bar."""
        style = LABEL_STYLES[confidence.label]
        self.line()
        self.line(f"Confidence {confidence.score:.2f}, {CONFIDENCE_TEXTS[confidence.label]}", f"bold {style}")
        if confidence.answerable is not None:
            self.line(f"{ANSWERABLE_TEXT} {confidence.answerable:.2f}", indent=3)
        self.bars(confidence.components, 3, style)
        self.line(f"raw {confidence.raw_score:.2f}, calibration {confidence.calibration_id}", "dim", 3)

    def _write_plan(self, event: Mapping[str, Any]) -> None:
        """Write the strategy; the queries are written when their yields are known."""
        self._write_queries(())
        self.line()
        heading = f"Iteration {event.get('iteration')}: {event.get('strategy')} with {event.get('tool')}"
        self.line(f"{heading}{' (refined)' if event.get('origin') == 'refine' else ''}", "bold cyan")
        corrected = (event.get("refinement") or {}).get("corrected")
        if corrected:
            self.line(f"asked again as: {corrected}", "dim", 3)
        self._planned = event

    def _write_queries(self, yields: Sequence[Mapping[str, Any]]) -> None:
        """Write the queries of the iteration, each with its results, and the dropped repeats."""
        event, self._planned = self._planned, None
        if event is None:
            return
        wide = self.console.soft_wrap or self.console.width >= _WIDE
        known = {item["query"]: item for item in yields}
        for query in event.get("queries") or ():
            item = known.get(query.get("text"))
            head = Text(f"{item['results']:>3} found {item['new_facts']:>3} new  " if item else "")
            head.stylize("" if item and item["new_facts"] else "dim")
            if wide:
                head.append(f"{sanitize(str(query.get('source', ''))):<12} ", "dim")
            body = Text(sanitize(str(query.get("text", ""))))
            self.row(head, body.append(_format_narrowing(query.get("narrowed")), "dim"), 3)
        repeats = event.get("repeats") or ()
        for text in repeats:
            self.row(Text("repeat, not asked: ", "dim"), Text(sanitize(str(text)), "dim strike"), 3)
        if event.get("dropped_repeats") and not repeats:
            self.line(f"{format_count(int(event['dropped_repeats']), 'repeat')} dropped", "dim", 3)

    def _write_call(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            attempts = format_count(int(event["attempts"]), "attempt")
            self.line(f"search failed after {attempts}: {event['error']}", "red", 3)
            return
        results = format_count(int(event.get("result_count", 0)), "result")
        self.line(f"{results} in {float(event.get('duration_ms', 0.0)):.0f} ms", "dim", 3)

    def _write_novelty(self, event: Mapping[str, Any]) -> None:
        self._write_queries(event.get("yields") or ())
        new_facts = format_count(int(event.get("new_facts", 0)), "new fact")
        self.line(f"{new_facts} ({event.get('unique_facts')} in all)", "bold", 3)
        self.bars({"coverage": float(event.get("coverage", 0.0))}, 3, "green")
        missing = ", ".join(map(str, event.get("uncovered") or ()))
        if missing:
            self.line(f"still open: {missing}", "yellow", 3)

    def _write_verdict(self, event: Mapping[str, Any]) -> None:
        """Write whether a language model finds the evidence enough."""
        verdict = "enough" if event.get("stop") else "not enough"
        reason = f": {event['reason']}" if event.get("reason") else ""
        self.line(f"model: {verdict}, {event.get('confidence')} confidence{reason}", indent=3)

    def _write_answer_token(self, event: Mapping[str, Any]) -> None:
        """Write the next piece of the answer, as it comes."""
        if not self._answering:
            self.line()
        self._answering = True
        self.console.print(Text(sanitize(str(event.get("text", ""))), style="bold"), end="")

    def _reset_answer(self, _: Mapping[str, Any]) -> None:
        """End the piece of the answer that was discarded."""
        self.line(" … (starting over)" if self._answering else "")
        self._answering = False

    def _write_end(self, _: Mapping[str, Any]) -> None:
        """Write pending output; the reason is left to the result, which always follows."""
        self._write_queries(())


def _facts_heading(shown: int, result: RetrieveResult) -> str:
    found = len(result.facts)
    if not found:
        return "The search failed" if result.stop.reason is StopReason.TOOL_FAILURE else "Nothing found"
    facts = format_count(found, "fact")
    return f"{facts}, best first" if shown == found else f"Best {shown} of {facts}"


def _format_narrowing(narrowed: Mapping[str, Any] | None) -> str:
    """Return the filters and the tool that a query is narrowed to, in brackets."""
    if not narrowed:
        return ""
    filters = dict(narrowed["filters"])
    start, end = filters.pop("start_time", None), filters.pop("end_time", None)
    parts = [f"from {_format_time(start)}"] if start else []
    parts += [f"before {_format_time(end)}"] if end else []
    parts += [f"{name} {value}" for name, value in filters.items()]
    parts += [narrowed["tool"]] if narrowed["tool"] else []
    return sanitize(f" ({', '.join(parts)})")


def _format_time(iso: str) -> str:
    """Return the day, with hour and minute where it isn't the beginning of the day."""
    return iso[:10] if iso[10:16] in ("", "T00:00") else iso[:16]
