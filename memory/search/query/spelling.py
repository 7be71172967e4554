"""The vocabulary for correcting misspelt words: the stems near a given one, and their frequencies.

The index has stems, and a typo near the end of a word changes the result of the stemmer:
`runnign` stays whole where `running` becomes `run`. So there are two ways to find a variant:

- the stem of the typed word is compared with the vocabulary's stems, by optimal string alignment (insert,
  delete, substitute, or swap two neighbours: one step each), in any script;
- a word of the letters a–z is also repaired at every position among its last letters and each repaired
  spelling is stemmed; stems in the vocabulary are variants at one step.

Candidates are stems without digits. The same vocabulary always gives the same variants: fewer steps first, then
those that keep the first letter, which typos rarely touch, then the more frequent, then by alphabet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock, local
from typing import TYPE_CHECKING

import numpy as np
import Stemmer
from cachetools import LRUCache
from rapidfuzz.distance import OSA
from rapidfuzz.process import cdist

from recall_loop.text.words.stemming import stem

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Level 1 treats a stem that the tenant has as a typo if a near one is in this many times as many rows.
RARITY_RATIO = 50
MAX_LENGTH = 64
# Endings that English stemming removes are rarely longer.
_ENDING = 5
_LETTERS = "abcdefgilmnorstuvyz"
_MAX_CACHED = 4096
_MAX_COMPARED = 100
_BITS = np.uint64(63)
_ONE = np.uint64(1)
_local = local()  # a stemmer must not be shared between threads


@dataclass(frozen=True)
class Variant:
    """A stem, and its number of steps from the typed word."""

    stem: str
    steps: int


class Vocabulary(ABC):
    """Stems, each with the number of rows that have it."""

    @abstractmethod
    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""

    @abstractmethod
    def variants(self, word: str, most: int) -> tuple[Variant, ...]:
        """Return the stems at 1 to `most` steps (1 or 2) from a folded word, best first, without its own stem.

        `most` = 0 gives frequent stems at one step.
        """

    def likely_corrections(self, word: str, most: int) -> tuple[Variant, ...]:
        """Return the variants of which `word` is probably a misspelling, best first.

        For a word whose stem no row has, these are all variants; for a known one, those at one step whose stem is in
        at least 50 times as many rows.
        """
        rows = self.frequency(stem(word))
        if not rows:
            return self.variants(word, most)
        return tuple(each for each in self.variants(word, 0) if self.frequency(each.stem) >= RARITY_RATIO * rows)


class ReadableVocabulary(Vocabulary):
    """The stems of the rows that a caller may read; nothing is revealed about others (GUARD-3).

    Variants are looked up among the tenant's stems, and those in none of the readable rows are left out. Only the 100
    best variants of a word are checked, so that a narrow scope costs about as much as the whole tenant.

    Args:
        whole: the stems of the tenant.
        count: returns the number of readable rows with each stem.
    """

    def __init__(self, whole: Vocabulary, count: Callable[[Collection[str]], Mapping[str, int]]) -> None:
        self._whole, self._count = whole, count

    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""
        return self._count([stem])[stem]

    def variants(self, word: str, most: int) -> tuple[Variant, ...]:
        """Return the stems at 1 to `most` steps from a folded word, best first; see `Vocabulary`."""
        near = self._whole.variants(word, most)[:_MAX_COMPARED]
        rows = self._count([each.stem for each in near])
        return tuple(sorted((each for each in near if rows[each.stem]), key=lambda each: _order(each, word, rows)))


def _order(variant: Variant, word: str, rows: Mapping[str, int]) -> tuple[int, bool, int, str]:
    return variant.steps, variant.stem[0] != word[0], -rows.get(variant.stem, 0), variant.stem


class SpellingVocabulary(Vocabulary):
    """The stems of a tenant, each with the number of rows that have it.

    `frequencies` must not change while the vocabulary is in use. The comparison tables are built for the first word
    that needs them (about 40 ms for 50,000 stems); results are cached. Thread-safe.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        self._frequencies = frequencies
        self._tables: dict[int, SpellingIndex] = {}
        self._variants: LRUCache[tuple[str, int], tuple[Variant, ...]] = LRUCache(_MAX_CACHED)
        self._lock = Lock()

    def frequency(self, stem: str) -> int:
        """Return the number of rows that have `stem`, 0 when none has."""
        return self._frequencies.get(stem, 0)

    def variants(self, word: str, most: int) -> tuple[Variant, ...]:
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

    def _look_up(self, word: str, most: int, table: SpellingIndex) -> tuple[Variant, ...]:
        own = stem(word)
        steps: dict[str, int] = {}
        for typed in {own, word} if most == 2 else {own}:
            for text, distance in table.within(typed, most or 1):
                steps[text] = min(distance, steps.get(text, distance))
        if most and word.isascii():
            steps |= {text: 1 for text in _stem_spellings(_repaired_ending(word)) if self.frequency(text)}
        steps.pop(own, None)
        found = (Variant(text, distance) for text, distance in steps.items())
        return tuple(sorted(found, key=lambda each: _order(each, word, self._frequencies)))


def _stem_spellings(spellings: list[str]) -> list[str]:
    """Stem a few hundred spellings that won't be needed again: in one call, bypassing every cache."""
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    found: list[str] = stemmer.stemWords(spellings)
    return found


def _repaired_ending(word: str) -> list[str]:
    """Return the spellings at one step from `word` among its last letters; the first letter stays.

    Only letters of English endings are inserted: a typo before the ending is found by comparing stems.
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


class SpellingIndex:
    """A fixed set of stems, searched for those near a string.

    Stems with digits, of fewer than three letters (one step from half of all short words) or of more than
    64 are left out.
    """

    def __init__(self, stems: Iterable[str]) -> None:
        texts = sorted((text for text in stems if 3 <= len(text) <= MAX_LENGTH and not has_digit(text)), key=len)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        # Stems of n letters are at starts[n] up to starts[n + 1].
        self._starts = np.searchsorted(lengths, np.arange(MAX_LENGTH + 4))
        self._texts = np.array(texts, dtype=object)
        parts = [_signatures(texts[a:b]) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True) if a < b]
        self._signatures = np.concatenate([np.zeros(0, dtype=np.uint64), *parts])

    def within(self, text: str, most: int) -> list[tuple[str, int]]:
        """Return (stem, steps) of all stems at 1 to `most` (1 or 2) steps of optimal string alignment."""
        if not 0 < len(text) <= MAX_LENGTH:
            return []
        near = slice(self._starts[max(len(text) - most, 0)], self._starts[len(text) + most + 1])
        differing = self._signatures[near] ^ _signatures([text])[0]
        for _ in range(2 * most):
            differing &= differing - _ONE  # clears the lowest bit
        found = self._texts[near][differing == 0].tolist()
        if not found:
            return []
        steps = cdist([text], found, scorer=OSA.distance, score_cutoff=most, dtype=np.uint8)[0]
        return [(found[index], int(steps[index])) for index in np.flatnonzero((steps > 0) & (steps <= most))]


def has_digit(text: str) -> bool:
    """Tell whether `text` has a digit or another numeric character, of any script."""
    return not text.isalpha() and any(map(str.isnumeric, text))


def _signatures(texts: list[str]) -> NDArray[np.uint64]:
    """Return the signatures of texts of one length."""
    length = len(texts[0])
    codes = np.array(texts, dtype=f"<U{length}").view(np.uint32).reshape(len(texts), length).astype(np.uint64)
    found: NDArray[np.uint64] = np.bitwise_or.reduce(_ONE << (codes & _BITS), axis=1)
    return found
