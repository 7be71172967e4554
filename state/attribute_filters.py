r"""Conditions on the attributes of records (API-4): paths, operators, and the values that may be compared.

A path names an attribute; dots lead into objects: `order.city`. A backslash before a dot or a backslash makes it part
of a name: `a\.b` is one name. Paths do not lead into lists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from recall_loop.state.types import no_surrogates, unique

MAX_CONDITIONS = 50
MAX_PATH_NAMES = 10
MAX_PATH_CHARACTERS = 512
MAX_ALTERNATIVES = 1000
MAX_INDEXED = 32
OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
_INTEGERS = range(-(2**63), 2**63)

JsonScalar = str | int | float | bool | None


def split_path(path: str) -> tuple[str, ...]:
    """Return the names of an attribute's path.

    Raises `ValueError`, with what is allowed, where it has an empty name, a backslash before another character than a
    dot or a backslash, or too many names or characters.
    """
    if len(path) > MAX_PATH_CHARACTERS:
        raise ValueError(f"a path of at most {MAX_PATH_CHARACTERS} characters")
    no_surrogates(path)
    names, name = [], ""
    rest = iter(path)
    for character in rest:
        if character == ".":
            names.append(name)
            name = ""
            continue
        if character == "\\" and (character := next(rest, "")) not in (".", "\\"):
            raise ValueError(r"a backslash only as `\.` or `\\`, for a dot or a backslash within a name")
        name += character
    names.append(name)
    if len(names) > MAX_PATH_NAMES or not all(names):
        raise ValueError(f"a path such as team or order.city: 1 to {MAX_PATH_NAMES} names between dots, none empty")
    return tuple(names)


def _checked_path(path: str) -> str:
    split_path(path)
    return path


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value in _INTEGERS if isinstance(value, int) else math.isfinite(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return no_surrogates(value)
    if value is None or isinstance(value, bool) or _is_number(value):
        return value
    raise ValueError("text, a finite number (integers of at most 64 bits), true, false or null")


def _comparable(value: Any) -> Any:
    if isinstance(value, str) or _is_number(value):
        return _scalar(value)
    raise ValueError("a finite number (integers of at most 64 bits) or text")


def _some(value: Any) -> Any:
    if not value:
        raise ValueError("at least one of " + ", ".join(OPERATORS))
    return value


_SCALAR_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]
}
_ORDERED_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string"}]}
_Scalar = Annotated[Any, AfterValidator(_scalar), WithJsonSchema(_SCALAR_SCHEMA)]
_Comparable = Annotated[Any, AfterValidator(_comparable), WithJsonSchema(_ORDERED_SCHEMA)]
AttributePath = Annotated[str, AfterValidator(_checked_path)]

AttributeOperators = TypedDict(
    "AttributeOperators",
    {
        "eq": Annotated[_Scalar, Field(description="Exactly this value; null also matches an absent attribute.")],
        "ne": Annotated[_Scalar, Field(description="Not this value; also matches a record without the attribute.")],
        "in": Annotated[
            tuple[_Scalar, ...],
            Field(min_length=1, max_length=MAX_ALTERNATIVES, description="One of these values, as `eq`."),
        ],
        "gt": Annotated[_Comparable, Field(description="A number above this one, or text after this text.")],
        "gte": Annotated[_Comparable, Field(description="The same, or equal.")],
        "lt": Annotated[_Comparable, Field(description="A number below this one, or text before this text.")],
        "lte": Annotated[_Comparable, Field(description="The same, or equal.")],
        "exists": Annotated[bool, Strict(), Field(description="Whether the attribute exists, even as null.")],
    },
    total=False,
)
"""Operators on one attribute; all that are given must hold."""
AttributeOperators.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]


def _as_operators(value: Any) -> Any:
    """Return a plain value as the operator `eq`."""
    return value if isinstance(value, Mapping) else {"eq": value}


class _Normalised:
    """Takes a value or operators, and keeps operators."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        given = Annotated[_Scalar | AttributeOperators, Field()]
        normalise = BeforeValidator(_as_operators, json_schema_input_type=given)
        return handler.generate_schema(Annotated[AttributeOperators, AfterValidator(_some), normalise])


class AttributeConditions(dict[str, AttributeOperators]):
    """Conditions by path. As a key of a table and in comparisons true is not 1: they are compared as JSON."""

    def _text(self) -> str:
        return json.dumps(self, sort_keys=True)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self._text())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._text() == json.dumps(other, sort_keys=True)

    __ne__ = object.__ne__


def _bounded(value: Mapping[str, AttributeOperators]) -> AttributeConditions:
    count = sum(len(operators) for operators in value.values())
    if not 1 <= count <= MAX_CONDITIONS:
        raise ValueError(f"1 to {MAX_CONDITIONS} conditions, or leave it out; got {count}")
    return AttributeConditions(value)


def _plain(value: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return conditions to be written; a null among them is a value, which leaving out empty fields would take away."""
    return {path: dict(operators) for path, operators in value.items()}


AttributeFilters = Annotated[
    Mapping[AttributePath, Annotated[JsonScalar | AttributeOperators, _Normalised()]],
    AfterValidator(_bounded),
    PlainSerializer(_plain, return_type=dict[str, dict[str, Any]]),
]
ATTRIBUTES_DESCRIPTION = (
    "Conditions on attributes, by path (dots lead into objects): a value that must be equal, or operators, all of "
    'which must hold: {"team": "red", "order.total": {"gte": 10, "lt": 20}}.'
)


def iterate_conditions(conditions: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the operators of each attribute, as validation has left them."""
    for path, operators in conditions.items():
        yield path, cast("Mapping[str, Any]", operators)


def _listed(value: Any) -> Any:
    """Read a list of paths from text: JSON, or paths between commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError("paths between commas, or a JSON list of them; [] for none") from error
    return [path.strip() for path in value.split(",")]


IndexedAttributes = Annotated[
    tuple[AttributePath, ...], Field(max_length=MAX_INDEXED), AfterValidator(unique), BeforeValidator(_listed)
]
