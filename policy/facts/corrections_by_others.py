"""Whether a later statement by somebody else corrects an earlier one: only about shared matters (LIVE-4).

Anybody in the same conversation may correct "the meeting is on Thursday" by saying that it was moved to Friday. "I
moved to Oslo" corrects nothing that others say about themselves, and neither does "our rehearsal", which may be a
different one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.corrections import Correction, surest_correction
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.statement_pairs import brief_statements
from recall_loop.policy.facts.wording import Statement
from recall_loop.state.types import ContentType

# Not marks of an end: "the train leaves at nine" ends nothing.
_KINDS = frozenset({"change", "now", "instead"})
_OWNERS = ("user_id", "agent_id")
_PLACES = ("conversation_id", "session")


def same_conversation(older: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    """Tell whether two records are messages of one conversation or session in the same memory."""
    if not (older["kind"] == newer["kind"] == ContentType.MESSAGE):
        return False
    if any(older.get(owner) != newer.get(owner) for owner in _OWNERS):
        return False
    return any(older.get(place) and older.get(place) == newer.get(place) for place in _PLACES)


def correction_by_another(
    older: Sequence[Statement], newer: str, question: frozenset[str], rarity: Rarity
) -> Correction | None:
    """Return why somebody else's text corrects one of some statements, or None; arguments as in `surest_correction`."""
    found = (
        surest_correction((first,), second.text, question, rarity)
        for first, second in _comparable(older, newer, question)
    )
    best = max(filter(None, found), key=lambda correction: correction.margin, default=None)
    return best and replace(best, reason=best.reason.replace("the same speaker", "somebody else"))


def _comparable(
    older: Sequence[Statement], newer: str, question: frozenset[str]
) -> Iterator[tuple[Statement, Statement]]:
    """Yield the pairs in which the later statement gives another value for what the question asks about."""
    for first in older:
        for second in brief_statements(newer) if first.terms & question else ():
            if (
                _changes_value(first, second)
                and _asks_about_both(first, second, question)
                and _is_shared(first, second)
            ):
                yield first, second


def _asks_about_both(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the question and both statements share the older one's first content word and any asked names.

    "Ines' talk is on Monday" isn't corrected by "the talk was moved to Friday".
    """
    beginning = next((term for _, term in older.ordered if term in older.terms), "")
    named = frozenset(term for word, term in older.ordered if word in older.capitalised) & question
    return beginning in newer.terms & question and named <= newer.terms


def _is_shared(older: Statement, newer: Statement) -> bool:
    """Tell whether a matter is shared: nobody's own, or the older speaker's if the newer statement addresses them."""
    own, addressed = shared_words("own"), shared_words("addressed")
    if not own.isdisjoint(newer.tokens):
        return False
    return own.isdisjoint(older.tokens) or not addressed.isdisjoint(newer.tokens)


def _changes_value(older: Statement, newer: Statement) -> bool:
    if newer.marks.isdisjoint(_KINDS):
        return False
    pairs = [(older.numbers, newer.numbers), (older.dates, newer.dates), (older.capitalised, newer.capitalised)]
    return any(first - second and second - first for first, second in pairs)
