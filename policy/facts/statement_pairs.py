"""Pairs of an earlier statement and a later one that have so much in common that one may correct the other (LIVE-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.statement_similarity import MAX_WORDS, PLAIN_WORDS, worded_alike
from recall_loop.policy.facts.subjects import denies_value
from recall_loop.policy.facts.wording import Statement, read_statements

LONGEST_OLDER, LONGEST_NEWER = 2000, 800
"""Characters of the texts that are compared at all."""
# A single letter is mostly a unit: 20p and 22p have nothing in common.
_UNIT = re.compile(r"[a-z\u00df-\u00ff\u0430-\u044f]")


def values_of(statement: Statement) -> frozenset[str]:
    """Return the numbers and names of a statement."""
    return statement.numbers | statement.names


@lru_cache(maxsize=4096)
def brief_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text that are short enough to be corrections."""
    return tuple(each for each in read_statements(text[:LONGEST_NEWER]) if _is_brief(each))


def _is_brief(statement: Statement) -> bool:
    return statement.brief and len(statement.tokens) <= MAX_WORDS


@lru_cache(maxsize=4096)
def _neighbours(text: str) -> tuple[tuple[Statement, Statement, Statement], ...]:
    """Return each pair of neighbouring statements of a text, and both joined into one."""
    pairs = pairwise(read_statements(text[:LONGEST_NEWER]))
    return tuple((first, second, Statement(f"{first.text} {second.text}")) for first, second in pairs)


def _two_part_changes(older: Statement, newer: str) -> Iterator[Statement]:
    """Yield changes stated in two sentences: the end of what the older statement is about, and then its replacement.

    "Sold the Volvo! I have a Tesla." is one change; the second sentence alone may be about anything. The second
    sentence may also refer back to the first: "The plumber never came. He says Friday now."
    """
    for first, second, whole in _neighbours(newer):
        if older.terms.isdisjoint(first.stems):  # the cheapest test comes first
            continue
        is_one_change = _is_replaced_by(first, second) or _refers_back(first, second)
        if is_one_change and not older.terms.isdisjoint(first.terms) and _is_brief(whole):
            yield whole


def _is_replaced_by(first: Statement, second: Statement) -> bool:
    replaces = bool(first.marks) and not second.marks and second.is_informative
    return replaces and bool(values_of(second) - values_of(first))


def _refers_back(first: Statement, second: Statement) -> bool:
    """Tell whether the second of two sentences states a change of the first one's subject: "it is the 14th now".

    It does if the first is a question: "You ask about the choir? We meet on Fridays now."
    """
    if first.marks or not second.marks:
        return False
    return first.asks or not shared_words("continuing").isdisjoint(second.tokens[:1])


def comparable_pairs(older: Sequence[Statement], newer: str) -> list[tuple[Statement, Statement]]:
    """Return the pairs of statements that have something in common."""
    brief = brief_statements(newer) if older else ()
    return [
        (first, second)
        for first in older
        for second in (*brief, *_two_part_changes(first, newer))
        if _comparable(first, second)
    ]


def _comparable(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements have enough in common; the cheapest test comes first."""
    if older.terms.isdisjoint(newer.stems) and older.topics.isdisjoint(newer.topics):
        return False
    shared = {term for term in older.terms & newer.terms if not _UNIT.fullmatch(term)}
    if older.text == newer.text or not shared or not newer.is_informative:
        return False
    if all(term[0] == "=" for term in shared) and max(len(older.tokens), len(newer.tokens)) > PLAIN_WORDS:
        return False
    return bool(newer.marks) or denies_value(older, newer) or worded_alike(older.tokens[:MAX_WORDS], newer.tokens)
