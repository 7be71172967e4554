"""How rare words are in a memory, and whether a change of a frequent subject affects what was stated (LIVE-4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from functools import cached_property

from recall_loop.policy.facts.wording import Statement
from recall_loop.text.gloss.glosses import english_stems
from recall_loop.text.words.languages import WITHOUT_BLANKS
from recall_loop.text.words.verb_forms import event_stems

# So many unseen records are added, so that in a small memory all words count nearly alike.
_PRIOR_RECORDS = 1000
# From this many mentions of a thing on, a change of it more likely affects another of its properties.
_OFTEN = 6
_ENDS, _ONLY_NOW = frozenset({"over", "instead"}), frozenset({"now"})


class Rarity:
    """How rare a word is, in [0,1]; 1 = only in a few records, or unknown. Words are counted on first use.

    Args:
        count: returns the number of records with each word, and the number of all records.
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

    def is_frequent(self, term: str) -> bool:
        """Tell whether many records have a word."""
        return self._counted[0].get(term, 0) >= _OFTEN


def rarity_of(frequencies: Mapping[str, int], records: int) -> Rarity:
    """Return the rarity of words from the numbers of records with each, of `records` in all."""
    return Rarity(lambda: (frequencies, records))


def affects_same_property(older: Statement, newer: Statement, question: frozenset[str], rarity: Rarity) -> bool:
    """Tell whether a change may affect the stated property, rather than another property of the same thing.

    A project or a child is mentioned often: "the retry limit in Harrier was raised" shares only the name with
    "Harrier's database is PostgreSQL", and is about something else. "I sold the Volvo" shares no more with "I drive a
    Volvo", but ends it, since that statement is about the speaker and not about the Volvo.
    """
    shared = older.terms & newer.terms
    if older.language != newer.language:
        shared |= _in_english(older) & _in_english(newer)
    if older.topics & newer.topics or not WITHOUT_BLANKS.isdisjoint((older.language, newer.language)):
        return True
    if len(shared & question) > 1 or not all(map(rarity.is_frequent, shared)) or _go_on_alike(older, newer, shared):
        return True
    if not newer.marks:
        return False
    named = {term for word, term in newer.ordered if word in newer.names and newer.marks == _ONLY_NOW}
    if newer.terms <= newer.topics | older.stems | question | named:
        return True
    if any(not newer.stems.isdisjoint(start_event_stems(term, older.language)) for term in older.terms - shared):
        return True
    ends = not _ENDS.isdisjoint(newer.marks) and shared.isdisjoint(older.opening)
    return ends and (newer.speaks or newer.acting & newer.terms <= shared)


def _in_english(statement: Statement) -> frozenset[str]:
    return english_stems(statement.text) or statement.terms - statement.topics


def _go_on_alike(older: Statement, newer: Statement, shared: Set[str]) -> bool:
    """Tell whether two statements go on alike after the thing: "the shop is in Ghent", "the shop is now in Bruges"."""
    return newer.marks <= _ONLY_NOW and _words_after(older, shared) == _words_after(newer, shared)


def _words_after(statement: Statement, shared: Set[str]) -> list[str]:
    """Return the two words after the first shared one, without marks of change."""
    found = [pair for run in statement.runs for pair in run]
    at = next((at for at, (_, term) in enumerate(found) if term in shared), len(found))
    return [word for word, _ in found[at + 1 : at + 3]]


def start_event_stems(state: str, language: str) -> frozenset[str]:
    """Return the stems of the verbs for the start of a state: "moved" for "lives"."""
    return frozenset(event.split()[0] for event in event_stems(state, language))
