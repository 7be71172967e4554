"""Errors that name the field, the value and what is allowed."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from recall_loop.state.display import truncate
from recall_loop.state.schemas.schema_words import JsonSchema, describe_allowed

_SHOWN_CHARACTERS = 120
_SHOWN_REJECTIONS = 20
_Model = TypeVar("_Model", bound=BaseModel)


class _Words(str):
    """Words that errors show as they are."""

    __slots__ = ()
    __repr__ = str.__str__


NOTHING = _Words("nothing")
"""The value of a missing required field: not None, which may be given explicitly."""


class RecallError(Exception):
    """Base class of all exceptions that Recall Loop raises on purpose.

    Args:
        words: what happened, for operators: may have a backend's or an endpoint's own text, with addresses and paths.
        told: the same without these; None = `words` names none.
    """

    def __init__(self, words: str = "", *, told: str | None = None) -> None:
        super().__init__(words)
        self._told = told

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is pickled: as it is, not by its class's own arguments."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    @property
    def told(self) -> str:
        """What happened, as clients may read it: without the text of a backend or an endpoint."""
        return str(self) if self._told is None else self._told


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

    def within(self, place: str) -> InvalidInputError:
        """Return the same error of a field that stands in `place`; "" = where it is."""
        return self.renamed(".".join(filter(None, (place, self.field))))

    def renamed(self, field: str) -> InvalidInputError:
        """Return the same error under another name of the field."""
        return InvalidInputError(field, _Words(self.value), self.allowed)


class UnsupportedOptionError(InvalidInputError):
    """An option of the interface that isn't supported here (SEARCH-2)."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason why a record can't be stored: its place in the call, from 0, and its id, if it states a readable one.

    `field` is the dotted name within the record, "" = the record itself; `value` is shortened for display.
    """

    index: int
    id: str | None
    field: str
    value: str
    allowed: str

    @property
    def path(self) -> str:
        """The field's name as an argument: `records.INDEX.FIELD`."""
        return ".".join(filter(None, ("records", str(self.index), self.field)))

    def __str__(self) -> str:
        return f"{self.path}: got {self.value}; allowed: {self.allowed}"


class RejectedRecordsError(InvalidInputError):
    """Records can't be stored; nothing of the call was written (API-2).

    `field`, `value` and `allowed` are those of the first reason.

    Attributes:
        rejections: every reason, by record.
    """

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        self.rejections = tuple(rejections)
        first = self.rejections[0]
        super().__init__(first.path, None, first.allowed)
        self.value = first.value
        shown = [str(rejection) for rejection in self.rejections[:_SHOWN_REJECTIONS]]
        rest = len(self.rejections) - len(shown)
        self.args = ("; ".join([*shown, f"and {rest} more"] if rest else shown),)


class RecursionLimitError(InvalidInputError):
    """The caller's recursion limit is too small for the shortest path through the graph."""


class StoreError(RecallError):
    """The memory store can't do what was requested."""


class RecordNotFoundError(StoreError):
    """No record of the tenant has this id, or it has expired."""


class StoreUnavailableError(StoreError):
    """The store can't be opened, read or written."""


class StoreUnusableError(StoreUnavailableError):
    """Trying again helps nothing.

    The store was closed, removed or opened by another process, or is of a later version.
    """


class StoreLockedError(StoreError):
    """Another process has the store open for writing, or this one has it open exclusively (STORE-4)."""


class StoreReadOnlyError(StoreError):
    """A write to a store that is open for reading only, or on a read-only path."""


class EmbedderMismatchError(StoreError):
    """The store was created with another embedder; names the re-embedding command (STORE-5)."""


class EmbedderError(RecallError):
    """The embedder can't be loaded or can't embed; the cause is what it raised itself.

    Attributes:
        retried: whether its client has tried several times, so that nobody else needs to.
    """

    retried = False


class WorkerError(RecallError):
    """A worker process can't start, or ends repeatedly."""


def display_value(value: object) -> str:
    """Return `value` as one printable line of at most 120 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception:  # noqa: BLE001  # nested too deep, an integer too long, or whatever a foreign object may raise
        text = f"<{type(value).__name__}>"
    return truncate(text, _SHOWN_CHARACTERS)


def invalid_input_from(error: ValidationError, prefix: str = "", schema: JsonSchema | None = None) -> InvalidInputError:
    """Turn pydantic's first complaint into an `InvalidInputError`; a name that isn't known comes before a missing one.

    A missing thing usually exists under another name. `prefix` comes before the field's name. With the model's JSON
    `schema` the text gives the whole range, not only the bound that was crossed.
    """
    first, *others = error.errors(include_url=False)
    if first["type"] == "missing":
        place = first["loc"][:-1]
        misnamed = (each for each in others if each["type"] == "extra_forbidden" and each["loc"][:-1] == place)
        first = next(misnamed, first)
    return invalid_input(first, schema, ".".join(filter(None, [prefix, join_steps(first["loc"])])))


def join_steps(steps: Sequence[int | str]) -> str:
    """Return the dotted location of an error, without the step that pydantic adds for a mapping's key."""
    return ".".join(str(step) for step in steps if step != "[key]")


def invalid_input(
    details: ErrorDetails, schema: JsonSchema | None, field: str, whole: str = "input"
) -> InvalidInputError:
    """Turn a complaint of pydantic about `field` into an `InvalidInputError`; `schema` as in `invalid_input_from`.

    A rule about several fields names one of them itself, by the `InvalidInputError` that it raises; `field` comes
    before its name. `whole` is the name of what has no field.
    """
    error = details.get("ctx", {}).get("error")
    if isinstance(error, InvalidInputError):
        return error.within(field)
    value = NOTHING if details["type"] == "missing" else details.get("input")
    return InvalidInputError(field or whole, value, describe_allowed(details, schema))


def rejections_of(error: ValidationError, model: type[BaseModel], index: int, record_id: str | None) -> list[Rejection]:
    """Return each of pydantic's complaints about record `index` of a call, which was validated as `model`."""
    found = [
        invalid_input(details, _schema(model), ".".join(map(str, details["loc"])))
        for details in error.errors(include_url=False)
    ]
    return [
        Rejection(index, record_id, "" if one.field == "input" else one.field, one.value, one.allowed) for one in found
    ]


def validate_model(model: type[_Model], data: Mapping[str, Any] | BaseModel, prefix: str = "") -> _Model:
    """Validate `data` as `model`; raise `InvalidInputError` for the first wrong field, with its value and the range."""
    raw = data.model_dump(exclude_unset=True) if isinstance(data, BaseModel) else dict(data)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise invalid_input_from(error, prefix, _schema(model)) from error


@cache
def _schema(model: type[BaseModel]) -> JsonSchema:
    """Return the model's JSON schema; generating it takes far longer than the check that failed."""
    return model.model_json_schema()
