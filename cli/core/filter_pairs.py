"""`--filter`: conditions as pairs of text, those on attributes with operators and JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from recall_loop.cli.core.condition_options import LIST_FILTERS
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import Filters

_ATTRIBUTES = "attributes"
_ON_ATTRIBUTE = re.compile(rf"{_ATTRIBUTES}\.(?P<path>[^=!<>]+)(?P<sign>=|!=|>=|<=|>|<)(?P<value>.*)", re.DOTALL)
_OPERATORS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_FORMS = (
    "attributes.PATH=VALUE, or !=, >, >=, <, <= instead of =; the value is JSON, or else text; operators are JSON too: "
    'attributes.team={"in": ["red", "blue"]}'
)


def read_filters(pairs: Sequence[str], filters: dict[str, Any]) -> dict[str, Any]:
    """Add `KEY=VALUE` pairs to filters; those of a filter that takes several values, and of attributes, add up.

    A malformed pair, and a filter that is given twice, raise `InvalidInputError`.
    """
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if pair.startswith(f"{_ATTRIBUTES}."):
            _add_condition(pair, filters.setdefault(_ATTRIBUTES, {}))
        elif not equals or not key:
            raise InvalidInputError("--filter", pair, "KEY=VALUE")
        elif key == _ATTRIBUTES:
            for path, condition in _read_conditions(value).items():
                _merge(path, condition, filters.setdefault(_ATTRIBUTES, {}))
        elif key in LIST_FILTERS:
            filters[key] = [*filters.get(key, ()), value]
        elif key in filters:
            raise InvalidInputError(f"--filter {key}", value, "one value")
        else:
            filters[key] = value
    return filters


def filters_from(pairs: Sequence[str], name: str = "filters") -> Filters | None:
    """Return the filters of `KEY=VALUE` pairs, which errors call `name`; None where there are none."""
    given = read_filters(pairs, {})
    return validate_model(Filters, given, name) if given else None


def _add_condition(pair: str, attributes: dict[str, Any]) -> None:
    found = _ON_ATTRIBUTE.fullmatch(pair)
    if found is None:
        raise InvalidInputError("--filter", pair, _FORMS)
    value = _read_json(found["value"])
    operator = _OPERATORS[found["sign"]]
    _merge(found["path"], value if operator == "eq" else {operator: value}, attributes)


def _read_json(text: str) -> Any:
    """Return the text parsed as JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_conditions(text: str) -> Mapping[str, Any]:
    value = _read_json(text)
    if not isinstance(value, dict):
        raise InvalidInputError(f"--filter {_ATTRIBUTES}", text, 'a JSON object such as {"team": "red"}')
    return value


def _merge(path: str, condition: Any, attributes: dict[str, Any]) -> None:
    """Add a condition to the existing ones on an attribute."""
    known = attributes.setdefault(path, {})
    given = condition if isinstance(condition, dict) else {"eq": condition}
    for operator, value in given.items():
        if operator in known:
            raise InvalidInputError(f"--filter {_ATTRIBUTES}.{path}", value, f"one value for {operator}")
        known[operator] = value
