"""Values of items of the LangGraph store: as JSON, and the texts by which an item is found. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.store.base import get_text_at_path, tokenize_path

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import MAX_TEXT_CHARS, no_surrogates

MAX_TEXTS = 1000
"""Maximum number of texts indexed for one item."""

_WHOLE = "$"
_PLAIN_NAME = re.compile(r"\w+")
# A record's attributes take 100 levels and integers of 4,096 bits; the item itself takes two levels of them.
_DEEPEST = 98
_MAX_BITS = 4096
_JSON = "JSON values: text, finite numbers, true, false, None, lists and mappings"
_INSTEAD = {
    "datetime": "write a time as text, with isoformat()",
    "date": "write a date as text, with isoformat()",
    "bytes": "write bytes as text, such as base64",
    "set": "write a set as a list",
    "frozenset": "write a set as a list",
    "UUID": "write a UUID as text, with str()",
    "Decimal": "write a decimal as a number or as text",
}


def plain_json(value: Any, path: str = "value", depth: int = 0) -> Any:
    """Return a value as plain JSON: mappings as dictionaries, tuples as lists, members of enumerations by value.

    What JSON can't hold raises `InvalidInputError`, whose field is the path to it.
    """
    if depth > _DEEPEST:
        raise InvalidInputError(path, value, f"at most {_DEEPEST} levels of nesting")
    if isinstance(value, Mapping):
        return {_name(name, path): plain_json(part, _path(path, name), depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(value)]
    return _leaf(value, path)


def _path(path: str, name: Any) -> str:
    return f"{path}.{name}" if isinstance(name, str) and _PLAIN_NAME.fullmatch(name) else f"{path}[{name!r}]"


def _name(name: object, path: str) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(path, name, "names that are text")
    return check_text(name, _path(path, name))


def _leaf(value: object, path: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, path)
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise InvalidInputError(path, value, f"an integer of at most {_MAX_BITS} bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(path, value, "a finite number; NaN and infinity are not JSON")
        return float(value)
    instead = _INSTEAD.get(type(value).__name__)
    raise InvalidInputError(path, value, f"{_JSON}; {instead}" if instead else _JSON)


def check_text(text: str, path: str) -> str:
    """Return text as it is; raise `InvalidInputError` where UTF-8 or SQLite can't hold it."""
    try:
        return str.__str__(no_surrogates(text))
    except ValueError as error:
        raise InvalidInputError(path, text, str(error)) from error


def indexable_texts(value: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the texts of a value's fields, each once; the item is found by any of them.

    A path that goes over a list (`parts[*].text`) has a text for each item of it. The whole value (`$`) is one text:
    lines of `name: text`, or its text alone where it has only one. Texts are cut at the longest that a record holds;
    more than 1,000 raise `InvalidInputError`.
    """
    texts: list[str] = []
    for path in fields:
        texts += [_whole(value)] if path == _WHOLE else get_text_at_path(value, tokenize_path(path))
    found = list(dict.fromkeys(text[:MAX_TEXT_CHARS] for text in texts if text[:MAX_TEXT_CHARS].strip()))
    if len(found) > MAX_TEXTS:
        raise InvalidInputError("index", fields, f"paths that hold at most {MAX_TEXTS} texts; these hold {len(found)}")
    return found


def _whole(value: Mapping[str, Any]) -> str:
    leaves = list(_leaves(value))
    lines = (text if len(leaves) == 1 or not name else f"{name}: {text}" for name, text in leaves)
    return "\n".join(line for line in lines if line.strip())


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
