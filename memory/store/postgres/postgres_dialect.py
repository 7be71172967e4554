"""The `Dialect` of PostgreSQL: JSONB, and arrays of words with an inverted index (GIN).

A record's JSON is text there too; `json_of` reads it (`postgres_schema`). The values of declared attributes stand in a
table of their own (API-4), each as a text that sorts as filters compare values: `attribute_key`. PostgreSQL looks such
texts up in an index behind a policy, which it does with nothing that works on JSON. A key may be shorter than its
value, so that keys narrow the rows and the records themselves decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.memory.store.postgres.postgres_connection import without_nul
from recall_loop.memory.store.postgres.postgres_schema import STAGING
from recall_loop.memory.store.tables.attribute_index import INDEX_KEY, needs_value
from recall_loop.memory.store.tables.database import ORDER_SIGNS, Conditions, Connection
from recall_loop.state.attribute_filters import JsonScalar, iterate_conditions, split_path

staging = STAGING
record_bytes = "convert_to(b.record, 'UTF8')"
_KEY = "attribute_key(CAST(? AS JSONB))"
# Keys begin with a letter for the kind of value: n for numbers, s for texts.
_ENDS = {"n": "o", "s": "t"}
_SIGNS = {"gt": ">=", "gte": ">=", "lt": "<=", "lte": "<="}


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


_NULL = "CAST('null' AS JSONB)"


def attribute_clauses(conditions: Mapping[str, object], tenant: str, numbers: Mapping[str, int]) -> Conditions:
    """Return conditions on attributes, narrowed by the values of declared paths."""
    found, read = Conditions(), Conditions()
    for path, operators in iterate_conditions(conditions):
        if path in numbers:
            narrow(found, numbers[path], tenant, operators)
        for operator, value in operators.items():
            clause, values = _condition(value_sql("j.record", path), operator, value)
            read.add(clause, *values)
    if read.clauses:
        found.add(f"EXISTS (SELECT 1 FROM bodies j WHERE j.rowid = r.rowid AND {read.sql})", *read.params)
    return found


def posting(facets: Sequence[str], token: str) -> tuple[str, Any]:
    """Return a condition on the words of a row, among which a facet begins with `#`."""
    words = [*(f"#{facet}" for facet in facets), token]
    return "rowid IN (SELECT p.rowid FROM postings p WHERE p.words @> hashes_of(CAST(? AS TEXT[])))", words


def json_of_attribute(path: str) -> tuple[str, tuple[str, ...]]:
    """Return an attribute as JSON: as it is written, where JSON can be read, for JSONB rewrites numbers."""
    steps = steps_sql(path)
    plain = f"CAST(CAST(b.record AS JSON){steps} AS TEXT)"
    other = f"CAST(json_of(b.record){steps} AS TEXT)"
    return f"CASE WHEN strpos(b.record, '\\u0000') = 0 THEN {plain} ELSE {other} END", ()


def _condition(value: str, operator: str, wanted: Any) -> tuple[str, list[Any]]:
    if operator == "exists":
        return f"({value}) IS {'NOT ' if wanted else ''}NULL", []
    if operator == "in":
        return _any_of(value, wanted)
    if operator == "eq":
        found = f"coalesce({value}, {_NULL})" if wanted is None else f"({value})"
        return f"{found} = CAST(? AS JSONB)", [as_json(wanted)]
    if operator == "ne":
        sign = "<>" if wanted is None else "IS DISTINCT FROM"
        return f"({value}) {sign} CAST(? AS JSONB)", [as_json(wanted)]
    return _comparison(value, ORDER_SIGNS[operator], wanted)


def _comparison(value: str, sign: str, wanted: JsonScalar) -> tuple[str, list[Any]]:
    """Return a comparison with values of the same type only: text by its code points, numbers by their size."""
    if isinstance(wanted, str):
        text = f"(({value}) #>> '{{}}') COLLATE \"C\""
        return f"CASE WHEN jsonb_typeof({value}) = 'string' THEN {text} {sign} ? ELSE FALSE END", [wanted]
    number = f"CAST(({value}) #>> '{{}}' AS NUMERIC)"
    return (
        f"CASE WHEN jsonb_typeof({value}) = 'number' THEN {number} {sign} CAST(? AS NUMERIC) ELSE FALSE END",
        [json.dumps(wanted)],
    )


def _any_of(value: str, wanted: Iterable[JsonScalar]) -> tuple[str, list[Any]]:
    given = list(wanted)
    found = f"coalesce({value}, {_NULL})" if None in given else f"({value})"
    return f"{found} IN (SELECT jsonb_array_elements(CAST(? AS JSONB)))", [as_json(given)]
