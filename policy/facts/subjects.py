"""Whether a change is one of what the older statement is about: of the same owner's thing, and of the thing itself.

"My neighbour sold his Volvo" changes nothing about the Volvo that I drive, and "Our router has changed colour" nothing
about who made it (LIVE-4).
"""

from __future__ import annotations

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.wording import Statement

_NEAR = 2


def same_owner(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements may be about one owner's thing: not where I tell of mine, and then of another's.

    The later one is about another's where a word such as `his` stands up to two words before what both share, and
    nothing in it speaks of me or us.
    """
    speakers = shared_words("speakers")
    if speakers.isdisjoint(older.tokens) or not speakers.isdisjoint(newer.tokens):
        return True
    owners, shared = shared_words("owners"), older.terms & newer.terms
    if not owners.isdisjoint(older.tokens):
        return True
    words = [word for word, _ in newer.ordered]
    places = (at for at, (_, term) in enumerate(newer.ordered) if term in shared)
    return all(owners.isdisjoint(words[max(at - _NEAR, 0) : at]) for at in places)


def same_attribute(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change may be one of what was stated: not where something else of the same thing changes.

    It is something else where a verb such as "change" has an object that neither the older statement nor the question
    has, and no new value is named.

    Args:
        older: what was stated.
        newer: what tells of the change.
        question: the terms of the question.
    """
    if newer.marks != {"change"} or newer.numbers - older.numbers or newer.names - older.names or newer.dates:
        return True
    return not (_changing(newer) - older.terms - question)


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
