"""Columns of many rows: the facets that filters and scores need, without parsing any record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recall_loop.memory.store.index.term_index import ValueNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


# Columns whose values are kept as numbers, and which predicates test: `session_place` to `complexity_level`.
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
