"""Typed exceptions, one for each error that a caller may want to distinguish.

Messages about input name the field, the value that was given and the values that are allowed. The CLI maps them to
exit code 2 and one line, HTTP to a problem document.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from recall_loop.state.allowed_values import JsonSchema, describe_allowed
from recall_loop.state.display import truncate

_SHOWN_CHARACTERS = 120
_Model = TypeVar("_Model", bound=BaseModel)


class RecallError(Exception):
    """Base class of all exceptions that Recall Loop raises on purpose."""


class InvalidInputError(RecallError, ValueError):
    """An input value is not allowed.

    Attributes:
        field: dotted name of the field, argument or environment variable.
        value: the value as given, shortened for display.
        allowed: the accepted values, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        self.value = display_value(value)
        self.allowed = allowed
        super().__init__(f"{field}: got {self.value}; allowed: {allowed}")


class UnsupportedOptionError(InvalidInputError):
    """An option of the interface that isn't supported here (SEARCH-2)."""


class RecursionLimitError(InvalidInputError):
    """The caller's recursion limit is too small for the shortest path through the graph."""


class StoreError(RecallError):
    """The memory store can't do what was requested."""


class StoreUnavailableError(StoreError):
    """The store can't be opened, read or written."""


class StoreLockedError(StoreError):
    """Another process holds the store's single writer lock (STORE-4)."""


class StoreReadOnlyError(StoreError):
    """A write to a store that is open for reading only, or on a read-only path."""


class EmbedderMismatchError(StoreError):
    """The store was made with another embedder; names the re-embedding command (STORE-5)."""


class EmbedderError(RecallError):
    """The embedder can't be loaded or can't embed."""


class WorkerError(RecallError):
    """A worker process can't start, or ends repeatedly."""


def display_value(value: object) -> str:
    """Return `value` as one printable line of at most 120 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except (RecursionError, ValueError):  # nested too deep, or an integer too long to print
        text = f"<{type(value).__name__}>"
    return truncate(text, _SHOWN_CHARACTERS)


def invalid_input_from(error: ValidationError, prefix: str = "", schema: JsonSchema | None = None) -> InvalidInputError:
    """Turn pydantic's first complaint into an `InvalidInputError`.

    Args:
        error: the failed validation.
        prefix: comes before the field's name.
        schema: JSON schema of the model; with it the text gives the whole range, not only the bound that was crossed.
    """
    first = error.errors(include_url=False)[0]
    return invalid_input(first, schema, ".".join(filter(None, [prefix, *map(str, first["loc"])])))


def invalid_input(details: ErrorDetails, schema: JsonSchema | None, field: str) -> InvalidInputError:
    """Turn a complaint of pydantic about `field` into an `InvalidInputError`; `schema` as in `invalid_input_from`."""
    value = None if details["type"] == "missing" else details.get("input")
    return InvalidInputError(field or "input", value, describe_allowed(details, schema))


def validate_model(model: type[_Model], data: Mapping[str, Any] | BaseModel, prefix: str = "") -> _Model:
    """Validate `data` as `model`.

    Raises:
        InvalidInputError: names the first wrong field, its value and the allowed values.
    """
    raw = data.model_dump(exclude_unset=True) if isinstance(data, BaseModel) else dict(data)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise invalid_input_from(error, prefix, _schema(model)) from error


@cache
def _schema(model: type[BaseModel]) -> JsonSchema:
    """Return the model's JSON schema; generating it takes far longer than the check that failed."""
    return model.model_json_schema()
