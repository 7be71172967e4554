"""Filters: accepted and rejected values."""

from __future__ import annotations

import pytest

from recall_loop.memory.store.tables.predicate import compile_predicate
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
        ("speech_acts", []),
        ("speech_acts", ["shout"]),
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
    with pytest.raises(InvalidInputError, match=r"^min_outcome_score: got 0\.6; .*max_outcome_score, which is 0\.5$"):
        validate_model(Filters, {"min_outcome_score": 0.6, "max_outcome_score": 0.5})


def test_a_predicate_takes_any_number_of_agents() -> None:
    """However many there are, they are one parameter. Proves: SEARCH-3."""
    many = Filters(agent_ids=tuple(f"a{at}" for at in range(300_000)))
    compiled = compile_predicate(Scope(tenant="mine"), many)
    assert compiled.where.count("?") == len(compiled.params) == 2
    assert compiled.where.startswith("r.tenant = ?")


@pytest.mark.parametrize(
    ("conditions", "field", "allowed"),
    [
        ({"age": {"gt": True}}, "attributes.age.gt", "a finite number .* or text"),
        ({"age": {"lt": None}}, "attributes.age.lt", "a finite number .* or text"),
        ({"age": {"like": "x"}}, "attributes.age.like", "known fields: eq, ne, in, gt, gte, lt, lte, exists"),
        ({"age": {"in": []}}, "attributes.age.in", "a list of 1 to 1000 items"),
        ({"age": {"in": list(range(1001))}}, "attributes.age.in", "a list of 1 to 1000 items"),
        ({"age": {"in": [[1]]}}, "attributes.age.in.0", "text, a finite number"),
        ({"age": {}}, "attributes.age", "at least one of eq, ne"),
        ({"age": [1]}, "attributes.age.eq", "text, a finite number"),
        ({"age": float("nan")}, "attributes.age.eq", "a finite number"),
        ({"age": 2**63}, "attributes.age.eq", "at most 64 bits"),
        ({"age": {"exists": 1}}, "attributes.age.exists", "true or false"),
        ({"age": {"years": {"gt": 1}}}, "attributes.age.years", "known fields"),
        ({"a..b": 1}, "attributes.a..b", "between dots"),
        ({"": 1}, "attributes.", "between dots"),
        ({"a\\b": 1}, "attributes.a\\b", "a backslash only as"),
        ({".".join("abcdefghijk"): 1}, "attributes.a.b", "1 to 10 names"),
        ({"x" * 513: 1}, "attributes.xxx", "512 characters"),
        ({f"a{at}": 1 for at in range(51)}, "attributes", "1 to 50 conditions"),
        ({}, "attributes", "1 to 50 conditions"),
        ("team=red", "attributes", "an object"),
        ({"a": "\ud800"}, "attributes.a.eq", "valid Unicode"),
    ],
)
def test_conditions_on_attributes_that_mean_nothing_are_errors(conditions: object, field: str, allowed: str) -> None:
    """Each names the field, the value and what is allowed. Proves: API-4, SEARCH-3."""
    with pytest.raises(InvalidInputError, match=allowed) as caught:
        validate_model(Filters, {"attributes": conditions})
    assert caught.value.field.startswith(field)


def test_conditions_on_attributes_keep_their_types() -> None:
    """True is not 1, and null is a value; written and read again they are the same. Proves: API-4."""
    given = Filters(attributes={"team": None, "age": {"gte": 3, "in": [True, 1.5]}, "a\\.b": "x"})
    assert given.attributes == {"team": {"eq": None}, "age": {"gte": 3, "in": (True, 1.5)}, "a\\.b": {"eq": "x"}}
    assert Filters.model_validate(given.model_dump(exclude_none=True)) == given
    assert Filters.model_validate_json(given.model_dump_json(exclude_none=True)) == given
    different = {Filters(attributes={"a": value}) for value in (1, True, 1.0, "1", None)}
    assert len(different) == 5
