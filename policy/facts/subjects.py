"""Whether a change is one of what the older statement is about: of the same owner's thing, and of the thing itself.

"My neighbour sold his Volvo" changes nothing about the Volvo that I drive, "Our router has changed colour" nothing
about who made it, and "My brother lives in Paris now" nothing about where my sister lives (LIVE-4).
"""

from __future__ import annotations

from itertools import pairwise

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.wording import Statement

_NEAR = 2
# Letters by which two forms are told to be of one word.
_LEAST_COMMON = 4


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
    has, and no new value is named; and where what is called new is neither in them nor of the same topic.

    Args:
        older: what was stated.
        newer: what tells of the change.
        question: the terms of the question.
    """
    if newer.marks != {"change"}:
        return True
    if not older.topics & newer.topics and _called_new(newer) - older.terms - question:
        return False
    if newer.numbers - older.numbers or newer.names - older.names or newer.dates:
        return True
    return not (_changing(newer) - older.terms - question)


def same_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may be about the thing that is asked for: not where another stands in its place.

    Asked where my sister lives, "My brother lives in Paris now" changes nothing: of two neighbouring words of the older
    statement, both of which are asked for, it has one, and beside that a word that nobody mentioned instead of the
    other. Single letters are passed over, and with them texts without blanks between words.
    """
    asked_for = question & older.terms
    own = [pair for pair in _adjacent_stems(older) if asked_for.issuperset(pair)] if len(asked_for) > 1 else []
    if not own:
        return True
    other, known = _adjacent_stems(newer), older.stems | question
    return not any(
        _is_replaced(kept, left, at, other, newer, known)
        for first, second in own
        for kept, left, at in ((first, second, 0), (second, first, 1))
    )


def _is_replaced(
    kept: str, left: str, at: int, pairs: list[tuple[str, str]], newer: Statement, known: frozenset[str]
) -> bool:
    """Tell whether `kept` has a new neighbour in the newer statement, which hasn't `left`; `at` is its place."""
    inflected = len(left) >= _LEAST_COMMON and any(term.startswith(left[:_LEAST_COMMON]) for term in newer.stems)
    if inflected or left in newer.stems or kept not in newer.terms:
        return False
    beside = {pair[1 - at] for pair in pairs if pair[at] == kept}
    return bool(beside) and beside <= newer.terms - known


def _adjacent_stems(statement: Statement) -> list[tuple[str, str]]:
    """Return the stems of each two neighbouring words; those that join two nouns, and single letters, don't count."""
    joining = shared_words("joining")
    return list(pairwise(term for word, term in statement.unmarked if len(word) > 1 and word not in joining))


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
