"""Supersession: which facts of a slot end when a newer one begins.

A slot identifies what a fact is about: its owners, its subject and its type. For a single-valued type, such as
`lives_in`, one value holds at a time: each fact ends when the next one with another value begins. For any other type,
such as `likes`, values hold beside each other and nothing here applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from recall_loop.state.records.records import Fact
from recall_loop.text.words.keys import normalise

_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def fact_value(fact: Fact) -> str:
    """Return a fact's normalised value: its object, or its text if it has none."""
    return normalise(fact.object or fact.text)


def chronological(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts in the order in which they were said: by time, then position, then as given.

    Facts without a time come before all others.
    """
    return sorted(facts, key=lambda fact: (fact.created_at or _LONG_AGO, fact.position or 0))


def supersession_changes(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a single-valued slot that have to change, with their new end.

    The function is idempotent, and the order in which facts were written doesn't matter: a fact that becomes known
    late takes its place among the others. Facts of equal value don't supersede each other. An end that was set by
    hand, without a successor or with one outside the slot, stays.
    """
    ordered = chronological(facts)
    ids = {fact.id for fact in ordered}
    changed = []
    for at, fact in enumerate(ordered):
        if fact.superseded_by not in ids and (fact.superseded_by or fact.valid_until):
            continue
        successor = _successor(fact, ordered[at + 1 :])
        by, until = (successor.id, successor.created_at) if successor else (None, None)
        if (fact.superseded_by, fact.valid_until) != (by, until):
            changed.append(fact.model_copy(update={"superseded_by": by, "valid_until": until}))
    return changed


def _successor(fact: Fact, later: Sequence[Fact]) -> Fact | None:
    value = fact_value(fact)
    return next((other for other in later if other.created_at is not None and fact_value(other) != value), None)
