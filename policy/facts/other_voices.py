"""Whether somebody else's later statement corrects what was said: of a matter that is nobody's own (LIVE-4).

"The meeting is on Thursday" is corrected by whoever says in the same conversation that it was moved to Friday. "I moved
to Oslo" corrects nothing of what others say of themselves, and neither does "our rehearsal", which may be another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.corrections import Correction, brief_statements, surest_correction
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.wording import Statement
from recall_loop.state.types import ContentType

# "The train leaves at nine" says "leaves", but not that anything has ended.
_KINDS = frozenset({"change", "now", "instead"})
_OWNERS = ("user_id", "agent_id")
_PLACES = ("conversation_id", "session")


def same_conversation(older: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    """Tell whether two records are messages of one conversation, or else of one session, in the same memory."""
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
    """Yield the pairs of which the later one tells that what is asked of the older one has another value."""
    for first in older:
        for second in brief_statements(newer) if first.terms & question else ():
            if (
                _changes_value(first, second)
                and _is_asked_of_both(first, second, question)
                and _is_shared(first, second)
            ):
                yield first, second


def _is_asked_of_both(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether what the older statement begins with, and what names it has, is asked for and in the newer one too.

    "Ines' talk is on Monday" isn't corrected by "the talk was moved to Friday".
    """
    beginning = next((term for _, term in older.ordered if term in older.terms), "")
    named = frozenset(term for word, term in older.ordered if word in older.capitalised) & question
    return beginning in newer.terms & question and named <= newer.terms


def _is_shared(older: Statement, newer: Statement) -> bool:
    """Tell whether a matter is nobody's own; or the older speaker's, whom the newer one speaks to."""
    own, addressed = shared_words("own"), shared_words("addressed")
    if not own.isdisjoint(newer.tokens):
        return False
    return own.isdisjoint(older.tokens) or not addressed.isdisjoint(newer.tokens)


def _changes_value(older: Statement, newer: Statement) -> bool:
    if newer.marks.isdisjoint(_KINDS):
        return False
    pairs = [(older.numbers, newer.numbers), (older.dates, newer.dates), (older.capitalised, newer.capitalised)]
    return any(first - second and second - first for first, second in pairs)
