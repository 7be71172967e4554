"""Indexes of attributes (API-4): which paths have one.

The paths are noted, and their indexes made and dropped, at an open for writing; a path's number is never given to
another one, so that a reader who still knows a dropped path finds it gone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from recall_loop.memory.store.tables.database import Connection, Database, set_meta
from recall_loop.state.attribute_filters import IndexedAttributes
from recall_loop.state.errors import InvalidInputError, invalid_input_from

INDEX_KEY = "attribute_index:"
"""How the keys begin that name the declared paths in `meta`; the path's number follows."""
_COUNTER = "attribute_indexes_made"
_PATHS: TypeAdapter[tuple[str, ...]] = TypeAdapter(IndexedAttributes)
_log = logging.getLogger(__name__)


def is_index_note(name: str) -> bool:
    """Return whether a key of `meta` is about these indexes."""
    return name == _COUNTER or name.startswith(INDEX_KEY)


def checked_paths(paths: object) -> tuple[str, ...]:
    """Return paths of attributes that are to have an index, each once.

    Raises:
        InvalidInputError: it is no list of paths, or one of more than 32.
    """
    try:
        return _PATHS.validate_python(paths if isinstance(paths, str) else list(cast("Iterable[object]", paths)))
    except TypeError as error:
        raise InvalidInputError("indexed_attributes", paths, "a list of paths") from error
    except ValidationError as error:
        raise invalid_input_from(error, "indexed_attributes", _PATHS.json_schema()) from error


def indexed_paths(database: Database) -> dict[str, int]:
    """Return the paths of attributes that have an index, with their numbers."""
    query = "SELECT value, substr(key, ?) FROM meta WHERE key >= ? AND key < ?"
    rows = database.fetch(query, (len(INDEX_KEY) + 1, INDEX_KEY, INDEX_KEY + "~"))
    return {path: int(number) for path, number in rows}


def declare_paths(database: Database, wanted: Collection[str]) -> None:
    """Make the indexes of paths that have none, from the records that are there, and drop those of all others."""
    known = indexed_paths(database)
    if set(wanted) == set(known):
        return
    new = [path for path in wanted if path not in known]
    dropped = {path: number for path, number in known.items() if path not in wanted}
    with database.transaction() as connection:
        kept = {path: number for path, number in known.items() if path in wanted}
        added = {path: _next_number(connection) for path in new}
        for number in dropped.values():
            connection.execute("DELETE FROM meta WHERE key = ?", (f"{INDEX_KEY}{number}",))
        set_meta(connection, {f"{INDEX_KEY}{number}": path for path, number in added.items()})
        database.dialect.index_attributes(connection, kept, added, dropped)
    _log.info("attribute indexes changed", extra={"made": len(new), "dropped": len(dropped)})


def needs_value(operator: str, value: Any) -> bool:
    """Return whether an operator holds only for records that have the attribute."""
    if operator == "exists":
        return bool(value)
    if operator == "in":
        return None not in value
    return (operator == "ne") is (value is None)


def _next_number(connection: Connection) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (_COUNTER,)).fetchone()
    number = int(found[0]) + 1 if found else 1
    set_meta(connection, {_COUNTER: str(number)})
    return number
