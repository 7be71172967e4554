"""Descriptions in words of the values that a field accepts, from its JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

JsonSchema = Mapping[str, Any]

_VALIDATOR_ERRORS = frozenset({"value_error", "assertion_error"})
_RFC_3339 = "an RFC 3339 date-time such as 2024-05-01T09:30:00Z"


def describe_allowed(error: ErrorDetails, schema: JsonSchema | None = None) -> str:
    """Return the values that the field of a pydantic complaint accepts.

    The messages of this project's validators already say what is allowed. Without a schema, or if the schema doesn't
    describe the field, pydantic's message is returned.
    """
    message = error["msg"].removeprefix("Value error, ")
    if schema is None or error["type"] in _VALIDATOR_ERRORS:
        return message
    if error["type"] == "string_unicode":
        return "text in valid Unicode, without lone surrogates"
    unknown = error["type"] == "extra_forbidden"
    part = _descend(schema, error["loc"][:-1] if unknown else error["loc"])
    if part is None:
        return message
    if unknown:
        names, given = _properties(part, schema), str(error["loc"][-1])
        near = _place_of(given, part, schema) or nearest_name(given, names)
        return f"known fields: {', '.join(names)}{f'; did you mean {near}?' if near else ''}"
    return describe_schema(part, schema) or message


def nearest_name(name: str, known: Iterable[str], least: float = 0.8) -> str | None:
    """Return the known name that `name` is most likely a misspelling of; `least` is how alike, 0 to 1."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=least)), None)


def _properties(part: JsonSchema, schema: JsonSchema) -> list[str]:
    """Return the names of an object's fields; of alternatives all of theirs."""
    options = (_resolve(option, schema) for option in part.get("anyOf", ()))
    return [*part.get("properties", ()), *(name for option in options for name in option.get("properties", ()))]


def _place_of(name: str, part: JsonSchema, schema: JsonSchema) -> str | None:
    """Return where an object's fields have one of this name: `filters.tags`, where `tags` isn't a field itself."""
    children = {field: _child(part, field, schema) for field in _properties(part, schema)}
    inside = (field for field, child in children.items() if child is not None and name in _properties(child, schema))
    return next((f"{field}.{name}" for field in inside), None)


def describe_schema(part: JsonSchema, schema: JsonSchema) -> str:
    """Return the values that one part of `schema` accepts, or "" if there are no words for it."""
    part = _resolve(part, schema)
    if "const" in part:
        return str(part["const"])
    if "enum" in part:
        return "one of " + ", ".join(map(str, part["enum"]))
    if "anyOf" in part:
        words = [describe_schema(option, schema) for option in part["anyOf"] if option.get("type") != "null"]
        return " or ".join(words) if all(words) else ""
    return _describe_type(part)


def _describe_type(part: JsonSchema) -> str:
    kind = part.get("type")
    if kind in ("integer", "number"):
        return _number(part, "an integer" if kind == "integer" else "a number")
    if kind == "string":
        return _RFC_3339 if part.get("format") == "date-time" else _sized(part, "text", "Length", "character")
    if kind == "array":
        return _sized(part, "a list", "Items", "item")
    if kind == "object" and part.get("properties"):
        return "an object with " + ", ".join(part["properties"])
    return {"boolean": "true or false", "object": "an object"}.get(str(kind), "")


def _number(part: JsonSchema, noun: str) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    above, below = part.get("exclusiveMinimum"), part.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{noun} from {_plain(low)} to {_plain(high)}"
    bounds = [
        f"{word} {_plain(bound)}"
        for word, bound in (("at least", low), ("above", above), ("at most", high), ("below", below))
        if bound is not None
    ]
    return f"{noun} {' and '.join(bounds)}".rstrip()


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else str(bound)


def _sized(part: JsonSchema, noun: str, suffix: str, unit: str) -> str:
    low, high = part.get(f"min{suffix}"), part.get(f"max{suffix}")
    if low is None and high is None:
        return noun
    if high is None:
        return f"{noun} of at least {low} {unit}{'' if low == 1 else 's'}"
    return f"{noun} of {low or 0} to {high} {unit}s"


def _resolve(part: JsonSchema, schema: JsonSchema) -> JsonSchema:
    while "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    return part


def _descend(schema: JsonSchema, loc: Sequence[int | str]) -> JsonSchema | None:
    """Return the part of `schema` at `loc`, or None if the schema doesn't describe it."""
    part: JsonSchema | None = _resolve(schema, schema)
    for step in loc:
        part = _child(part, step, schema) if part is not None else None
    return part


def _child(part: JsonSchema, step: int | str, schema: JsonSchema) -> JsonSchema | None:
    tags = part.get("discriminator", {}).get("mapping", {})
    if step in tags:
        return _resolve({"$ref": tags[step]}, schema)
    if "anyOf" in part:
        children = (_child(_resolve(option, schema), step, schema) for option in part["anyOf"])
        return next((child for child in children if child is not None), None)
    inner = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
    if inner is None and isinstance(part.get("additionalProperties"), dict):
        inner = part["additionalProperties"]
    return None if inner is None else _resolve(inner, schema)
