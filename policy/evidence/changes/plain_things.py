"""Later texts about the plain thing, where a kind of it is asked for (LIVE-4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.statement_pairs import LONGEST_NEWER
from recall_loop.policy.facts.wording import Statement, read_statements

# From so many common words a statement about the plain thing is told from one about a kind of it.
_SEVERAL = 2


def is_of_plain_thing(
    older: frozenset[str], newer: RankedEntry, earlier: Iterable[RankedEntry], asked: frozenset[str]
) -> bool:
    """Tell whether a later text is about the plain thing, and an older one about a kind of it that is asked for.

    It is if another earlier text has all the asked words that both have, and not those that only the older one has:
    "the guest wifi password is A", "our wifi, password B", "I changed the wifi password".
    """
    told = older & asked
    shared = told & stems_of(statements_of(newer))
    if len(shared) < _SEVERAL or shared == told:
        return False
    return any(stems_of(statements_of(item)) & told == shared and _has_value(statements_of(item)) for item in earlier)


def stems_of(statements: Iterable[Statement]) -> frozenset[str]:
    """Return the stems of all statements."""
    return frozenset[str]().union(*(each.stems for each in statements))


def statements_of(item: RankedEntry) -> Sequence[Statement]:
    """Return the statements at the start of an entry's text."""
    return read_statements(item.entry["record"]["text"][:LONGEST_NEWER])


def _has_value(statements: Iterable[Statement]) -> bool:
    return any(each.numbers or each.names for each in statements)
