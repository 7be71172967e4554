"""Remarks on a recalled fact: why it was found, whether it is in the context, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recall_loop.policy.evidence.statements import is_echo
from recall_loop.state.result import RecalledFact, RetrieveResult
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role, SpeechAct
from recall_loop.text.speech.speech_acts import speech_acts
from recall_loop.text.words.tokens import words

RECALLED = "I recall: "
"""Beginnings of replies that only repeat a record."""
_SHOWN_COMPONENTS = 3
_WEAK = "not relevant enough to the turn"
_SAYS_NOTHING = {
    SpeechAct.QUESTION: "it asks",
    SpeechAct.REQUEST: "it requests",
    SpeechAct.NON_ANSWER: "it says that there is no answer",
    SpeechAct.ACKNOWLEDGEMENT: "it only acknowledges",
}


@dataclass(frozen=True)
class NotedFact:
    """A recalled fact with remarks on what lowers it, and why it isn't in the context block, if it isn't."""

    fact: RecalledFact
    in_context: bool
    notes: tuple[str, ...]
    left_out: str | None


def note_facts(result: RetrieveResult, question: str, settings: Settings) -> tuple[NotedFact, ...]:
    """Return the facts of a result, best first, with notes; the settings hold budget and floor of the context block."""
    inside = {fact.id for fact in result.context_facts}
    asked = words(question)
    noted = []
    for fact in result.facts:
        is_inside = fact.id in inside
        notes = tuple(_notes(fact, asked))
        full = fact.relevance >= settings.context_floor
        reason = f"no room within {settings.max_context_tokens:,} tokens" if full else _WEAK
        noted.append(NotedFact(fact, is_inside, notes, None if is_inside else notes[0] if notes else reason))
    return tuple(noted)


def is_statement(fact: RecalledFact) -> bool:
    """Return whether a fact states something: a message may only ask."""
    return fact.content_type is not ContentType.MESSAGE or SpeechAct.STATEMENT in speech_acts(fact.text, fact.role)


def is_repeated_reply(fact: RecalledFact) -> bool:
    """Return whether a fact is an earlier reply that only repeats recalled facts."""
    return fact.role is Role.ASSISTANT and fact.text.startswith(RECALLED)


def best_query(fact: RecalledFact) -> dict[str, Any] | None:
    """Return the query that matches a fact best: `query`, `source`, `iteration`; None without `debug`."""
    matches = (fact.debug or {}).get("matches") or ()
    return max(matches, key=lambda match: match["score"], default=None)


def strongest_components(fact: RecalledFact) -> dict[str, float]:
    """Return the strongest components of a fact's score, each in [0,1], strongest first."""
    components = (fact.debug or {}).get("components") or {}
    ranked = sorted(components.items(), key=lambda item: -item[1])
    return {name: value for name, value in ranked[:_SHOWN_COMPONENTS] if round(value, 2) > 0}


def _notes(fact: RecalledFact, asked: list[str]) -> list[str]:
    notes = []
    if is_echo(fact.text, asked):
        notes.append("it is the same question, asked earlier")
    elif not is_statement(fact):
        acts = sorted(speech_acts(fact.text, fact.role))
        notes.append(" and ".join(_SAYS_NOTHING[act] for act in acts if act in _SAYS_NOTHING))
    elif is_repeated_reply(fact):
        notes.append("it is a reply that repeats recalled facts")
    if fact.superseded_by:
        notes.append(f"superseded by {fact.superseded_by}")
    if fact.superseded_by_hint:
        why = f": {fact.superseded_reason}" if fact.superseded_reason else ""
        notes.append(f"seems to be corrected by {fact.superseded_by_hint}{why}")
    return notes
