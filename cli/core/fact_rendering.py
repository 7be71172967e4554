"""Facts on the screen: the text with its matches marked, its source, and the components of its score."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from recall_loop.cli.core.safe_text import sanitize, shorten
from recall_loop.cli.core.screen import Screen
from recall_loop.state.display import CONTENT_TYPE_TEXTS, format_count
from recall_loop.state.result import Evidence, RecalledFact
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
    parts = [f"{CONTENT_TYPE_TEXTS[fact.content_type]} {fact.id}", fact.author, format_minute(fact.created_at)]
    parts += [f"until {format_minute(fact.valid_until)}"] if fact.valid_until else []
    parts += [f"score {fact.score:.2f}", f"similarity {fact.similarity:.2f}"]
    return " · ".join(part for part in parts if part)


def _evidence_line(evidence: Evidence, terms: Collection[str]) -> Text:
    parts = (evidence.source_id, evidence.author, format_minute(evidence.created_at))
    source = " · ".join(part for part in parts if part)
    line = Text(f"from {sanitize(source)}")
    if evidence.snippet:
        snippet = shorten(sanitize(evidence.snippet), _SNIPPET_CHARACTERS)
        line.append(": ").append_text(highlight_terms(snippet, terms))
    return line


def format_minute(when: datetime | None) -> str:
    """Return a time to the minute, as 2024-05-01 09:30; nothing for None."""
    return when.strftime("%Y-%m-%d %H:%M") if when else ""
