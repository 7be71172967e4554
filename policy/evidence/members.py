"""How well a record of the pool fits the list that a question asks for (PIECES-1).

Members lie in statements of those whom the question is about: "I tried karate last week". A record that one of the
list's own queries found is rated by who told it, whether it tells something, of its author, at some length, and by
whether it names a member of the asked kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import QuerySource, Role
from recall_loop.text.words.stop_words import first_person_balance
from recall_loop.text.words.tokens import stems

LIST_SOURCES = frozenset((QuerySource.STATEMENT.value, QuerySource.MEMBER.value))
# Shares of the whole; they sum to 1.
_TOLD, _STATES, _OF_ITSELF, _LENGTH, _MEMBER = 0.35, 0.14, 0.08, 0.2, 0.23
# Characters of a text that tells hardly anything, and of one that has room for all.
_SHORT, _LONG = 30, 300
_QUESTION_TAIL = 60
_DIGITS = 6
# So many of the best records are looked through for new members.
MEMBER_DEPTH = 10


def ends_in_question(text: str) -> bool:
    """Tell whether a question mark is among the last 60 characters of a turn."""
    tail = text[-_QUESTION_TAIL:]
    return "?" in tail or "\uff1f" in tail or "\u061f" in tail


def member_fit(entry: PoolEntry, names: frozenset[str], speaker: Role | None) -> float:
    """Return how well an entry fits as a member, in [0,1]; 0 where no query of the list found it.

    Args:
        entry: an entry of the pool.
        names: stems of the names in the question.
        speaker: the role that the question expects to have told it, or None.
    """
    sources = {match["source"] for match in entry["matches"]}
    if LIST_SOURCES.isdisjoint(sources):
        return 0.0
    text = entry["record"]["text"]
    fit = _TOLD * is_said_by(entry, names, speaker)
    fit += _STATES * (not ends_in_question(text))
    fit += _OF_ITSELF * (first_person_balance(text) > 0.0)
    fit += _LENGTH * min(max(math.log(max(len(text), 1) / _SHORT) / math.log(_LONG / _SHORT), 0.0), 1.0)
    return round(fit + _MEMBER * (QuerySource.MEMBER.value in sources), _DIGITS)


def is_said_by(entry: PoolEntry, names: frozenset[str], speaker: Role | None) -> bool:
    """Tell whether a record is by or about somebody whom the question names, or said in the role that it expects."""
    record = entry["record"]
    people = (record.get(field) for field in ("author", "subject"))
    return record.get("role") == speaker is not None or any(name and names >= set(stems(name)) for name in people)


def count_new_members(ranked: Sequence[PoolEntry], iteration: int) -> int:
    """Return how many of the best records are further members: the list's own queries found them now, none before.

    That is a record that wasn't known, or one that turns out to name a member of the kind.

    Args:
        ranked: the pool, best first.
        iteration: the current iteration, from 1.
    """
    return sum(_is_new_member(entry, iteration) for entry in ranked[:MEMBER_DEPTH])


def _is_new_member(entry: PoolEntry, iteration: int) -> bool:
    naming = [match["iteration"] for match in entry["matches"] if match["source"] == QuerySource.MEMBER]
    if naming:
        return min(naming) == iteration
    listed = any(match["source"] in LIST_SOURCES for match in entry["matches"])
    return listed and entry["first_iteration"] == iteration


def member_group(entry: PoolEntry) -> str | None:
    """Return what an entry shares with others that tell no further member: the first member that it was found by."""
    return next((match["query"] for match in entry["matches"] if match["source"] == QuerySource.MEMBER), None)
