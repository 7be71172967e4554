"""Index of rows in memory: columns and postings, for searches of many rows at once.

A tenant's index is made once and then kept up with the tenant's writes: rows that changed since are struck
out of the first part and stand in a second, small one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.index.row_columns import (
    NO_TIME,
    ColumnCodes,
    IndexRow,
    RowColumns,
    TermIndex,
    build_term_index,
)
from recall_loop.memory.store.index.row_queries import CorpusStatistics
from recall_loop.memory.store.index.vectors import find_sorted
from recall_loop.memory.store.tables.predicate import ColumnPredicate
from recall_loop.text.words.tokens import stems


class TermCounts(NamedTuple):
    """Counts of t stems in n rows, [n, t] each: in the row's own text, and in its window."""

    own: NDArray[np.float64]
    window: NDArray[np.float64]


class RowIndex:
    """Columns and postings of rows, which are called by their position.

    Attributes:
        columns: the rows' facets; a position is an index into them.
        head: number of rows in the first part.
        alive: False where a row stands a second time, newer, or was deleted [n].
        own_lengths: stems of each row's own text [n].
        window_lengths: stems of each row's window [n].
    """

    def __init__(
        self, parts: Sequence[tuple[RowColumns, TermIndex]], codes: ColumnCodes, dead: NDArray[np.int64]
    ) -> None:
        """Join parts; `dead` are the rowids of the first part that no longer hold."""
        self.codes = codes
        self.columns = parts[0][0]
        self.head = len(self.columns.rowids)
        # Terms of each part with the position of its first row; there are at most two parts.
        self._terms = list(zip((0, self.head), (terms for _, terms in parts), strict=False))
        for columns, _ in parts[1:]:
            self.columns = self.columns.joined(columns)
        self.alive = np.ones(len(self.columns.rowids), dtype=bool)
        self.alive[: self.head] = ~np.isin(parts[0][0].rowids, dead)
        self.own_lengths = np.concatenate([terms.own_lengths for _, terms in self._terms])
        self.window_lengths = np.concatenate([terms.window_lengths for _, terms in self._terms])
        self._whole = bool(self.alive.all())
        self._last_sums: tuple[tuple[tuple[str, float], ...], NDArray[np.float64]] | None = None

    @classmethod
    def from_rows(cls, rows: Sequence[IndexRow]) -> RowIndex:
        """Index rows given in ascending order of rowid."""
        codes = ColumnCodes()
        terms = build_term_index((row.terms, row.window_tokens) for row in rows)
        return cls([(RowColumns.from_rows(rows, codes), terms)], codes, np.zeros(0, dtype=np.int64))

    def with_changes(self, rows: Sequence[IndexRow], dead: NDArray[np.int64]) -> RowIndex:
        """Return the index with `rows` (ascending) instead of what it holds of the rowids `dead`.

        Only the first part is kept: `rows` are all that changed since that was made.
        """
        first = self.columns if len(self._terms) == 1 else self.columns.head(self.head)
        second = RowColumns.from_rows(rows, self.codes)
        terms = build_term_index((row.terms, row.window_tokens) for row in rows)
        return RowIndex([(first, self._terms[0][1]), (second, terms)], self.codes, dead)

    @cached_property
    def _author_names(self) -> list[str]:
        return list(self.codes.names["author"])

    def author_count(self) -> int:
        """Return the number of different authors."""
        return len(self._author_names)

    def author_stems(self, code: int) -> frozenset[str]:
        """Return the stems of an author's name, or of a fact's subject, by its number."""
        if code not in self.codes.author_stems:
            self.codes.author_stems[code] = frozenset(stems(self._author_names[code]))
        return self.codes.author_stems[code]

    def __len__(self) -> int:
        """Return the number of rows that hold."""
        return int(self.alive.sum())

    def positions(self, rowids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of rowids [n]; -1 where one isn't in the index."""
        found = np.full(len(rowids), -1, dtype=np.int64)
        for start, end in ((0, self.head), (self.head, len(self.columns.rowids))):
            at, present = find_sorted(self.columns.rowids[start:end], rowids)
            present[present] = self.alive[start + at[present]]
            found[present] = start + at[present]
        return found

    def sorted_rowids(self, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the rowids of the rows that are allowed, ascending."""
        rowids = self.columns.rowids[allowed]
        return rowids if len(self._terms) == 1 else np.sort(rowids)

    def mask(self, rowids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are among `rowids`, by position [n]."""
        found = np.zeros(len(self.alive), dtype=bool)
        positions = self.positions(rowids)
        found[positions[positions >= 0]] = True
        return found

    def matching(self, tests: ColumnPredicate) -> NDArray[np.bool_]:
        """Return which rows pass all tests but those of tags, by position [n]; the tenant is the index's own."""
        allowed = self.alive.copy()
        for name, wanted in tests.values:
            names = self.codes.names[name]
            numbers = [names[value] for value in wanted if value in names]
            column = self.columns.coded[name]
            allowed &= column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
        if tests.start is not None:
            allowed &= self.columns.times >= max(tests.start, NO_TIME + 1)
        if tests.end is not None:
            allowed &= (self.columns.times < tests.end) & (self.columns.times != NO_TIME)
        if tests.scores is not None:
            allowed &= tests.scores.matching(self.columns.scores)
        return allowed & self._valid(tests)

    def _valid(self, tests: ColumnPredicate) -> NDArray[np.bool_]:
        """Return which rows were there at the time wanted for and, unless history is wanted, hold (then)."""
        columns = self.columns
        if tests.as_of is None:
            return np.ones(len(self.alive), dtype=bool) if tests.superseded else ~columns.superseded
        there = columns.times <= tests.as_of  # including rows without a time
        return there if tests.superseded else there & (columns.until > tests.as_of)

    def frequency(self, stem: str) -> int:
        """Return the number of rows whose window has a stem."""
        total = 0
        for start, terms in self._terms:
            posting = terms.posting(stem)
            if posting is not None:
                whole = self._whole
                total += len(posting.positions) if whole else int(self.alive[start + posting.positions].sum())
        return total

    def frequency_within(self, stem: str, allowed: NDArray[np.bool_]) -> int:
        """Return the number of allowed rows whose window has a stem; 0 unless one of them has it in its own text."""
        total, own = 0, False
        for start, terms in self._terms:
            posting = terms.posting(stem)
            if posting is not None:
                present = allowed[start + posting.positions]
                total += int(present.sum())
                own = own or bool(posting.own[present].any())
        return total if own else 0

    def frequencies(self) -> dict[str, int]:
        """Return for every stem that any row has the number of rows whose window has it."""
        found: dict[str, int] = {}
        for start, terms in self._terms:
            for stem, count in terms.frequencies(self.alive[start : start + len(terms.own_lengths)]).items():
                found[stem] = found.get(stem, 0) + count
        return found

    def statistics(self) -> CorpusStatistics:
        """Return number and mean lengths of the rows that hold."""
        rows = max(len(self), 1)
        own, window = (float(lengths[self.alive].sum()) for lengths in (self.own_lengths, self.window_lengths))
        return CorpusStatistics(len(self), own / rows, window / rows)

    def summed_stem_weights(self, weights: Sequence[tuple[str, float]]) -> NDArray[np.float64]:
        """Return for each row the sum of the weights of the stems that its window has [n]. Not to be written to."""
        key, last = tuple(weights), self._last_sums
        if last is not None and last[0] == key:
            return last[1]
        total = np.zeros(len(self.alive))
        for stem, weight in weights:
            for start, terms in self._terms:
                posting = terms.posting(stem)
                if posting is not None:
                    np.add.at(total[start:], posting.positions, weight)  # which is faster than `+=`
        if not self._whole:
            total[~self.alive] = 0.0
        self._last_sums = (key, total)
        return total

    def counts(self, wanted: Sequence[str], positions: NDArray[np.int64]) -> TermCounts:
        """Count each of t stems in the rows at n positions."""
        own = np.zeros((len(positions), len(wanted)))
        window = np.zeros((len(positions), len(wanted)))
        for start, terms in self._terms:
            local = (positions - start).astype(np.int32)  # the type of postings: otherwise each would be copied
            for column, stem in enumerate(wanted):
                posting = terms.posting(stem)
                if posting is None:
                    continue
                at = np.minimum(np.searchsorted(posting.positions, local), len(posting.positions) - 1)
                present = posting.positions[at] == local
                own[present, column] = posting.own[at[present]]
                window[present, column] = posting.window[at[present]]
        return TermCounts(own, window)

    def nbytes(self) -> int:
        """Return a rough number of bytes."""
        return sum(terms.nbytes() for _, terms in self._terms) + 80 * len(self.alive)
