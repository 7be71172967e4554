"""Which facts a newer one supersedes. Pure: from the facts of one slot to those that have to change.

A slot is what a fact says something about: its owners, its subject and its type (`slot_of`). Of a single-valued type,
such as `lives_in`, one value holds at a time; of any other, such as `likes`, values stand beside each other and nothing
here applies. In a single-valued slot each fact ends when the next one with another value begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from recall_loop.state.records.records import Fact
from recall_loop.text.words.keys import normalise

_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def fact_value(fact: Fact) -> str:
    """Return a fact's value in normalised form: its object; where it has none, its text."""
    return normalise(fact.object or fact.text)


def chronological(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts in the order in which they were said: by time, then position, then as given.

    A fact without a time was there before all that have one.
    """
    return sorted(facts, key=lambda fact: (fact.created_at or _LONG_AGO, fact.position or 0))


def supersession_changes(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a single-valued slot that have to change, with their new end.

    Repeating it changes nothing, and so does another order of writing: a fact that comes to be known late takes its
    place among the others. Facts of equal value don't supersede each other. An end that was given by hand, without
    a successor or with one outside of the slot, stays.
    """
    told = chronological(facts)
    ids = {fact.id for fact in told}
    changed = []
    for at, fact in enumerate(told):
        if fact.superseded_by not in ids and (fact.superseded_by or fact.valid_until):
            continue
        end = _successor(fact, told[at + 1 :])
        by, until = (end.id, end.created_at) if end else (None, None)
        if (fact.superseded_by, fact.valid_until) != (by, until):
            changed.append(fact.model_copy(update={"superseded_by": by, "valid_until": until}))
    return changed


def _successor(fact: Fact, later: Sequence[Fact]) -> Fact | None:
    value = fact_value(fact)
    return next((other for other in later if other.created_at is not None and fact_value(other) != value), None)
