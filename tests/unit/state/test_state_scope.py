"""Filters: what may be asked for, and what is refused."""

from __future__ import annotations

import pytest

from recall_loop.memory.store.sqlite.predicate import compile_predicate
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import ExecutionStatus, Filters, Scope


@pytest.mark.parametrize("status", list(ExecutionStatus))
def test_every_way_a_run_can_end_can_be_asked_for(status: ExecutionStatus) -> None:
    """Proves: TRAJ-1, TRAJ-8, SEARCH-3."""
    assert validate_model(Filters, {"execution_status": status.value}).execution_status is status
    assert [str(one) for one in ExecutionStatus] == ["completed", "incomplete", "failed", "error", "unknown"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("execution_status", "success"),
        ("execution_status", ""),
        ("min_outcome_score", -0.1),
        ("max_outcome_score", 1.1),
        ("min_outcome_score", True),
        ("min_outcome_score", float("nan")),
        ("max_outcome_score", "much"),
        ("agent_ids", []),
        ("tags", []),
        ("outcome_score", 0.5),
    ],
)
def test_wrong_values_are_errors(field: str, value: object) -> None:
    """Proves: SEARCH-3."""
    with pytest.raises(InvalidInputError):
        validate_model(Filters, {field: value})


def test_bounds_may_meet_and_may_not_cross() -> None:
    """Proves: SEARCH-3, TRAJ-5."""
    assert Filters(min_outcome_score=0.5, max_outcome_score=0.5).max_outcome_score == 0.5
    with pytest.raises(InvalidInputError, match=r"0\.6 to 0\.5"):
        validate_model(Filters, {"min_outcome_score": 0.6, "max_outcome_score": 0.5})


def test_a_predicate_takes_any_number_of_agents() -> None:
    """However many there are, they are one parameter. Proves: SEARCH-3."""
    many = Filters(agent_ids=tuple(f"a{at}" for at in range(300_000)))
    compiled = compile_predicate(Scope(tenant="mine"), many)
    assert compiled.where.count("?") == len(compiled.params) == 2
    assert compiled.where.startswith("r.tenant = ?")
