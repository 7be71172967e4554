"""Errors of settings: they name the argument, or the environment variable, that has the wrong value."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from recall_loop.state.errors import InvalidInputError, invalid_input


def setting_error(
    error: ValidationError, values: Mapping[str, Any], model: type[BaseSettings], prefix: str
) -> InvalidInputError:
    """Return the error that names the argument, among `values`, or the environment variable with the wrong value.

    `prefix` is that of the variables of `model`, whose `BARE_NAMES`, if it has any, are read without it, too.
    """
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]).lower().removeprefix(prefix.lower())
    first["loc"] = (name, *first["loc"][1:])
    return invalid_input(
        first, _schema(model), setting_variable(name, values, prefix, getattr(model, "BARE_NAMES", ()))
    )


@cache
def _schema(model: type[BaseSettings]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=False)


def setting_variable(name: str, values: Mapping[str, Any], prefix: str, bare_names: Collection[str]) -> str:
    """Return the environment variable that a setting was read from, or `name` if it is among the arguments `values`."""
    if name in values:
        return name
    candidates = {prefix + name.upper(): 0} | ({name.upper(): 1} if name.upper() in bare_names else {})
    found = [variable for variable, value in os.environ.items() if value and variable.upper() in candidates]
    return min(found, key=lambda variable: candidates[variable.upper()], default=name)
