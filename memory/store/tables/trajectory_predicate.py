"""Filters of trajectories (TRAJ-8): as SQL over their attributes, and as tests of columns in memory.

Both say the same. The SQL parses JSON for every row that it looks at; the columns were read once.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.tables.database import Conditions
from recall_loop.state.records.legacy_trajectories import SCORE_PATHS, STATUS_OF_OLD_TYPE
from recall_loop.state.scope import TRAJECTORY_FILTERS, ExecutionStatus, Filters

_ROOT = "$.attributes."
# Paths of the filtered values in a record (`recall_loop.state.records.trajectories.RunData`).
_PATHS = MappingProxyType(
    {
        "execution_status": "execution.status",
        "task_category": "task_category",
        "complexity_level": "complexity_level",
    }
)
# Paths of the status in records from before `migrate` (TRAJ-4); the first one counts.
_OLD_OUTCOMES = ("outcome.type", "outcome", "data.outcome.type", "data.outcome")
_TOOLS = "metadata.tools_used"
_SIGNS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        "min_outcome_score": (">=", operator.ge),
        "max_outcome_score": ("<=", operator.le),
        "above_outcome_score": (">", operator.gt),
        "below_outcome_score": ("<", operator.lt),
    }
)


@dataclass(frozen=True, slots=True)
class ScorePredicate:
    """Conditions on a learning value.

    Attributes:
        bounds: names of `Filters` fields with their values; all must hold.
        scored: whether there must be a value, or must be none; None = either.
    """

    bounds: tuple[tuple[str, float], ...]
    scored: bool | None

    def matching(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of n scores pass; NaN is no score."""
        there = ~np.isnan(scores)
        passed = ~there if self.scored is False else np.ones(len(scores), dtype=bool)
        if self.scored or self.bounds:
            passed &= there
        for name, value in self.bounds:
            passed &= _SIGNS[name][1](scores, value)
        return passed


def has_trajectory_filters(filters: Filters) -> bool:
    """Return whether a filter is given that only a trajectory can satisfy."""
    return any(getattr(filters, name) is not None for name in TRAJECTORY_FILTERS)


def column_values(filters: Filters) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return columns of the index in memory with the value that each must have."""
    given = [(name, getattr(filters, name)) for name in _PATHS]
    return tuple((name, (str(value),)) for name, value in given if value is not None)


def score_predicate(filters: Filters) -> ScorePredicate | None:
    """Return the conditions on the score; None where there are none."""
    bounds = _bounds(filters)
    return ScorePredicate(bounds, filters.scored) if bounds or filters.scored is not None else None


def _bounds(filters: Filters) -> tuple[tuple[str, float], ...]:
    given = [(name, getattr(filters, name)) for name in _SIGNS]
    return tuple((name, value) for name, value in given if value is not None)


def text_sql(body: str, name: str) -> str:
    """Return SQL for a column's value in the JSON of `body`: text, or NULL where there is none.

    A status that isn't given is `unknown`; a list or a number where text should stand is shown as it is stored, and
    equals no filter's value.
    """
    path = f"'{_ROOT}{_PATHS[name]}'"
    if name == "execution_status":
        old = ", ".join(f"json_extract({body}, '{_ROOT}{place}')" for place in _OLD_OUTCOMES)
        known = " ".join(f"WHEN '{kind}' THEN '{status}'" for kind, status in STATUS_OF_OLD_TYPE.items())
        inner = f"json_extract({body}, '{_ROOT}data.execution.status')"
        return (
            f"coalesce(json_extract({body}, {path}), {inner}, CASE coalesce({old}) {known} END, "
            f"'{ExecutionStatus.UNKNOWN}')"
        )
    return f"CASE json_type({body}, {path}) WHEN 'text' THEN json_extract({body}, {path}) END"


def score_sql(body: str) -> str:
    """Return SQL for the score in the JSON of `body`; NULL where it is no number from 0 to 1.

    Text is never a score: SQLite counts any text as more than any number.
    """
    found = []
    for place in SCORE_PATHS:
        path = f"'{_ROOT}{place}'"
        value = f"CAST(json_extract({body}, {path}) AS DOUBLE PRECISION)"
        number = f"json_type({body}, {path}) IN ('integer', 'real')"
        found.append(f"CASE WHEN {number} THEN CASE WHEN {value} BETWEEN 0 AND 1 THEN {value} END END")
    return f"coalesce({', '.join(found)})"


def trajectory_clauses(filters: Filters) -> Conditions:
    """Return SQL over a row `t` of `bodies` that holds for what the filters allow."""
    wanted = Conditions()
    for name, texts in column_values(filters):
        wanted.add(f"{text_sql('t.record', name)} = ?", *texts)
    for name, bound in _bounds(filters):
        wanted.add(f"{score_sql('t.record')} {_SIGNS[name][0]} ?", bound)
    if filters.scored is not None:
        wanted.add(f"{score_sql('t.record')} IS {'NOT ' if filters.scored else ''}NULL")
    if filters.tools_used is not None:
        tools = tuple(dict.fromkeys(filters.tools_used))
        path = f"'{_ROOT}{_TOOLS}'"
        used = f"SELECT u.value FROM json_each(t.record, {path}) u WHERE u.type = 'text'"
        wanted.add(f"json_type(t.record, {path}) = 'array'")
        wanted.add(f"NOT EXISTS (SELECT value FROM json_each(?) EXCEPT {used})", json.dumps(tools))
    return wanted
