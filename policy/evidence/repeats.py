"""Repeated statements count as one memory (LIVE-6).

Two records say the same if the same speaker says it of the same subject in the same words, or one in the words of the
other and few more. Words that stand for a value (a number, a name) or negate make a difference: "at five" and "at six"
are no repeats of each other. Stop words, order, word forms and words that only open a text don't count.

Near-duplicates of a better fact go behind everything else, so that they never crowd out a novel one. Of the others,
facts with two better ones of the same title lose the crowding weight's share of their score; where the question asks
for a list, so do those with two better ones that name the same member, so that different members go first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from recall_loop.policy.evidence.members import member_group
from recall_loop.policy.evidence.pool_entries import entry_terms
from recall_loop.policy.evidence.ranking import SCORE_DIGITS, RankedEntry
from recall_loop.policy.facts.wording import read_statements
from recall_loop.policy.question.titles import crowded_titles, entry_title
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import Role
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.negations import negations
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import jaccard, stems, words

_LONGEST = 600
_LEAST_SHARE = 0.75
# More than what a share of a number of terms may be off by.
_ROUNDING = 1e-6
# Each question about a conversation brings up much of what the one before it did.
_KEPT_TEXTS = 2048
# A full stop behind a short word ends no sentence: "the dentist is Dr. Kerber".
_OPENING = re.compile(r"[^.:!…。：！\n]{2,40}(?:[:!…。：！]|(?<=\w\w\w)\.)[.:!…。：！]*\s*(?=\S)")
_FEWEST_OPENING, _MOST_OPENING, _FEWEST_TOLD = 2, 6, 3
_OWNER_FIELDS = ("kind", "user_id", "agent_id", "subject", "label")


def fold_repeats(ranked: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Return the entries, best first, each with those folded into it that say the same; they have no rank of their own.

    The best one's text, score and evidence stand, and the repeats' sources come behind that evidence. Their times and
    ids are under `said`; as evidence they don't count again, since they come from one speaker. What an assistant says
    again of what somebody told is nothing but an echo of it: it goes, whichever of the two ranks higher.
    """
    kept: list[RankedEntry] = []
    wordings = [_Wording.of(item.entry) for item in ranked]
    found = _Found([each for each in wordings if each is not None])
    for item, wording in zip(ranked, wordings, strict=True):
        if wording is None:
            kept.append(item)
            continue
        same = found.same(wording)
        if same is None:
            found.put(len(kept), wording)
            kept.append(item)
            continue
        place, first = same
        if wording.speaker == first.speaker:
            kept[place] = replace(kept[place], entry=_joined(kept[place].entry, item.entry))
        elif first.assists:
            found.put(place, wording)
            kept[place] = _told(item, kept[place])
    return kept


class _RareTerms:
    """The terms of some sets in one order, the rarest first.

    Sets that have a share of the larger one's terms in common lack few of them, so that they share one of their first
    few; and hardly any others do, so that few have to be compared.
    """

    def __init__(self, sets: Iterable[frozenset[str]], least_share: float) -> None:
        self._counts = Counter(chain.from_iterable(sets))
        self._other_share = 1.0 - least_share

    def first(self, terms: frozenset[str]) -> list[str]:
        """Return so many first terms of a set that one of them is among those of every set that shares enough."""
        most_others = int(self._other_share * len(terms) + _ROUNDING)
        return sorted(sorted(terms), key=self._counts.__getitem__)[: most_others + 1]


class _Found:
    """The wordings of the kept records, by what repeats of them have in common with them; `wordings` are of all."""

    def __init__(self, wordings: Sequence[_Wording]) -> None:
        rare = _RareTerms((each.stems for each in wordings), _LEAST_SHARE)
        self._first = {each: rare.first(each.stems) for each in wordings}
        self._wordings: dict[int, _Wording] = {}
        self._places: dict[tuple[object, ...], dict[str, list[int]]] = {}

    def put(self, place: int, wording: _Wording) -> None:
        """Remember the wording of the record at a place; it replaces an earlier one there."""
        self._wordings[place] = wording
        having = self._places.setdefault(wording.owner, {})
        for first in self._first[wording]:
            having.setdefault(first, []).append(place)

    def same(self, wording: _Wording) -> tuple[int, _Wording] | None:
        """Return place and wording of the first kept record that says the same."""
        having = self._places.get(wording.owner, {})
        places = sorted({place for first in self._first[wording] if first in having for place in having[first]})
        return next(
            ((place, self._wordings[place]) for place in places if wording.repeats(self._wordings[place])), None
        )


def _told(item: RankedEntry, echo: RankedEntry) -> RankedEntry:
    """Return what was told, in the place of an assistant's echo of it that ranks higher."""
    better = max(item, echo, key=lambda each: each.entry["alignment"][1:2])
    similarity = max(item.entry["similarity"], echo.entry["similarity"])
    entry: PoolEntry = {**item.entry, "similarity": similarity, "alignment": better.entry["alignment"]}
    return replace(item, score=echo.score, entry=entry, own_similarity=item.similarity)


def _joined(entry: PoolEntry, repeat: PoolEntry) -> PoolEntry:
    evidence = [*entry["evidence"], *repeat["evidence"]]  # all of them: their messages are to be folded
    return {**entry, "said": [*entry["said"], *repeat["said"]], "evidence": evidence}


@lru_cache(maxsize=_KEPT_TEXTS)
def _without_opening(text: str) -> str:
    """Return a text without a few words that only open it ("Before I forget: …"), and name nobody and no number."""
    found = _OPENING.match(text)
    opening = found.group() if found else ""
    names_something = any(char.isdigit() for char in opening) or find_entities(opening)
    few = _FEWEST_OPENING <= len(words(opening)) <= _MOST_OPENING
    rest = text[len(opening) :]
    return rest if few and not names_something and len(words(rest)) >= _FEWEST_TOLD else text


@lru_cache(maxsize=_KEPT_TEXTS)
def _stem_set(text: str) -> frozenset[str]:
    return frozenset(stems(text)) or frozenset(words(text))


class _Wording:
    """The words of a record that must agree."""

    def __init__(self, entry: PoolEntry) -> None:
        record: dict[str, Any] = entry["record"]
        text = self._text = _without_opening(record["text"])
        self.owner = tuple(record.get(name) for name in _OWNER_FIELDS)
        self.speaker = record.get("role"), record.get("author")
        self.assists = record.get("role") == Role.ASSISTANT
        self.stems = _stem_set(text)

    @cached_property
    def _negations(self) -> frozenset[str]:
        return negations(self._text)

    @cached_property
    def _values(self) -> frozenset[str]:
        named = (stem(word) for name in find_entities(self._text) for word in words(name))
        return frozenset(named) | {each for each in self.stems if any(char.isdigit() for char in each)}

    @cached_property
    def _common_names(self) -> frozenset[str]:
        """Names that are stop words elsewhere, such as "Per" and "Will": they aren't among the stems."""
        capitalised = frozenset().union(*(each.capitalised for each in read_statements(self._text)))
        return frozenset(word for word in capitalised if not stems(word))

    @classmethod
    def of(cls, entry: PoolEntry) -> _Wording | None:
        """Return the words of a record; None where it is too long to be a repeat, or has no word."""
        if len(entry["record"]["text"]) > _LONGEST:
            return None
        wording = cls(entry)
        return wording if wording.stems else None

    def repeats(self, other: _Wording) -> bool:
        """Tell whether both say the same, and one speaker does or one of them is an assistant."""
        few, many = (self, other) if len(self.stems) <= len(other.stems) else (other, self)
        # Nearly every pair ends here; what is costly to find out comes after.
        if len(few.stems) < _LEAST_SHARE * len(many.stems) or not few.stems <= many.stems:
            return False
        if self._negations != other._negations or self._common_names != other._common_names:
            return False
        if self.speaker != other.speaker and self.assists == other.assists:
            return False
        return few.stems == many.stems or not (many.stems - few.stems) & many._values


def demote_duplicates(
    ranked: Sequence[RankedEntry], threshold: float, crowding: float = 0.0, *, listed: bool = False
) -> list[RankedEntry]:
    """Move near-duplicates of a better fact to the end, in their order, and lower facts that better ones crowd.

    Args:
        ranked: facts, best first.
        threshold: Jaccard overlap of two facts' stems from which they are near-duplicates, in [0,1].
        crowding: share of its score that a fact loses if two better ones have its title, in [0,1].
        listed: whether the question asks for a list; two better ones with its member then count, too.
    """
    distinct: list[RankedEntry] = []
    repeated: list[RankedEntry] = []
    found = [entry_terms(item.entry) for item in ranked]
    rare, having = _RareTerms(found, threshold), dict[str, list[frozenset[str]]]()
    for item, terms in zip(ranked, found, strict=True):
        first = rare.first(terms)
        alike = (other for term in first for other in having.get(term, ()))
        if any(jaccard(terms, other) >= threshold for other in alike) or (distinct and threshold <= 0.0):
            repeated.append(replace(item, near_duplicate=True))
            continue
        distinct.append(item)
        for term in first:
            having.setdefault(term, []).append(terms)
    return _lower_crowded(distinct, crowding, listed) + repeated


def _lower_crowded(ranked: list[RankedEntry], crowding: float, listed: bool) -> list[RankedEntry]:
    titles = [entry_title(item.entry) or (listed and member_group(item.entry)) or None for item in ranked]
    if not crowding or not any(titles):
        return ranked
    lowered = (
        replace(item, score=round(item.score * (1.0 - crowding), SCORE_DIGITS)) if crowded else item
        for item, crowded in zip(ranked, crowded_titles(titles), strict=True)
    )
    # The sort is stable: of equal scores, even 0, the better one stays first.
    return sorted(lowered, key=lambda item: -item.score)
