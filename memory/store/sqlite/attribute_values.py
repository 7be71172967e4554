"""The values of declared attributes in a table of their own, by tenant; triggers keep it, whoever writes (API-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from recall_loop.memory.store.sqlite.attribute_predicate import value_sql

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Connection

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


def index_attributes(
    connection: Connection, kept: Mapping[str, int], added: Mapping[str, int], dropped: Mapping[str, int]
) -> None:
    """Make and drop the indexes of paths, given with their numbers, within a transaction."""
    for statement in _TABLES:
        connection.execute(statement)
    for number in dropped.values():
        connection.execute("DELETE FROM attribute_values WHERE path = ?", (number,))
    for path, number in added.items():
        _fill(connection, path, number)
    _set_triggers(connection, {**kept, **added})


def _fill(connection: Connection, path: str, number: int) -> None:
    """Take the values of a path from all records; a body that is damaged is left to `verify`."""
    value = f"CASE WHEN json_valid(b.record) THEN {value_sql('b.record', path)} END"
    connection.execute(
        f"""INSERT INTO attribute_values SELECT ?, tenant, value, record FROM
        (SELECT r.tenant, {value} AS value, r.rowid AS record FROM records r JOIN bodies b ON b.rowid = r.rowid)
        WHERE value IS NOT NULL""",
        (number,),
    )


def _set_triggers(connection: Connection, paths: Mapping[str, int]) -> None:
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
        # Replacing a row fires no deletion trigger.
        row, values = ("old", "") if name == "attributes_out" else ("new", filling)
        connection.execute(
            f"CREATE TRIGGER {name} {event} BEGIN DELETE FROM attribute_values WHERE record = {row}.rowid;{values} END"
        )
