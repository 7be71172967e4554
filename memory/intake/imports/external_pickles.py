"""Points that Qdrant's local mode pickles into SQLite, read without ever calling what a pickle names.

Whoever can write such a file can put any program into it, so nothing is imported by the names in it. Names of
Qdrant's own classes stand for an empty class here, a few harmless types of the standard library are themselves,
and every other name ends the reading of that point.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from typing import Any
from uuid import UUID

_ALLOWED_TYPES: dict[tuple[str, str], type] = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("collections", "OrderedDict"): OrderedDict,
    ("datetime", "date"): date,
    ("datetime", "datetime"): datetime,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("uuid", "UUID"): UUID,
}
# Errors of unpickling bytes that are cut off, changed or made up.
_UNPICKLING_ERRORS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class _InertObject:
    """Stands for a class of Qdrant or numpy: takes whatever it is given, and does nothing with it."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _PointUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED_TYPES:
            return _ALLOWED_TYPES[module, name]
        # numpy's arrays are vectors, which are not read.
        if module.split(".", maxsplit=1)[0] in ("qdrant_client", "numpy"):
            return type("_Inert", (_InertObject,), {})
        raise pickle.UnpicklingError(f"names {module}.{name}, which is no part of a point")


def read_point(data: bytes) -> tuple[str | int, dict[str, Any]]:
    """Return a pickled point's id and payload; nothing that the bytes name is run.

    Raises:
        ValueError: it is no point, or names something that points don't consist of.
    """
    try:
        point = _PointUnpickler(io.BytesIO(data)).load()
    except _UNPICKLING_ERRORS as error:
        raise ValueError(f"not a point of Qdrant: {str(error) or type(error).__name__}") from error
    state = point.state if isinstance(point, _InertObject) else None
    fields = state.get("__dict__", state) if isinstance(state, dict) else None
    if not isinstance(fields, dict):
        raise ValueError("not a point of Qdrant")
    point_id, payload = fields.get("id"), fields.get("payload")
    if isinstance(point_id, UUID):
        point_id = str(point_id)
    if isinstance(point_id, bool) or not isinstance(point_id, str | int):
        raise ValueError("a point without an id")
    if payload is not None and not isinstance(payload, dict):
        raise ValueError("a point whose payload is no mapping")
    return point_id, payload or {}
