"""A request that doesn't fit its model, as a problem document that names the field and what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from recall_loop.service.core.problems import ProblemError
from recall_loop.state.errors import invalid_input

if TYPE_CHECKING:
    from fastapi import Request
    from pydantic_core import ErrorDetails


def problem_from_validation(request: Request, error: Exception) -> ProblemError:
    """Return the problem of the first field that is wrong; 400 where the body is no JSON at all."""
    errors = cast("Sequence[Mapping[str, Any]]", error.errors()) if isinstance(error, RequestValidationError) else []
    first: dict[str, Any] = (
        dict(errors[0]) if errors else {"type": "value_error", "loc": (), "msg": "the request doesn't fit"}
    )
    if first["type"] == "json_invalid":
        return ProblemError(
            400, f"The body is not JSON: {first['ctx']['error']} at character {first['loc'][1]}.", kind="invalid_json"
        )
    place, *loc = first["loc"] or ("body",)
    field = ".".join(map(str, loc)) or str(place)
    first["loc"] = tuple(loc)
    invalid = invalid_input(cast("ErrorDetails", first), _schema(request) if place == "body" else None, field)
    return ProblemError(
        422, str(invalid), kind="invalid_input", field=field, value=invalid.value, allowed=invalid.allowed
    )


def _schema(request: Request) -> Mapping[str, Any] | None:
    field = getattr(request.scope.get("route"), "body_field", None)
    return None if field is None else _schema_of(field.field_info.annotation)


@lru_cache(maxsize=64)
def _schema_of(annotation: Any) -> Mapping[str, Any]:
    return TypeAdapter(annotation).json_schema()
