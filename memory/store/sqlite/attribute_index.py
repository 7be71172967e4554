"""Indexes of attributes (API-4): the values of declared paths in a table of their own, by tenant.

Triggers keep it, whoever writes. They and the paths are made and dropped at an open for writing; a path's number is
never given to another one, so that a reader who still knows a dropped path finds it gone (`attribute_predicate`).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from pydantic import TypeAdapter, ValidationError

from recall_loop.memory.store.sqlite.attribute_predicate import INDEX_KEY, value_sql
from recall_loop.state.attribute_filters import IndexedAttributes
from recall_loop.state.errors import InvalidInputError, invalid_input_from

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

_COUNTER = "attribute_indexes_made"
_TABLES = (
    """CREATE TABLE IF NOT EXISTS attribute_values (
  path INTEGER NOT NULL, tenant TEXT NOT NULL, value NOT NULL, record INTEGER NOT NULL,
  PRIMARY KEY (path, tenant, value, record)
) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS attribute_values_record ON attribute_values (record)",
)
_TRIGGERS = {
    "attributes_in": "AFTER INSERT ON bodies",
    "attributes_change": "AFTER UPDATE OF record ON bodies",
    "attributes_out": "AFTER DELETE ON bodies",
}
_PATHS: TypeAdapter[tuple[str, ...]] = TypeAdapter(IndexedAttributes)
_log = logging.getLogger(__name__)


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


def indexed_paths(database: SqliteDatabase) -> dict[str, int]:
    """Return the paths of attributes that have an index, with their numbers.

    Raises:
        StoreUnavailableError: SQLite fails.
    """
    query = "SELECT value, substr(key, ?) FROM meta WHERE key >= ? AND key < ?"
    rows = database.fetch(query, (len(INDEX_KEY) + 1, INDEX_KEY, INDEX_KEY + "~"))
    return {path: int(number) for path, number in rows}


def declare_paths(database: SqliteDatabase, wanted: Collection[str]) -> None:
    """Make the indexes of paths that have none, from the records that are there, and drop those of all others.

    Raises:
        StoreUnavailableError: SQLite fails; nothing was changed.
    """
    known = indexed_paths(database)
    if set(wanted) == set(known):
        return
    new = [path for path in wanted if path not in known]
    dropped = {path: number for path, number in known.items() if path not in wanted}
    with database.transaction() as connection:
        for statement in _TABLES:
            connection.execute(statement)
        for number in dropped.values():
            connection.execute("DELETE FROM attribute_values WHERE path = ?", (number,))
            connection.execute("DELETE FROM meta WHERE key = ?", (f"{INDEX_KEY}{number}",))
        kept = {path: number for path, number in known.items() if path in wanted}
        added = {path: _next_number(connection) for path in new}
        for path, number in added.items():
            _fill(connection, path, number)
        _set_triggers(connection, kept | added)
    _log.info("attribute indexes changed", extra={"made": len(new), "dropped": len(dropped)})


def _next_number(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (_COUNTER,)).fetchone()
    number = int(found[0]) + 1 if found else 1
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_COUNTER, str(number)))
    return number


def _fill(connection: sqlite3.Connection, path: str, number: int) -> None:
    """Take the values of a path from all records; a body that is damaged is left to `verify`."""
    value = f"CASE WHEN json_valid(b.record) THEN {value_sql('b.record', path)} END"
    connection.execute(
        f"""INSERT INTO attribute_values SELECT ?, tenant, value, record FROM
        (SELECT r.tenant, {value} AS value, r.rowid AS record FROM records r JOIN bodies b ON b.rowid = r.rowid)
        WHERE value IS NOT NULL""",
        (number,),
    )
    connection.execute("INSERT INTO meta VALUES (?, ?)", (f"{INDEX_KEY}{number}", path))


def _set_triggers(connection: sqlite3.Connection, paths: Mapping[str, int]) -> None:
    """Have SQLite keep the values of these paths from now on."""
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    if not paths:
        return
    filling = "".join(
        f"""
  INSERT INTO attribute_values SELECT {number}, tenant, value, new.rowid FROM
    (SELECT tenant, {value_sql("new.record", path)} AS value FROM records WHERE rowid = new.rowid)
    WHERE value IS NOT NULL;"""
        for path, number in paths.items()
    )
    for name, event in _TRIGGERS.items():
        # A row that is replaced fires no trigger of deletion.
        row, values = ("old", "") if name == "attributes_out" else ("new", filling)
        connection.execute(
            f"CREATE TRIGGER {name} {event} BEGIN DELETE FROM attribute_values WHERE record = {row}.rowid;{values} END"
        )
