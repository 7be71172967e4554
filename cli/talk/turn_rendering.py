"""A conversation on the terminal: the recalled and left-out facts of each turn, the reply, and the written messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from recall_loop.cli.core.run_rendering import LABEL_STYLES, RunScreen, format_minute, highlight_terms
from recall_loop.cli.core.screen import dotted, sanitize, shorten
from recall_loop.cli.talk.conversation_turns import Turn
from recall_loop.cli.talk.fact_notes import NotedFact, best_query, strongest_components
from recall_loop.state.display import CONFIDENCE_TEXTS, CONTENT_TYPE_TEXTS, STOP_REASON_TEXTS, format_count
from recall_loop.state.records.records import Record
from recall_loop.state.result import RetrieveResult
from recall_loop.text.words.tokens import query_terms

_FACT_CHARACTERS, _LEFT_OUT_CHARACTERS, _RECORD_CHARACTERS = 240, 100, 160
_AGES = ((365.25 * 86_400, "year"), (30.44 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


def format_age(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a time is, in the largest unit that fits, as "3 days ago"; nothing for None."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    for size, unit in _AGES:
        if abs(seconds) >= size:
            age = format_count(int(abs(seconds) / size), unit)
            return f"{age} ago" if seconds > 0 else f"in {age}"
    return "just now"


class ConversationScreen:
    """Writes turns and the results of commands as text; `top` is the number of facts shown of each kind."""

    def __init__(self, top: int, *, repeats_input: bool) -> None:
        self.screen = RunScreen()
        self._top, self._repeats_input = top, repeats_input

    def opening(self, conversation_id: str, records: int) -> None:
        """Say which conversation it is, and how much memory holds."""
        self.screen.line(f"Conversation {conversation_id}; {format_count(records, 'record')} in reach. /help", "dim")

    def turn(self, turn: Turn) -> None:
        """Write one turn."""
        self.screen.line()
        if self._repeats_input:
            self.screen.line(f"you: {turn.text}", "bold")
        self._confidence(turn.result)
        (self._recalled if turn.asks else self._recalled_in_short)(turn)
        self.screen.line(f"memory: {turn.reply}", "bold cyan")
        self._written(turn)

    def why(self, turn: Turn) -> None:
        """Write the whole run of a turn: each iteration, all facts with their parts, the confidence."""
        screen = RunScreen(self.screen.console)  # a run that has shown no answer
        screen.rule(f"why: {shorten(turn.text, 60)}")
        for event in turn.events:
            if event["type"] not in ("answer_token", "answer_reset"):
                screen.event(event)
        screen.result(turn.result, debug=True, terms=query_terms(turn.text))
        screen.line()
        screen.line("Context:", "bold")
        for line in turn.result.context.splitlines() or ["(empty)"]:
            screen.line(line, indent=3)

    def memory(self, records: Sequence[Record], now: datetime) -> None:
        """Write records, newest first."""
        for record in records:
            who, when = record.author or getattr(record, "role", None), record.created_at
            self.screen.line(dotted(record.id, who, format_minute(when), format_age(when, now)), "dim")
            self.screen.line(shorten(sanitize(record.text), _RECORD_CHARACTERS), indent=3)
        if not records:
            self.screen.line("Memory is empty.")

    def message(self, text: str, **_: object) -> None:
        """Write a line about a command; its other fields are for JSON."""
        self.screen.line(text)

    def problem(self, text: str) -> None:
        """Write an error in the input."""
        self.screen.line(text, "red")

    def _confidence(self, result: RetrieveResult) -> None:
        confidence, stop = result.confidence, result.stop
        label = f"{CONFIDENCE_TEXTS[confidence.label]} ({confidence.score:.2f})"
        line = Text().append(label, LABEL_STYLES[confidence.label])
        rounds = f" · {format_count(stop.iteration, 'iteration')}: {STOP_REASON_TEXTS[stop.reason]} ({stop.reason})"
        self.screen.line(line.append(rounds, "dim"))
        for warning in result.warnings:
            self.screen.line(f"warning: {warning}", "yellow")

    def _recalled(self, turn: Turn) -> None:
        terms = query_terms(turn.text)
        inside = [noted for noted in turn.facts if noted.in_context]
        for rank, noted in enumerate(inside[: self._top], 1):
            self._fact(rank, noted, turn.result.reference_time, terms)
        if len(inside) > self._top:
            self.screen.line(f"and {len(inside) - self._top:,} more in the context (/why)", "dim", 3)
            self._remarks([(rank, noted) for rank, noted in enumerate(inside, 1) if rank > self._top and noted.notes])
        self._left_out([noted for noted in turn.facts if not noted.in_context])

    def _recalled_in_short(self, turn: Turn) -> None:
        """Write the existing records about the statement, a line each."""
        inside = [noted for noted in turn.facts if noted.in_context]
        for noted in inside[: self._top]:
            age = format_age(noted.fact.created_at, turn.result.reference_time)
            text = shorten(sanitize(noted.fact.text), _LEFT_OUT_CHARACTERS)
            remarks = ", ".join(filter(None, [age, f"similarity {noted.fact.similarity:.2f}", *noted.notes]))
            self.screen.line(f"- {text} ({remarks})", "dim", 3)
        if more := len(turn.facts) - len(inside[: self._top]):
            self.screen.line(f"and {more:,} more (/why)", "dim", 3)

    def _fact(self, rank: int, noted: NotedFact, now: datetime, terms: frozenset[str]) -> None:
        fact = noted.fact
        self.screen.row(Text(f"{rank:>2}. "), highlight_terms(shorten(sanitize(fact.text), _FACT_CHARACTERS), terms))
        about = dotted(
            f"{CONTENT_TYPE_TEXTS[fact.content_type]} {fact.id}",
            fact.author or fact.role,
            format_age(fact.created_at, now),
            f"said {fact.count:,} times" if fact.count > 1 else "",
            f"score {fact.score:.2f}",
            f"similarity {fact.similarity:.2f}",
        )
        self.screen.line(about, "dim", 4)
        if why := _why(noted):
            self.screen.line(why, "dim", 4)
        for note in noted.notes:
            self.screen.line(note, "yellow", 4)

    def _remarks(self, ranked: Sequence[tuple[int, NotedFact]]) -> None:
        """Write those of the further facts that something is to be said of."""
        for rank, noted in ranked[: self._top]:
            text = shorten(sanitize(noted.fact.text), _LEFT_OUT_CHARACTERS)
            self.screen.line(f"{rank}. {text} ({'; '.join(noted.notes)})", "dim", 3)

    def _left_out(self, left_out: Sequence[NotedFact]) -> None:
        if not left_out:
            return
        self.screen.line(f"left out of the context: {format_count(len(left_out), 'fact')}", "yellow")
        for noted in left_out[: self._top]:
            fact = noted.fact
            text = shorten(sanitize(fact.text), _LEFT_OUT_CHARACTERS)
            self.screen.line(
                f"- {text} ({noted.left_out}; score {fact.score:.2f}, similarity {fact.similarity:.2f})", "dim", 3
            )

    def _written(self, turn: Turn) -> None:
        for one in turn.written:
            acts = ", ".join(act.replace("_", " ") for act in one.acts) or "nothing said"
            self.screen.line(f"{one.status} {one.id} ({one.role}: {acts})", "dim", 3)
        if turn.extracted is not None:
            drawn = turn.extracted
            for noun, ids in (
                ("drawn", drawn.created),
                ("superseded", drawn.superseded),
                ("withdrawn", drawn.withdrawn),
            ):
                if ids:
                    self.screen.line(f"facts {noun}: {', '.join(ids)}", "dim", 3)
            if drawn.failure is not None:
                self.screen.line(f"warning: no facts were extracted: {drawn.failure['reason']}", "yellow", 3)


def _why(noted: NotedFact) -> str:
    """Return the query that found a fact and the strongest parts of its score, in one line."""
    query = best_query(noted.fact)
    found = f'found by "{query["query"]}" ({query["source"]}, iteration {query["iteration"]})' if query else ""
    components = strongest_components(noted.fact)
    return dotted(found, ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in components.items()))
