"""What FastAPI finds wrong with a request, as problem documents, and the check of its query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, create_model
from pydantic_core import ErrorDetails

from recall_loop.service.core.problems import ProblemError
from recall_loop.state.errors import InvalidInputError, invalid_input, join_steps


def _check_query_params(request: Request) -> None:
    schema = _schema(request, "query") if request.query_params else None
    for name, value in request.query_params.items():
        if schema is None:
            raise InvalidInputError(name, value, "no such parameter: this address takes none")
        given = request.query_params.getlist(name)
        if len(given) > 1 and not _takes_several(schema.get("properties", {}).get(name, {})):
            raise InvalidInputError(name, given, "this parameter once")


def _takes_several(part: Mapping[str, Any]) -> bool:
    return any(option.get("type") == "array" for option in [part, *part.get("anyOf", ())])


# For `dependencies=[…]`: unknown query parameters are rejected instead of ignored (SEARCH-2).
CheckedQueryParams = Depends(_check_query_params)


def problem_from_validation(request: Request, error: RequestValidationError) -> ProblemError:
    """Return the problem of the first wrong field; 400 if the body isn't JSON."""
    first: dict[str, Any] = dict(error.errors()[0])
    if first["type"] == "json_invalid":
        return ProblemError(
            400, f"The body is not JSON: {first['ctx']['error']} at character {first['loc'][1]}.", kind="invalid_json"
        )
    place, *loc = first["loc"] or ("body",)
    first["loc"] = tuple(loc)
    invalid = invalid_input(cast("ErrorDetails", first), _schema(request, str(place)), join_steps(loc), str(place))
    return ProblemError(
        422, str(invalid), kind="invalid_input", field=invalid.field, value=invalid.value, allowed=invalid.allowed
    )


def _schema(request: Request, place: str) -> Mapping[str, Any] | None:
    """Return the schema of a route's body, or of the parameters in its address."""
    route = request.scope.get("route")
    if place == "body":
        field = getattr(route, "body_field", None)
        return None if field is None else _schema_of(field.field_info.annotation)
    fields = [field.field_info for field in getattr(getattr(route, "dependant", None), f"{place}_params", ())]
    annotations = [field.annotation for field in fields]
    if len(fields) == 1 and isinstance(annotations[0], type) and issubclass(annotations[0], BaseModel):
        return _schema_of(annotations[0])
    named: dict[str, Any] = {field.alias: (field.annotation, field) for field in fields}
    return create_model("Parameters", **named).model_json_schema() if named else None


@lru_cache(maxsize=64)
def _schema_of(annotation: Any) -> Mapping[str, Any]:
    return TypeAdapter(annotation).json_schema()
