"""Postings in memory: which rows have which stem in their windows, and how often.

SQLite's full-text index is the durable copy; this one is made from it, and answers for all rows of a
tenant at once what a statement would answer row by row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recall_loop.memory.store.encoding.indexing import decode_token, encode_token

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.uint16]

_MOST = np.iinfo(np.uint16).max


class Posting(NamedTuple):
    """Rows with one stem: ascending positions, and the counts in their own text and in their windows."""

    positions: NDArray[np.int32]
    own: Counts
    window: Counts


class TermIndex:
    """Postings of n rows, which are called by their position 0 to n - 1.

    Attributes:
        own_lengths: number of stems of each row's own text [n].
        window_lengths: number of stems of each row's window [n].
    """

    def __init__(
        self,
        numbers: Mapping[str, int],
        keys: NDArray[np.int64],
        counts: tuple[Counts, Counts],
        lengths: tuple[NDArray[np.int32], NDArray[np.int32]],
    ) -> None:
        size = max(len(lengths[0]), 1)
        self._numbers = numbers
        self._positions = (keys % size).astype(np.int32)
        self._starts = np.searchsorted(keys, np.arange(len(numbers) + 1, dtype=np.int64) * size)
        self._own, self._window = counts
        self.own_lengths, self.window_lengths = lengths

    def posting(self, stem: str) -> Posting | None:
        """Return the rows with `stem`, or None if there are none."""
        number = self._numbers.get(encode_token(stem))
        if number is None:
            return None
        part = slice(self._starts[number], self._starts[number + 1])
        return Posting(self._positions[part], self._own[part], self._window[part])

    def frequencies(self, alive: NDArray[np.bool_]) -> dict[str, int]:
        """Return for every stem the number of rows among those that are alive [n]; stems that none has are left out."""
        before = np.concatenate(([0], np.cumsum(alive[self._positions])))
        sizes = np.diff(before[self._starts]).tolist()
        return {decode_token(token): sizes[number] for token, number in self._numbers.items() if sizes[number]}

    def nbytes(self) -> int:
        """Return a rough number of bytes."""
        arrays = (self._positions, self._starts, self._own, self._window, self.own_lengths, self.window_lengths)
        return sum(part.nbytes for part in arrays) + 100 * len(self._numbers)


class ValueNumbers(dict[str, int]):
    """Consecutive numbers of values; a value that is looked up for the first time gets the next."""

    def __missing__(self, value: str) -> int:
        number = self[value] = len(self)
        return number


class _StemNumbers(dict[str, int]):
    """Numbers of stems that aren't encoded yet."""

    def __init__(self, numbers: ValueNumbers) -> None:
        super().__init__()
        self._tokens = numbers

    def __missing__(self, stem: str) -> int:
        number = self[stem] = self._tokens[encode_token(stem)]
        return number


def build_term_index(rows: Iterable[tuple[str, str]]) -> TermIndex:
    """Index rows, each given by its own stems and by the encoded stems of its window, both joined by blanks."""
    numbers = ValueNumbers()
    of_stem = _StemNumbers(numbers)
    own, window = array("i"), array("i")
    own_lengths, window_lengths = array("i"), array("i")
    for own_terms, window_tokens in rows:
        _append(own_terms.split(), of_stem, own, own_lengths)
        _append(window_tokens.split(), numbers, window, window_lengths)
    lengths = tuple(np.array(part, dtype=np.int32) for part in (own_lengths, window_lengths))
    keys, window_counts = _counted(window, lengths[1])
    own_keys, found = _counted(own, lengths[0])
    at = np.searchsorted(keys, own_keys)
    known = at < len(keys)
    known[known] = keys[at[known]] == own_keys[known]
    own_counts = np.zeros(len(keys), dtype=np.uint16)
    own_counts[at[known]] = found[known]
    return TermIndex(dict(numbers), keys, (own_counts, window_counts), (lengths[0], lengths[1]))


def _append(tokens: Sequence[str], numbers: dict[str, int], into: array[int], lengths: array[int]) -> None:
    into.extend([numbers[token] for token in tokens])
    lengths.append(len(tokens))


def _counted(numbers: array[int], lengths: NDArray[np.int32]) -> tuple[NDArray[np.int64], Counts]:
    """Return (stem, row) pairs as ascending keys stem × n + row, and how often each occurs."""
    size = len(lengths)
    keys = np.array(numbers, dtype=np.int64) * size + np.repeat(np.arange(size, dtype=np.int64), lengths)
    unique, counts = np.unique(keys, return_counts=True)
    return unique, np.minimum(counts, _MOST).astype(np.uint16)
