"""Columns of many rows, and postings: which rows have which stem in their windows, and how often."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.onnx_model import return_freed_memory
from recall_loop.memory.store.encoding.indexing import decode_token, encode_token

Counts = NDArray[np.uint16]


_MAX_COUNT = np.iinfo(np.uint16).max
# From this many window words on, the memory used for counting them is returned at once.
_LARGE_WORDS = 1_000_000


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
    if len(window) > _LARGE_WORDS:
        return_freed_memory()
    return TermIndex(dict(numbers), keys, (own_counts, window_counts), (lengths[0], lengths[1]))


def _append(tokens: Sequence[str], numbers: dict[str, int], into: array[int], lengths: array[int]) -> None:
    into.extend([numbers[token] for token in tokens])
    lengths.append(len(tokens))


def _counted(numbers: array[int], lengths: NDArray[np.int32]) -> tuple[NDArray[np.int64], Counts]:
    """Return (stem, row) pairs as ascending keys stem × n + row, and how often each occurs."""
    size = len(lengths)
    keys = np.array(numbers, dtype=np.int64) * size + np.repeat(np.arange(size, dtype=np.int64), lengths)
    unique, counts = np.unique(keys, return_counts=True)
    return unique, np.minimum(counts, _MAX_COUNT).astype(np.uint16)


class IndexRow(NamedTuple):
    """One row as it is read for the index; `session_place` is None where the record belongs to no session."""

    rowid: int
    tool: int
    aside: float
    created_at: int | None
    session_place: str | None
    author: str | None
    kind: str
    agent_id: str | None
    user_id: str | None
    conversation_id: str | None
    session: str | None
    role: str | None
    label: str | None
    fact_type: str | None
    execution_status: str | None
    task_category: str | None
    complexity_level: str | None
    score: float | None
    superseded: int
    valid_until: int | None
    terms: str
    window_tokens: str


# Numeric columns that predicates test: `session_place` to `complexity_level`.
CODED_COLUMNS = IndexRow._fields[IndexRow._fields.index("session_place") : IndexRow._fields.index("score")]
NO_TIME = np.iinfo(np.int64).min
NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class ColumnCodes:
    """The numbers that stand for the values of each column; they only ever grow."""

    names: dict[str, ValueNumbers] = field(default_factory=lambda: {name: ValueNumbers() for name in CODED_COLUMNS})
    author_stems: dict[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RowColumns:
    """Facets of n rows, each array [n].

    Attributes:
        rowids: the rows.
        tool: whether it is a tool's response.
        aside: share of the record's blocks that is no text, in [0,1].
        times: created_at in microseconds since 1970; `NO_TIME` where there is none.
        scores: learning values of trajectories; NaN where there is none.
        superseded: whether it is a fact that a newer one has superseded.
        until: valid_until of facts in microseconds since 1970; `NO_END` where there is none.
        coded: values by number, by name of the column; -1 where a row has none.
    """

    rowids: NDArray[np.int64]
    tool: NDArray[np.bool_]
    aside: NDArray[np.float64]
    times: NDArray[np.int64]
    scores: NDArray[np.float64]
    superseded: NDArray[np.bool_]
    until: NDArray[np.int64]
    coded: Mapping[str, NDArray[np.int32]]

    @classmethod
    def from_rows(cls, rows: Sequence[IndexRow], codes: ColumnCodes) -> RowColumns:
        """Lay rows out as columns."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(IndexRow._fields)
        by_name = dict(zip(IndexRow._fields, columns, strict=True))
        coded = {}
        for name in CODED_COLUMNS:
            numbers = codes.names[name]
            coded[name] = np.array([-1 if value is None else numbers[value] for value in by_name[name]], dtype=np.int32)
        return cls(
            np.array(by_name["rowid"], dtype=np.int64),
            np.array(by_name["tool"], dtype=bool),
            np.array(by_name["aside"], dtype=np.float64),
            np.array([NO_TIME if value is None else value for value in by_name["created_at"]], dtype=np.int64),
            np.array(by_name["score"], dtype=np.float64),
            np.array(by_name["superseded"], dtype=bool),
            np.array([NO_END if value is None else value for value in by_name["valid_until"]], dtype=np.int64),
            coded,
        )

    def joined(self, other: RowColumns) -> RowColumns:
        """Return these rows followed by those of `other`."""
        return self._mapped(lambda *parts: np.concatenate(parts), other)

    def head(self, size: int) -> RowColumns:
        """Return the first rows."""
        return self._mapped(lambda column: column[:size])

    def _mapped(self, function: Callable[..., NDArray[Any]], *others: RowColumns) -> RowColumns:
        """Return columns with `function` of each array and of the same array in `others`."""
        parts = (self, *others)
        plain = [field.name for field in fields(self) if field.name != "coded"]
        return RowColumns(
            **{name: function(*(getattr(part, name) for part in parts)) for name in plain},
            coded={name: function(*(part.coded[name] for part in parts)) for name in CODED_COLUMNS},
        )
