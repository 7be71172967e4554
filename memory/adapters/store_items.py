"""Tags and text of an item of the LangGraph store, and the filters of items. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition, get_text_at_path, tokenize_path

from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import MAX_TEXT_CHARS

ITEM_ATTRIBUTE = "langgraph_store"
INDEXED_TAG = "langgraph-store:indexed"
_WHOLE = "$"
_ORDER_OPERATORS = ("$gt", "$gte", "$lt", "$lte")


OwnerIds = tuple[str | None, str | None]


def prefix_tag(owners: OwnerIds, prefix: Sequence[str]) -> str:
    """Return the tag of all items of an agent and a user, either may be None, whose namespace begins with `prefix`.

    A scope without a user reads the records of all users, so that the scope alone doesn't keep items apart.
    """
    return f"langgraph-store:{digest(*owners, *prefix)}"


def prefix_tags(owners: OwnerIds, namespace: Sequence[str]) -> list[str]:
    """Return the tags of an item: one for every prefix of its namespace, the empty one too."""
    return [prefix_tag(owners, namespace[:depth]) for depth in range(len(namespace) + 1)]


def indexable_text(value: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """Return the text of a value's fields, by which an item is found; None if they hold none.

    The whole value (`$`) is written as lines of `name: text`, or as its text alone where it has only one.
    """
    parts: list[str] = []
    for path in fields:
        if path == _WHOLE:
            leaves = list(_leaves(value))
            parts += [text if len(leaves) == 1 or not name else f"{name}: {text}" for name, text in leaves]
        else:
            parts += get_text_at_path(value, tokenize_path(path))
    text = "\n".join(part for part in parts if part.strip())[:MAX_TEXT_CHARS]
    return text if text.strip() else None


def normalise_containers(value: Any) -> Any:
    """Return a value with mappings as dictionaries and tuples as lists; whatever else is no JSON is refused later."""
    if isinstance(value, Mapping):
        return {name: normalise_containers(item) for name, item in value.items()}
    return [normalise_containers(item) for item in value] if isinstance(value, list | tuple) else value


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value with their names; a list's items have the list's."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, name)
    elif value is not None:
        yield name, str(value)


def matches_namespace(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends as a condition says; `*` stands for any one label.

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
    """Tell whether a value has what a filter asks for: equal fields, or fields that its operators hold for.

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
