"""Reading the SQLite files of other systems, and the pickles within, without changing or running anything."""

from __future__ import annotations

import io
import os
import pickle
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

from recall_loop.memory.intake.imports.external_memory import SourceError

_HEADER = b"SQLite format 3\x00"
_WAL = 2
_BUSY_MS = 10_000
_PAGE = 500


def is_sqlite(path: Path) -> bool:
    """Return whether a file begins as SQLite files do."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


@contextmanager
def open_readonly(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that can't write.

    A file in the write-ahead mode that nobody has open is read as it stands, since SQLite would leave files
    beside it otherwise. Raises `SourceError` where it is missing, no SQLite file, damaged, or was opened by its owner
    while it was read.
    """
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    if not is_sqlite(path):
        raise SourceError(f"{path}: not an SQLite file")
    unopened = _is_unopened_wal(path)
    before = _state(path)
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("&immutable=1" if unopened else "")
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise SourceError(f"{path}: can't be read: {error}") from error
    if unopened and _state(path) != before:
        raise SourceError(f"{path}: was opened by another program while it was read; run again")


def column_names(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of a table's columns; none where there is no such table."""
    return [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def iter_rows(connection: sqlite3.Connection, table: str, wanted: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield a table's rows by their number, with those of the wanted columns that it has; none without the table.

    Rows are read a page at a time, so that a program that is writing never waits for long.
    """
    columns = column_names(connection, table)
    present = [name for name in columns if name in wanted]
    listed = ", ".join(f'"{name}"' for name in ["rowid", *present])
    last = -(2**63)
    while columns:
        query = f'SELECT {listed} FROM "{table}" WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}'
        page = connection.execute(query, (last,)).fetchall()
        for number, *values in page:
            yield number, dict(zip(present, values, strict=True))
        if len(page) < _PAGE:
            return
        last = page[-1][0]


def copy_database(path: Path, target: Path) -> None:
    """Write a consistent copy, with what is in the write-ahead file; raises as `open_readonly`."""
    with open_readonly(path) as source:
        made = sqlite3.connect(target)
        try:
            source.backup(made)
        finally:
            made.close()


def _is_unopened_wal(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(20)
    return len(head) == 20 and head[18] == _WAL and not Path(f"{path}-wal").exists()


def _state(path: Path) -> tuple[int, int, bool]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, Path(f"{path}-wal").exists()


_POINT_TYPES = (set, frozenset, OrderedDict, date, datetime, time, timedelta, timezone, UUID)
_ALLOWED_TYPES: dict[tuple[str, str], type] = {(kind.__module__, kind.__name__): kind for kind in _POINT_TYPES}
# Errors of unpickling truncated, changed or invalid bytes.
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
    """Replaces a class of Qdrant or numpy: accepts any arguments and ignores them."""

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
        raise pickle.UnpicklingError(f"names {module}.{name}, which is not part of a point")


def read_point(data: bytes) -> tuple[str | int, dict[str, Any]]:
    """Return a pickled point's id and payload; nothing that the bytes name is run.

    Raises `ValueError` where it is no point, or names something that points don't consist of.
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
        raise ValueError("a point whose payload is not a mapping")
    return point_id, payload or {}
