"""Typed exceptions: every error that a caller may want to tell apart.

Each message names the field, the value that was given and what is allowed. Surfaces map them on:
the CLI to exit code 2 and one line, HTTP to a problem document.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from recall_loop.state.allowed_values import JsonSchema, describe_allowed
from recall_loop.state.display import truncate

_SHOWN_CHARACTERS = 120
_Model = TypeVar("_Model", bound=BaseModel)


class RecallError(Exception):
    """Base of every exception that Recall Loop raises on purpose."""


class InvalidInputError(RecallError, ValueError):
    """A value that was handed in is not allowed.

    Attributes:
        field: dotted name of the field, argument or environment variable.
        value: the value as given, shortened for display.
        allowed: what would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        self.value = display_value(value)
        self.allowed = allowed
        super().__init__(f"{field}: got {self.value}; allowed: {allowed}")


class UnsupportedOptionError(InvalidInputError):
    """An option that exists in the interface and can't be honoured here (SEARCH-2)."""


class RecursionLimitError(InvalidInputError):
    """The caller's recursion limit is too small for the shortest way through the graph."""


class StoreError(RecallError):
    """The memory store can't do what was asked."""


class StoreUnavailableError(StoreError):
    """The store can't be opened, read or written."""


class StoreLockedError(StoreError):
    """Another process holds the store's single writer lock (STORE-4)."""


class StoreReadOnlyError(StoreError):
    """A write was asked of a store that is open for reading only, or that lies on a read-only path."""


class EmbedderMismatchError(StoreError):
    """The store was made with another embedder; names the re-embedding command (STORE-5)."""


class EmbedderError(RecallError):
    """The embedder can't be loaded or can't embed."""


class WorkerError(RecallError):
    """A process that shares the work can't begin, or ends again and again."""


def display_value(value: object) -> str:
    """Return `value` as one printable line of at most 120 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except (RecursionError, ValueError):  # nested too deep, or an integer too long to print
        text = f"<{type(value).__name__}>"
    return truncate(text, _SHOWN_CHARACTERS)


def invalid_input_from(error: ValidationError, prefix: str = "", schema: JsonSchema | None = None) -> InvalidInputError:
    """Turn pydantic's first complaint into an `InvalidInputError` that names the field.

    With the JSON `schema` of what was validated the text gives the whole range, not only the side
    that was crossed.
    """
    first = error.errors(include_url=False)[0]
    field = ".".join(filter(None, [prefix, *map(str, first["loc"])])) or "input"
    value = None if first["type"] == "missing" else first.get("input")
    return InvalidInputError(field, value, describe_allowed(first, schema))


def validate_model(model: type[_Model], data: Mapping[str, Any] | BaseModel, prefix: str = "") -> _Model:
    """Validate `data` as `model`.

    Raises:
        InvalidInputError: names the first field that is wrong, its value and what is allowed.
    """
    raw = data.model_dump(exclude_unset=True) if isinstance(data, BaseModel) else dict(data)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise invalid_input_from(error, prefix, _schema(model)) from error


@cache
def _schema(model: type[BaseModel]) -> JsonSchema:
    """Return the model's JSON schema; making it takes far longer than the check that failed."""
    return model.model_json_schema()
