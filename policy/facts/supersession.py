"""How facts relate to other facts and to messages: supersession and support."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recall_loop.state.records.records import Fact
from recall_loop.state.types import is_to_come
from recall_loop.text.words.folding import normalise
from recall_loop.text.words.tokens import query_terms, stem_set

_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def fact_value(fact: Fact) -> str:
    """Return a fact's normalised value: its object, or its text if it has none."""
    return normalise(fact.object or fact.text)


def chronological(facts: Iterable[Fact], now: datetime) -> list[Fact]:
    """Return facts in the order in which they were said: by time, then position, then as given.

    Facts without a time come before all others, and so do facts with a future time: nobody has said them yet
    (GUARD-5).
    """
    return sorted(facts, key=lambda fact: _said_at(_known_time(fact, now), fact.position))


def _known_time(fact: Fact, now: datetime) -> datetime | None:
    return None if is_to_come(fact.created_at, now) else fact.created_at


def said_before(older: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    """Tell whether one record of the pool was said before another; False if either has no time."""
    if not all(record.get("created_at") for record in (older, newer)):
        return False
    return said_at(older) < said_at(newer)


def said_at(record: Mapping[str, Any]) -> tuple[datetime, int]:
    """Return the key that orders records of the pool by time; each must have a time."""
    return _said_at(datetime.fromisoformat(str(record["created_at"])), record.get("position"))


def _said_at(created_at: datetime | None, position: int | None) -> tuple[datetime, int]:
    """Return the key that orders facts and messages by time."""
    return created_at or _LONG_AGO, position or 0


def supersession_changes(facts: Sequence[Fact], now: datetime) -> list[Fact]:
    """Return the facts of a single-valued slot that have to change, with their new end.

    The function is idempotent, and the order in which facts were written doesn't matter: a fact that becomes known
    late takes its place among the others. Facts of equal value don't supersede each other. An end that was set by
    hand, without a successor or with one outside the slot, stays. A fact with a future time supersedes nothing.
    """
    ordered = chronological(facts, now)
    ids = {fact.id for fact in ordered}
    changed = []
    for at, fact in enumerate(ordered):
        if fact.superseded_by not in ids and (fact.superseded_by or fact.valid_until):
            continue
        successor = _successor(fact, ordered[at + 1 :], now)
        by, until = (successor.id, successor.created_at) if successor else (None, None)
        if (fact.superseded_by, fact.valid_until) != (by, until):
            changed.append(fact.model_copy(update={"superseded_by": by, "valid_until": until}))
    return changed


def _successor(fact: Fact, later: Sequence[Fact], now: datetime) -> Fact | None:
    value = fact_value(fact)
    return next((other for other in later if _known_time(other, now) and fact_value(other) != value), None)


MIN_SHARE = 0.6
# Subjects that mean a speaker without a name.
UNNAMED_SPEAKERS = ("user", "assistant")


@dataclass(frozen=True)
class CitedContext:
    """The messages that a fact cites, and the context that resolves their references: earlier messages, speakers."""

    cited: Iterable[str]
    context: Iterable[str] = ()


def is_supported(subject: str, value: str, text: str, said: CitedContext) -> bool:
    """Tell whether the messages support a fact.

    Every content word of `value` must occur in the cited messages. `subject` must be named there or in the context,
    or be the unnamed user or assistant. At least 60 % of the content words of the sentence `text` must occur in the
    cited messages, the context or the subject.
    """
    cited = stem_set(said.cited)
    near = cited | stem_set(said.context)
    about = query_terms(subject)
    if not query_terms(value) <= cited or not about <= near | stem_set(UNNAMED_SPEAKERS):
        return False
    claims = query_terms(text)
    return len(claims & (near | about)) >= MIN_SHARE * len(claims)
