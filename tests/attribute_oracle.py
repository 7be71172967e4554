"""What filters of attributes mean, in plain Python, and filters as they may be drawn."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

ABSENT = object()
COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def names_of(path: str) -> list[str]:
    """Split a path at dots that no backslash stands before."""
    names = path.replace("\\\\", "\0").replace("\\.", "\1").split(".")
    return [name.replace("\0", "\\").replace("\1", ".") for name in names]


def value_at(attributes: Any, path: str) -> Any:
    """Return the value at a path, or `ABSENT`."""
    for name in names_of(path):
        if not isinstance(attributes, Mapping) or name not in attributes:
            return ABSENT
        attributes = attributes[name]
    return attributes


def equal(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return value is None or value is ABSENT
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    return isinstance(value, str | int | float) and bool(value == wanted)


def ordered(value: Any, wanted: Any) -> bool:
    """Tell whether two values stand in an order: both numbers, or both text."""
    if isinstance(value, bool):
        return False
    number = isinstance(value, int | float) and isinstance(wanted, int | float)
    return number or (isinstance(value, str) and isinstance(wanted, str))


def holds(value: Any, name: str, wanted: Any) -> bool:
    if name == "exists":
        return (value is not ABSENT) is wanted
    if name in ("eq", "ne"):
        return equal(value, wanted) is (name == "eq")
    if name == "in":
        return any(equal(value, one) for one in wanted)
    return ordered(value, wanted) and COMPARE[name](value, wanted)


def wanted_attributes(attributes: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Tell whether a record's attributes satisfy conditions: plain values, or operators."""
    return all(
        holds(value_at(attributes, path), name, wanted)
        for path, given in conditions.items()
        for name, wanted in (given if isinstance(given, Mapping) else {"eq": given}).items()
    )


def attribute_filters(paths: Sequence[str], values: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of filters: on one or two of `paths`, a value or up to three operators with some values."""
    scalar = st.sampled_from(list(values))
    comparable = st.sampled_from([one for one in values if one is not None and not isinstance(one, bool)])
    operators = {
        "eq": scalar,
        "ne": scalar,
        "in": st.lists(scalar, min_size=1, max_size=3),
        **dict.fromkeys(COMPARE, comparable),
        "exists": st.booleans(),
    }
    several = st.lists(st.sampled_from(list(operators)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: operators[name] for name in names})
    )
    return st.dictionaries(st.sampled_from(list(paths)), st.one_of(scalar, several), min_size=1, max_size=2)
