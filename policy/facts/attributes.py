"""Whether a change is one of what was stated of a thing: something else of the same thing may change (LIVE-4).

"Our router has changed colour" says nothing about who made it, "my doctor now has a fish tank" nothing about who the
doctor is, and "the rent used to be 700" nothing about what it is.
"""

from __future__ import annotations

from itertools import pairwise

from recall_loop.policy.facts.change_words import having_words, past_pattern, shared_words
from recall_loop.policy.facts.wording import Statement

_ONLY_NOW, _ONLY_OVER, _ONLY_CHANGE = {"now"}, {"over"}, {"change"}


def same_attribute(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change may be one of what was stated: not where something else of the same thing changes.

    It is something else where a verb such as "change" has an object that neither the older statement nor the question
    has, and no new value is named; and where what is called new is neither in them nor of the same topic. Nor does it
    change by what something has now, or no longer was, that the older statement doesn't tell.

    Args:
        older: what was stated.
        newer: what tells of the change.
        question: the terms of the question.
    """
    if _has_another_thing(older, newer, question) or _ended_another(older, newer):
        return False
    if newer.marks != _ONLY_CHANGE:
        return True
    if not older.topics & newer.topics and _called_new(newer) - older.terms - question:
        return False
    if newer.numbers - older.numbers or newer.names - older.names or newer.dates:
        return True
    return not (_changing(newer) - older.terms - question)


def _has_another_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a statement only says that something has now what nobody mentioned, or so many of it.

    It tells no value in place of the older one's number, date or name: "the kitchen now has 14 drawers". Where that
    one has none, or tells what there was, too, it may: "tomatoes grow in the back bed", "the back bed has beans now".
    """
    told = older.numbers | older.dates | older.names
    having = having_words(newer.language)
    found = [word for word, _ in newer.ordered]
    if (
        newer.marks != _ONLY_NOW
        or newer.dates
        or told <= {*found}
        or having.isdisjoint(found)
        or not having.isdisjoint(older.tokens)
    ):
        return False
    verb = next(at for at, word in enumerate(found) if word in having)
    behind = [at for at, (_, term) in enumerate(newer.ordered) if at > verb and term in newer.terms]
    if not behind or found[behind[0]] in newer.names or not newer.numbers.isdisjoint(found[behind[0] :]):
        return False
    return newer.ordered[behind[0]][1] not in older.stems | question


def _ended_another(older: Statement, newer: Statement) -> bool:
    """Tell whether what a statement says is no longer so has another value: "it used to be 700" of what is 870."""
    if newer.marks != _ONLY_OVER or not past_pattern(newer.language).fullmatch(newer.mark):
        return False
    values = ((older.numbers, newer.numbers), (older.names, newer.names))
    return any(old and new and old.isdisjoint(new) for old, new in values)


def _called_new(statement: Statement) -> frozenset[str]:
    """Return the content words right behind "new"."""
    new = shared_words("new")
    pairs = pairwise(statement.ordered)
    return frozenset(term for (word, _), (_, term) in pairs if word in new) & statement.terms


def _changing(statement: Statement) -> frozenset[str]:
    """Return what changes: the content word behind each verb of changing, or before it where none follows."""
    verbs = tuple(shared_words("changing"))
    ordered, content = statement.ordered, statement.terms
    found = set()
    for at, (word, _) in enumerate(ordered):
        if word.startswith(verbs):
            behind = [term for _, term in ordered[at + 1 :] if term in content]
            before = [term for _, term in ordered[:at] if term in content]
            found.update(behind[:1] or before[-1:])
    return frozenset(found)
