"""Whether a change affects the stated attribute of a thing, rather than another attribute of it (LIVE-4).

"Our router has changed colour" says nothing about who made it, "my doctor now has a fish tank" nothing about who the
doctor is, and "the rent used to be 700" nothing about what it is.
"""

from __future__ import annotations

from itertools import pairwise

from recall_loop.policy.facts.change_words import having_words, past_pattern, shared_words
from recall_loop.policy.facts.wording import Statement

_ONLY_NOW, _ONLY_OVER, _ONLY_CHANGE = {"now"}, {"over"}, {"change"}


def same_attribute(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change may affect the stated attribute, rather than another attribute of the same thing.

    It affects another one if a verb such as "change" has an object that is neither in the older statement nor in the
    question, and no new value is given; or if the thing called new is neither in them nor on the same topic. The same
    holds if the newer statement only says what something has now, or what it no longer is, and the older one doesn't
    mention that.

    Args:
        older: the older statement.
        newer: the statement of the change.
        question: the terms of the question.
    """
    if _has_another_thing(older, newer, question) or _ends_another_value(older, newer):
        return False
    if newer.marks != _ONLY_CHANGE:
        return True
    if not older.topics & newer.topics and _terms_after_new(newer) - older.terms - question:
        return False
    if newer.numbers - older.numbers or newer.names - older.names or newer.dates:
        return True
    return not (_changing(newer) - older.terms - question)


def _has_another_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a statement only says that something now has a thing, or a number of them, not mentioned before.

    Then it doesn't replace the older one's number, date or name: "the kitchen now has 14 drawers". It may if the older
    one has no such value, or also says what there was: "tomatoes grow in the back bed", "the back bed has beans now".
    """
    values = older.numbers | older.dates | older.names
    having = having_words(newer.language)
    found = [word for word, _ in newer.ordered]
    if (
        newer.marks != _ONLY_NOW
        or newer.dates
        or values <= {*found}
        or having.isdisjoint(found)
        or not having.isdisjoint(older.tokens)
    ):
        return False
    verb = next(at for at, word in enumerate(found) if word in having)
    after = [at for at, (_, term) in enumerate(newer.ordered) if at > verb and term in newer.terms]
    if not after or found[after[0]] in newer.names or not newer.numbers.isdisjoint(found[after[0] :]):
        return False
    return newer.ordered[after[0]][1] not in older.stems | question


def _ends_another_value(older: Statement, newer: Statement) -> bool:
    """Tell whether a statement ends a value other than the older one's: "it used to be 700" when it is 870."""
    if newer.marks != _ONLY_OVER or not past_pattern(newer.language).fullmatch(newer.mark):
        return False
    values = ((older.numbers, newer.numbers), (older.names, newer.names))
    return any(old and new and old.isdisjoint(new) for old, new in values)


def _terms_after_new(statement: Statement) -> frozenset[str]:
    """Return the content words right after "new"."""
    new = shared_words("new")
    pairs = pairwise(statement.ordered)
    return frozenset(term for (word, _), (_, term) in pairs if word in new) & statement.terms


def _changing(statement: Statement) -> frozenset[str]:
    """Return what changes: the content word after each verb of changing, or before it if none follows."""
    verbs = tuple(shared_words("changing"))
    ordered, content = statement.ordered, statement.terms
    found = set()
    for at, (word, _) in enumerate(ordered):
        if word.startswith(verbs):
            after = [term for _, term in ordered[at + 1 :] if term in content]
            before = [term for _, term in ordered[:at] if term in content]
            found.update(after[:1] or before[-1:])
    return frozenset(found)
