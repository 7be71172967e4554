"""Strings near a given one: which of many stems are one or two steps away (SEARCH-2).

Stems stand in order of length, each with a signature of 64 bits that says which letters it has. A step
changes at most two of them, so a few passes of numpy leave a handful of stems for rapidfuzz to measure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.distance import OSA
from rapidfuzz.process import cdist

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = np.uint64(63)
_ONE = np.uint64(1)
MAX_LENGTH = 64


class SpellingIndex:
    """A fixed set of stems, asked for those near a string.

    Stems with digits, of fewer than three letters (one step from half of all short words) or of more than
    64 are left out.
    """

    def __init__(self, stems: Iterable[str]) -> None:
        texts = sorted((text for text in stems if 3 <= len(text) <= MAX_LENGTH and not has_digit(text)), key=len)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        # Stems of n letters stand from starts[n] up to starts[n + 1].
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
            differing &= differing - _ONE  # takes the lowest bit away
        found = self._texts[near][differing == 0].tolist()
        if not found:
            return []
        steps = cdist([text], found, scorer=OSA.distance, score_cutoff=most, dtype=np.uint8)[0]
        return [(found[index], int(steps[index])) for index in np.flatnonzero((steps > 0) & (steps <= most))]


def has_digit(text: str) -> bool:
    """Tell whether `text` has a digit or another sign for a number, of any script."""
    return not text.isalpha() and any(map(str.isnumeric, text))


def _signatures(texts: list[str]) -> NDArray[np.uint64]:
    """Return the signatures of texts of one length."""
    length = len(texts[0])
    codes = np.array(texts, dtype=f"<U{length}").view(np.uint32).reshape(len(texts), length).astype(np.uint64)
    found: NDArray[np.uint64] = np.bitwise_or.reduce(_ONE << (codes & _BITS), axis=1)
    return found
