"""The values of declared attributes in a table of their own (API-4), and how filters look them up there.

A value stands there as a text that sorts as filters compare values: `attribute_key`. PostgreSQL looks such texts up in
an index behind a policy, which it does with nothing that works on JSON. A key may be shorter than its value, so that
keys narrow the rows and the records themselves decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.postgres.marks import without_nul
from recall_loop.memory.store.tables.attribute_index import INDEX_KEY, needs_value
from recall_loop.memory.store.tables.database import Conditions
from recall_loop.state.attribute_filters import JsonScalar, split_path

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Connection

# An index entry has at most 2,700 bytes.
_CHARACTERS = 200
_KEY = "attribute_key(CAST(? AS JSONB))"
# Keys begin with a letter for the kind of value: n for numbers, s for texts.
_ENDS = {"n": "o", "s": "t"}
_SIGNS = {"gt": ">=", "gte": ">=", "lt": "<=", "lte": "<="}

# A number's key is that of its double, whose bits sort like it, inverted for negative ones.
ATTRIBUTE_KEYS = f"""
CREATE FUNCTION double_of(number numeric) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number > 1.7976931348623157e308 THEN 'Infinity' WHEN number < -1.7976931348623157e308 THEN '-Infinity'
  ELSE CAST(number AS double precision) + 0.0 END;
CREATE FUNCTION number_key(number double precision) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number >= 0 THEN 'n1' || encode(float8send(number), 'hex')
  ELSE 'n0' || translate(encode(float8send(number), 'hex'), '0123456789abcdef', 'fedcba9876543210') END;
CREATE FUNCTION attribute_key(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'string' THEN 's' || left(value #>> '{{}}', {_CHARACTERS})
  WHEN 'number' THEN number_key(double_of(CAST(value #>> '{{}}' AS numeric)))
  WHEN 'boolean' THEN 'b' || (value #>> '{{}}') WHEN 'null' THEN 'z' ELSE 'o' END;
"""


def value_sql(body: str, path: str) -> str:
    """Return SQL for the value of an attribute as JSONB; NULL where there is none."""
    return f"json_of({body}){steps_sql(path)}"


def steps_sql(path: str) -> str:
    """Return SQL that leads from a record's JSON to an attribute."""
    return " -> 'attributes'" + "".join(f" -> {_quoted(name)}" for name in split_path(path))


def _quoted(text: str) -> str:
    return "'" + without_nul(text).replace("'", "''") + "'"


def narrow(found: Conditions, number: int, tenant: str, operators: Mapping[str, Any]) -> None:
    """Add SQL for the rowids whose declared attribute may pass, unless rows without it may.

    They are an array, so that they are looked for first. Another process may drop the index between the look at what
    is declared and the query: then they are all rows of the tenant.
    """
    wanted = Conditions()
    for operator, value in operators.items():
        if needs_value(operator, value):
            clause, values = _among(operator, value)
            wanted.add(clause, *values)
    if not wanted.clauses:
        return
    sql = f"""r.rowid = ANY (ARRAY(
  SELECT v.record FROM attribute_values v WHERE v.path = {number} AND v.tenant = ? AND {wanted.sql}
  UNION ALL
  SELECT q.rowid FROM records q WHERE q.tenant = ?
    AND NOT EXISTS (SELECT 1 FROM meta m WHERE m.key = '{INDEX_KEY}{number}')))"""
    found.add(sql, tenant, *wanted.params, tenant)


def _among(operator: str, value: Any) -> tuple[str, list[Any]]:
    """Return a condition on keys that holds for every value which passes."""
    if operator == "exists":
        return "TRUE", []
    if operator == "ne":  # than null
        return "v.value <> 'z'", []
    if operator == "in":
        keys = "SELECT attribute_key(w.value) FROM jsonb_array_elements(CAST(? AS JSONB)) AS w (value)"
        return f"v.value = ANY (ARRAY({keys}))", [as_json(list(value))]
    if operator == "eq":
        return f"v.value = {_KEY}", [as_json(value)]
    kind = "s" if isinstance(value, str) else "n"
    other = f"v.value >= '{kind}'" if operator in ("lt", "lte") else f"v.value < '{_ENDS[kind]}'"
    return f"v.value {_SIGNS[operator]} {_KEY} AND {other}", [as_json(value)]


def as_json(value: JsonScalar | Sequence[JsonScalar]) -> str:
    """Return a value as JSON that JSONB takes: it knows no NUL character, and records are read the same way."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(as_json, value))}]"
    return json.dumps(without_nul(value) if isinstance(value, str) else value)


def index_attributes(
    connection: Connection, kept: Mapping[str, int], added: Mapping[str, int], dropped: Mapping[str, int]
) -> None:
    """Make and drop the indexes of paths, given with their numbers, within a transaction."""
    for number in dropped.values():
        connection.execute("DELETE FROM attribute_values WHERE path = ?", (number,))
    if added:
        values = _values("b.record", added)
        connection.execute(
            "INSERT INTO attribute_values SELECT n.path, b.tenant, attribute_key(n.value), b.rowid"
            f" FROM bodies b CROSS JOIN LATERAL {values}"
        )
    connection.execute("DROP TRIGGER IF EXISTS attributes ON bodies")
    if kept or added:
        _set_trigger(connection, {**kept, **added})


def _set_trigger(connection: Connection, paths: Mapping[str, int]) -> None:
    """Have PostgreSQL keep the values of these paths from now on, whoever writes."""
    body = f"""
BEGIN
  IF TG_OP <> 'INSERT' THEN
    DELETE FROM attribute_values WHERE record = old.rowid;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO attribute_values SELECT n.path, new.tenant, attribute_key(n.value), new.rowid
    FROM {_values("new.record", paths)};
  END IF;
  RETURN NULL;
END"""
    connection.execute(
        f"CREATE OR REPLACE FUNCTION note_attributes() RETURNS trigger LANGUAGE plpgsql AS {_quoted(body)}"
    )
    connection.execute(
        "CREATE TRIGGER attributes AFTER INSERT OR DELETE OR UPDATE OF record ON bodies"
        " FOR EACH ROW EXECUTE FUNCTION note_attributes()"
    )


def _values(body: str, paths: Mapping[str, int]) -> str:
    """Return SQL for the values of paths in a record's JSON, each with its path's number."""
    rows = ", ".join(f"({number}, j.document{steps_sql(path)})" for path, number in paths.items())
    return (
        f"(SELECT p.path, p.value FROM (SELECT json_of({body}) AS document) j"
        f" CROSS JOIN LATERAL (VALUES {rows}) AS p (path, value) WHERE p.value IS NOT NULL) n"
    )
