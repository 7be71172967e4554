"""The `Dialect` of SQLite: JSON functions, and a full-text table (FTS5).

Declared attributes have their values in a table that triggers keep (API-4). Filters of attributes go over the JSON of
bodies, and over the values of declared paths. Both say the same, by one column that holds an attribute's value so that
SQLite compares it as the filter means it: numbers and text as they are, the rest as blobs, which stand behind all text;
NULL where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from recall_loop.memory.store.sqlite.sqlite_schema import STAGING
from recall_loop.memory.store.tables.attribute_index import INDEX_KEY, needs_value
from recall_loop.memory.store.tables.database import ORDER_SIGNS, Conditions, Connection
from recall_loop.state.attribute_filters import JsonScalar, iterate_conditions, split_path

staging = STAGING
record_bytes = "CAST(b.record AS BLOB)"  # as text, it can't be decoded where it is damaged
_FALSE, _TRUE, _NULL, _OTHER = "x'00'", "x'01'", "x'02'", "x'03'"
_NO_PATH_CHARACTERS = frozenset('"\\')


def _typed(kind: str, value: str) -> str:
    """Return SQL for the column of the module, of a JSON value and its type."""
    return (
        f"CASE {kind} WHEN 'text' THEN {value} WHEN 'integer' THEN {value} WHEN 'real' THEN {value} "
        f"WHEN 'true' THEN {_TRUE} WHEN 'false' THEN {_FALSE} WHEN 'null' THEN {_NULL} "
        f"WHEN 'array' THEN {_OTHER} WHEN 'object' THEN {_OTHER} END"
    )


def value_sql(body: str, path: str) -> str:
    """Return SQL for the value of an attribute in the JSON of `body`.

    A path in SQLite's own notation can't name every key: where it can't, keys are compared one by one.
    """
    names = split_path(path)
    if all(map(_is_plain, names)):
        at = _at(names)
        return _typed(f"json_type({body}, {at})", f"json_extract({body}, {at})")
    inner = f"json_extract({body}, '$.attributes')"
    for name in names[:-1]:
        inner = f"(SELECT e.value FROM json_each({inner}) e WHERE e.key = {quoted(name)} AND e.type = 'object')"
    return f"(SELECT {_typed('e.type', 'e.value')} FROM json_each({inner}) e WHERE e.key = {quoted(names[-1])})"


def json_of_attribute(path: str) -> tuple[str, tuple[str, ...]]:
    """Return SQL for the JSON where the first names of a path lead, and the names from the first that isn't plain."""
    names = split_path(path)
    plain = tuple(takewhile(_is_plain, names))
    return f"b.record -> {_at(plain)}", names[len(plain) :]


def _is_plain(name: str) -> bool:
    """Return whether a path in SQLite's own notation can name a key."""
    return _NO_PATH_CHARACTERS.isdisjoint(name) and name.isprintable()


def _at(names: Iterable[str]) -> str:
    return quoted("$.attributes" + "".join(f'."{name}"' for name in names))


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def attribute_clauses(conditions: Mapping[str, object], tenant: str, numbers: Mapping[str, int]) -> Conditions:
    """Return SQL that holds for what the conditions allow; see `Dialect`."""
    found, plain = Conditions(), Conditions()
    for path, operators in iterate_conditions(conditions):
        wanted = _wanted(value_sql("j.record", path), operators)
        if path in numbers and any(needs_value(name, value) for name, value in operators.items()):
            among = _wanted("v.value", operators)
            values = (tenant, *wanted.params)
            found.add(_indexed(numbers[path], among.sql, wanted.sql), *values, *values)
        else:
            plain.add(wanted.sql, *wanted.params)
    if plain.clauses:
        found.add(f"EXISTS (SELECT 1 FROM bodies j WHERE j.rowid = r.rowid AND {plain.sql})", *plain.params)
    return found


def _indexed(number: int, among: str, wanted: str) -> str:
    """Return SQL for rows whose declared attribute passes.

    Another process may drop the index between the look at what is declared and the query: then the bodies are read.
    """
    return f"""r.rowid IN (
  SELECT v.record FROM attribute_values v WHERE v.path = {number} AND v.tenant = ? AND {among}
  UNION ALL
  SELECT j.rowid FROM (SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM meta m WHERE m.key = '{INDEX_KEY}{number}'))
    CROSS JOIN records q CROSS JOIN bodies j
    WHERE q.tenant = ? AND j.rowid = q.rowid AND {wanted})"""


def _wanted(column: str, operators: Mapping[str, Any]) -> Conditions:
    wanted = Conditions()
    for operator, value in operators.items():
        clause, values = _one(column, operator, value)
        wanted.add(clause, *values)
    return wanted


def _one(column: str, operator: str, value: Any) -> tuple[str, list[Any]]:
    if operator == "exists":
        return f"{column} IS {'NOT ' if value else ''}NULL", []
    if operator == "in":
        return _any_of(column, value)
    literal, params = _literal(value)
    if operator == "eq":
        return (f"{column} = {literal}" if value is not None else f"ifnull({column}, {_NULL}) = {_NULL}"), params
    if operator == "ne":
        return (f"{column} IS NOT {literal}" if value is not None else f"{column} <> {_NULL}"), params
    return f"{column} {ORDER_SIGNS[operator]} {literal}{_end_of_type(column, operator, value)}", params


def _end_of_type(column: str, operator: str, value: Any) -> str:
    """Return what keeps a comparison to the type of its value: numbers stand before all text, text before all blobs."""
    if operator in ("gt", "gte"):
        return f" AND {column} < " + ("x''" if isinstance(value, str) else "''")
    return f" AND {column} >= ''" if isinstance(value, str) else ""


def _literal(value: JsonScalar) -> tuple[str, list[Any]]:
    """Return SQL for a value; numbers are read from JSON, as those of records are, and so get the same last digit."""
    if isinstance(value, str):
        return "?", [value]
    if isinstance(value, bool):
        return _TRUE if value else _FALSE, []
    return (_NULL, []) if value is None else ("json_extract(?, '$')", [json.dumps(value)])


def _any_of(column: str, values: Iterable[JsonScalar]) -> tuple[str, list[Any]]:
    """Return SQL for one of the values; one parameter, however many there are."""
    given = list(values)
    column = f"ifnull({column}, {_NULL})" if None in given else column
    found = f"SELECT {_typed('i.type', 'i.value')} FROM json_each(?) i"
    return f"{column} IN ({found})", [json.dumps(given)]


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


def posting(facets: Sequence[str], token: str) -> tuple[str, str]:
    """Return a match of the full-text table; see `Dialect`."""
    narrow = " AND ".join(f'"{facet}"' for facet in facets)
    parts = (f"facets : ({narrow})" if facets else "", f'window : "{token}"')
    return "fts MATCH ?", " AND ".join(part for part in parts if part)
