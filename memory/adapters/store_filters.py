"""Conditions that namespaces and values of the LangGraph store are tested by. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import ListNamespacesOp, MatchCondition, Op, SearchOp

from recall_loop.state.errors import InvalidInputError

_ORDER_OPERATORS = ("$gt", "$gte", "$lt", "$lte")


def check_namespaces(op: Op) -> None:
    """Check that what an operation has for a namespace is one: a text would be taken for its letters.

    Raises:
        InvalidInputError: a namespace, its prefix or the path of a condition isn't a tuple.
    """
    named = [(name, getattr(op, name)) for name in ("namespace", "namespace_prefix") if hasattr(op, name)]
    if isinstance(op, ListNamespacesOp):
        named += [(condition.match_type, condition.path) for condition in op.match_conditions or ()]
    for name, value in named:
        if not isinstance(value, tuple | list):
            raise InvalidInputError(name, value, "a tuple of labels, such as ('users', 'ann')")


def check_search(op: SearchOp) -> None:
    """Check the query and the filter of a search.

    Raises:
        InvalidInputError: one is of another type.
    """
    query: object = op.query
    if query is not None and not isinstance(query, str):
        raise InvalidInputError("query", query, "text, or None")
    wanted: object = op.filter
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InvalidInputError("filter", wanted, "a mapping of names to values or operators, or None")


def check_counts(op: SearchOp | ListNamespacesOp) -> None:
    """Check what an operation counts.

    Raises:
        InvalidInputError: `limit`, `offset` or `max_depth` is not an integer in its range.
    """
    for name, least in (("limit", 0), ("offset", 0), ("max_depth", 1)):
        value = getattr(op, name, None)
        if not (value is None and name == "max_depth") and (type(value) is not int or value < least):
            raise InvalidInputError(name, value, f"an integer of at least {least}")


def matches_namespace(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as a condition says; `*` stands for any one label.

    Raises:
        InvalidInputError: the condition is of another kind.
    """
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError("match_type", condition.match_type, "prefix or suffix")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def matches_filter(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value matches a filter: equal fields, or fields that satisfy its operators.

    Raises:
        InvalidInputError: an operator that LangGraph doesn't have.
    """
    return all(_matches_value(value.get(name), expected) for name, expected in (wanted or {}).items())


def _matches_value(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        if any(str(name).startswith("$") for name in expected):
            return all(_apply_operator(value, name, bound) for name, bound in expected.items())
        return isinstance(value, Mapping) and all(
            _matches_value(value.get(name), one) for name, one in expected.items()
        )
    if isinstance(expected, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(expected)
        return same and all(_matches_value(one, other) for one, other in zip(value, expected, strict=True))
    return bool(value == expected)


def _apply_operator(value: Any, operator: str, bound: Any) -> bool:
    """Apply an operator. Numbers compare with numbers and text with text; anything else is neither less nor more."""
    if operator == "$eq":
        return bool(value == bound)
    if operator == "$ne":
        return bool(value != bound)
    if operator not in _ORDER_OPERATORS:
        raise InvalidInputError("filter", operator, "$eq, $ne, $gt, $gte, $lt or $lte")
    if not (_number(value) and _number(bound)) and not (isinstance(value, str) and isinstance(bound, str)):
        return False
    if value == bound:
        return operator in ("$gte", "$lte")
    return (value > bound) is operator.startswith("$gt")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
