"""How rare words are in a memory, and whether a change of a much-mentioned thing concerns what was stated (LIVE-4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from functools import cached_property

from recall_loop.policy.facts.wording import Statement
from recall_loop.text.words.languages import CHINESE
from recall_loop.text.words.verb_forms import event_stems

# In a small memory all words count nearly alike: so many unseen records are added.
_PRIOR_RECORDS = 1000
# From this many mentions of a thing on, a change of it more likely concerns another of its properties.
_OFTEN = 6
_ENDS, _ONLY_NOW = frozenset({"over", "instead"}), frozenset({"now"})


class Rarity:
    """How rare a word is, in [0,1]; 1 = only in a few records, or unknown. Words are counted once one is asked for.

    Args:
        count: returns in how many records each word occurs, and how many records there are.
    """

    def __init__(self, count: Callable[[], tuple[Mapping[str, int], int]]) -> None:
        self._count = count

    @cached_property
    def _counted(self) -> tuple[Mapping[str, int], int]:
        return self._count()

    def __call__(self, term: str) -> float:
        """Return how rare a word is."""
        frequencies, records = self._counted
        seen, all_records = frequencies.get(term, 0), records + _PRIOR_RECORDS
        return max(math.log(all_records / (seen + 1)) / math.log(all_records), 0.0) if seen else 1.0

    def is_told_often(self, term: str) -> bool:
        """Tell whether many records have a word."""
        return self._counted[0].get(term, 0) >= _OFTEN


def rarity_of(frequencies: Mapping[str, int], records: int) -> Rarity:
    """Return the rarity of words, given in how many of `records` records they occur."""
    return Rarity(lambda: (frequencies, records))


def tells_of_one_property(older: Statement, newer: Statement, question: frozenset[str], rarity: Rarity) -> bool:
    """Tell whether a change may be one of what was stated, and not only of a thing that has many other properties.

    A project or a child is mentioned often: "the retry limit in Harrier was raised" has no more than its name in
    common with "Harrier's database is PostgreSQL", and a matter of its own. "I sold the Volvo" has no more in common
    with "I drive a Volvo", but ends what was told, since that told of me and not of the Volvo.
    """
    shared = older.terms & newer.terms
    if older.topics & newer.topics or CHINESE in {older.language, newer.language}:
        return True
    if len(shared & question) > 1 or not all(map(rarity.is_told_often, shared)) or _told_alike(older, newer, shared):
        return True
    if not newer.marks:
        return False
    named = {term for word, term in newer.ordered if word in newer.names and newer.marks == _ONLY_NOW}
    if newer.terms <= newer.topics | older.stems | question | named:
        return True
    if any(not newer.stems.isdisjoint(begun_by(term, older.language)) for term in older.terms - shared):
        return True
    ends = not _ENDS.isdisjoint(newer.marks) and shared.isdisjoint(older.opening)
    return ends and (newer.speaks or newer.acting & newer.terms <= shared)


def _told_alike(older: Statement, newer: Statement, shared: Set[str]) -> bool:
    """Tell whether the same is told of a thing, as it is now: "the shop is in Ghent", "the shop is now in Bruges"."""
    return newer.marks <= _ONLY_NOW and _told_behind(older, shared) == _told_behind(newer, shared)


def _told_behind(statement: Statement, shared: Set[str]) -> list[str]:
    """Return the two words behind the first one that is shared, without marks of change."""
    found = [pair for run in statement.runs for pair in run]
    at = next((at for at, (_, term) in enumerate(found) if term in shared), len(found))
    return [word for word, _ in found[at + 1 : at + 3]]


def begun_by(state: str, language: str) -> frozenset[str]:
    """Return the stems of the verbs that tell how a state began, which stand for the state's: moved, lives."""
    return frozenset(event.split()[0] for event in event_stems(state, language))
