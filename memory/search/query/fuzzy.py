"""Typo tolerance of the lexical retriever: a query's words, widened by what the vocabulary has near them (SEARCH-2).

The index holds stems, and a typo near the end of a word changes what the stemmer makes of it:
`runnign` stays whole where `running` becomes `run`. So two ways lead to a variant:

- the stem of what was typed is compared with the vocabulary's stems, by optimal string alignment (insert,
  delete, substitute, or swap two neighbours: one step each), in any script;
- a word of the letters a–z is also repaired at every place among its last letters and each repaired
  spelling stemmed; stems that the vocabulary has are variants at one step.

Numbers, words with digits, words of fewer than four letters, function words, and everything inside an
e-mail address, a path or a name with an underscore stay as typed. Candidates are stems without digits.
The same vocabulary always gives the same variants: fewer steps first, then those that keep the first
letter, which typos rarely touch, then the more frequent, then by alphabet.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock, local

import Stemmer
from cachetools import LRUCache
from rapidfuzz.distance import OSA

from recall_loop.memory.search.query.lexical import MAX_LENGTH, SpellingIndex, TermGroup, has_digit
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import text_language, word_forms, words
from recall_loop.text.words.verb_forms import other_forms, word_events

MOST_VARIANTS = 8
# Of a variant at one and at two steps; an exact match has 1.
WEIGHTS = {1: 0.6, 2: 0.3}
SHORTEST = 4
SHORTEST_FOR_TWO = 6
# Level 1 takes a stem that the tenant has for a typo when a near one stands in this many times as many rows.
RARITY_RATIO = 50
# Endings that English stemming removes are rarely longer.
_ENDING = 5
_LETTERS = "abcdefgilmnorstuvyz"
_INFLECTIONS = (
    *("s", "es", "e", "ed", "d", "ing", "y", "ies", "ied"),
    *("er", "ly", "ion", "ation", "ity", "ment", "ness", "al", "ful", "ence", "ance", "able", "ive", "ous"),
)
_MAX_CACHED = 4096
_MOST_COMPARED = 100
# A digit, a sign of addresses and names of code, or a path: `/` with another or a dot behind it.
_LOCKED = re.compile(r"[\d@_\\]|/.*[/.]\w")
_local = local()  # a stemmer must not be shared between threads
_WORD = re.compile(r"[^\s,;:!?()\[\]{}<>\"\u201c\u201d.\-\u2013\u2014/&+=*#|~]+")


@dataclass(frozen=True)
class _Variant:
    stem: str
    steps: int


class Vocabulary(ABC):
    """Stems, each with the number of rows that have it."""

    @abstractmethod
    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""

    @abstractmethod
    def variants(self, word: str, most: int) -> tuple[_Variant, ...]:
        """Return the stems at 1 to `most` steps (1 or 2) from a folded word, best first, its own left out.

        `most` = 0 gives frequent stems at one step.
        """

    def likely_corrections(self, word: str, most: int) -> tuple[_Variant, ...]:
        """Return the variants that make `word` look misspelt, best first.

        For a word whose stem no row has these are all; for a known one those at one step whose stem is in at
        least 50 times as many rows.
        """
        rows = self.frequency(stem(word))
        if not rows:
            return self.variants(word, most)
        return tuple(each for each in self.variants(word, 0) if self.frequency(each.stem) >= RARITY_RATIO * rows)


class ReadableVocabulary(Vocabulary):
    """The stems of the rows that a caller may read: what it is told comes from no others (GUARD-3).

    Variants are looked up among the tenant's stems, and those that stand in none of the rows are left out. Of a word's
    variants the 100 best are looked at, so that a narrow scope costs about as much as the whole tenant.

    Args:
        whole: the stems of the tenant.
        count: returns for stems the number of rows that have each.
    """

    def __init__(self, whole: Vocabulary, count: Callable[[Collection[str]], Mapping[str, int]]) -> None:
        self._whole, self._count = whole, count

    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""
        return self._count([stem])[stem]

    def variants(self, word: str, most: int) -> tuple[_Variant, ...]:
        """Return the stems at 1 to `most` steps from a folded word, best first; see `Vocabulary`."""
        near = self._whole.variants(word, most)[:_MOST_COMPARED]
        rows = self._count([each.stem for each in near])
        return tuple(sorted((each for each in near if rows[each.stem]), key=lambda each: _order(each, word, rows)))


def _order(variant: _Variant, word: str, rows: Mapping[str, int]) -> tuple[int, bool, int, str]:
    return variant.steps, variant.stem[0] != word[0], -rows.get(variant.stem, 0), variant.stem


class SpellingVocabulary(Vocabulary):
    """The stems of a tenant, and for each the number of its rows that have it.

    `frequencies` must not change while the vocabulary is in use. The tables that stems are compared by are
    built at the first word that needs them (some 40 ms for 50,000 stems); answers are kept. Safe between threads.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        self._frequencies = frequencies
        self._tables: dict[int, SpellingIndex] = {}
        self._variants: LRUCache[tuple[str, int], tuple[_Variant, ...]] = LRUCache(_MAX_CACHED)
        self._lock = Lock()

    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""
        return self._frequencies.get(stem, 0)

    def variants(self, word: str, most: int) -> tuple[_Variant, ...]:
        """Return the stems at 1 to `most` steps from a folded word, best first; see `Vocabulary`."""
        with self._lock:
            known = self._variants.get((word, most))
            if known is not None:
                return known
            least = 1 if most else RARITY_RATIO
            if least not in self._tables:
                self._tables[least] = SpellingIndex(text for text, rows in self._frequencies.items() if rows >= least)
            table = self._tables[least]
        variants = self._look_up(word, most, table)
        with self._lock:
            self._variants[word, most] = variants
        return variants

    def _look_up(self, word: str, most: int, table: SpellingIndex) -> tuple[_Variant, ...]:
        own = stem(word)
        steps: dict[str, int] = {}
        for typed in {own, word} if most == 2 else {own}:
            for text, distance in table.within(typed, most or 1):
                steps[text] = min(distance, steps.get(text, distance))
        if most and word.isascii():
            steps |= {text: 1 for text in _stem_spellings(_repaired_ending(word)) if self.frequency(text)}
        steps.pop(own, None)
        found = (_Variant(text, distance) for text, distance in steps.items())
        return tuple(sorted(found, key=lambda each: _order(each, word, self._frequencies)))


def expand_query(query: str, vocabulary: Vocabulary, level: int, language: str | None = None) -> list[TermGroup]:
    """Return one group for each distinct stem of `query`, in order (SEARCH-2).

    Level 0 gives each stem alone. Level 1 adds stems at one step from words of four letters or more
    that the vocabulary hardly knows: that no row has, or that a near stem outnumbers 50 times. Level 2 adds
    them to every such word, and stems at two steps to words of six letters or more. At most eight are
    added to a term, with weight 0.6 at one step and 0.3 at two. The language is worked out unless it is given.
    """
    locked = _locked(query) if level else frozenset()
    groups: dict[str, TermGroup] = {}
    for word, forms in _query_forms(query, language):
        if forms[0] not in groups:
            near = _variants(word, vocabulary, level, locked) if level else ()
            typos = ((each.stem, WEIGHTS[each.steps]) for each in near if each.stem not in forms)
            told = _told(word, forms, language or text_language(query))
            groups[forms[0]] = TermGroup(forms[0], (*((form, 1.0) for form in forms), *told, *typos))
    return list(groups.values())


# Weight of a character of a longer word: of what is meant it is a hint.
_PART = 0.3
# Weight of an event that may tell of the state that is asked for.
_EVENT = 0.5


def _told(word: str, forms: tuple[str, ...], language: str) -> list[tuple[str, float]]:
    """Return the stems of single words that tell how the state began that a word is of, with their weight."""
    events = sorted(word_events(word, language).difference(forms))
    return [(event, _EVENT) for event in events if " " not in event]


def term_groups(query: str, language: str | None = None) -> list[TermGroup]:
    """Return one group for each distinct stem of `query`, in order, without any variants but its other forms."""
    code = language or text_language(query)
    groups: dict[str, TermGroup] = {}
    for word, (own, *others) in _query_forms(query, language):
        forms = ((form, _PART if len(form) == 1 < len(own) else 1.0) for form in (own, *others))
        if own not in groups:
            groups[own] = TermGroup(own, (*forms, *_told(word, (own, *others), code)))
    return list(groups.values())


def _query_forms(query: str, language: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Return the words of a query as `word_forms` does, with the other forms of irregular verbs."""
    code = language or text_language(query)
    return [(word, (*forms, *sorted(other_forms(forms[0], code)))) for word, forms in word_forms(query, language)]


def corrected_query(query: str, vocabulary: Vocabulary, level: int) -> str | None:
    """Return `query` with the words that are likely misspelt replaced by their best variant, else None.

    Only words that the vocabulary hardly knows are replaced, at level 2 as at level 1, so that a clean
    word stays. The vocabulary has stems; the form of the stem that is nearest to what was typed is
    put in, with the capitals of the typed word.
    """
    if not level:
        return None
    locked = _locked(query)

    def replaced(match: re.Match[str]) -> str:
        return _corrected(match[0], vocabulary, level, locked)

    corrected = _WORD.sub(replaced, query)
    return corrected if corrected != query else None


def _locked(query: str) -> frozenset[str]:
    """Return the words of addresses, paths and identifiers, which nobody wants corrected."""
    return frozenset(word for run in query.split() if _LOCKED.search(run) for word in words(run))


def _variants(word: str, vocabulary: Vocabulary, level: int, locked: frozenset[str]) -> tuple[_Variant, ...]:
    if not _correctable(word, locked):
        return ()
    if level == 1:
        return vocabulary.likely_corrections(word, 1)[:MOST_VARIANTS]
    return vocabulary.variants(word, _most(word, level))[:MOST_VARIANTS]


def _correctable(word: str, locked: frozenset[str]) -> bool:
    known = word in locked or stem(word) in _function_stems()
    return SHORTEST <= len(word) <= MAX_LENGTH and not known and not has_digit(word)


def _most(word: str, level: int) -> int:
    return 2 if level == 2 and len(word) >= SHORTEST_FOR_TWO else 1


def _corrected(typed: str, vocabulary: Vocabulary, level: int, locked: frozenset[str]) -> str:
    """Return one run of the query as it should be spelt; what follows an apostrophe is kept."""
    folded, found = fold(typed), words(typed)
    if len(found) != 1 or not folded.startswith(found[0]) or len(folded) != len(typed):
        return typed
    word = found[0]
    if word in stop_words(ENGLISH) or not _correctable(word, locked):
        return typed
    likely = vocabulary.likely_corrections(word, _most(word, level))
    if not likely:
        return typed
    return _capitals(_form(likely[0].stem, word), typed[: len(word)]) + typed[len(word) :]


def _form(text: str, word: str) -> str:
    """Return the inflected form of a stem that is nearest to `word`."""
    forms = [text, *(form for form in _inflected(text) if stem(form) == text)]
    return min(forms, key=lambda form: OSA.distance(form, word))


def _inflected(text: str) -> Iterator[str]:
    if not text.isascii():
        return
    for ending in _INFLECTIONS:
        yield text + ending
        yield text[:-1] + ending
        yield text + text[-1] + ending


def _capitals(text: str, typed: str) -> str:
    if len(typed) > 1 and typed.isupper():
        return text.upper()
    return text[0].upper() + text[1:] if typed[0].isupper() else text


def _stem_spellings(spellings: list[str]) -> list[str]:
    """Stem a few hundred spellings that nobody will ask for again: in one call, and past every cache."""
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    found: list[str] = stemmer.stemWords(spellings)
    return found


def _repaired_ending(word: str) -> list[str]:
    """Return the spellings at one step from `word` among its last letters; the first letter stays.

    Only letters of English endings are put in: a typo before the ending is found by comparing stems.
    """
    repaired: list[str] = []
    for at in range(max(1, len(word) - _ENDING), len(word) + 1):
        before, after, rest = word[:at], word[at:], word[at + 1 :]
        repaired += [before + letter + after for letter in _LETTERS]
        if after:
            repaired += [before + letter + rest for letter in _LETTERS]
            repaired.append(before + rest)
        if rest:
            repaired.append(before + rest[0] + after[0] + rest[1:])
    return repaired


@cache
def _function_stems() -> frozenset[str]:
    return frozenset(map(stem, stop_words(ENGLISH)))
