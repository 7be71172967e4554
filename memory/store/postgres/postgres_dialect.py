"""SQL as only PostgreSQL words it. A record's JSON is text there too; `json_of` reads it (`schema`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.memory.store.postgres.postgres_attributes import (
    as_json,
    index_attributes,
    narrow,
    steps_sql,
    value_sql,
)
from recall_loop.memory.store.postgres.postgres_schema import STAGING
from recall_loop.memory.store.tables.database import ORDER_SIGNS, Conditions
from recall_loop.state.attribute_filters import JsonScalar, iterate_conditions

_NULL = "CAST('null' AS JSONB)"


class PostgresDialect:
    """The `Dialect` of PostgreSQL: JSONB, and arrays of words with an inverted index (GIN)."""

    staging = STAGING
    record_bytes = "convert_to(b.record, 'UTF8')"
    index_attributes = staticmethod(index_attributes)

    def attribute_clauses(
        self, conditions: Mapping[str, object], tenant: str, numbers: Mapping[str, int]
    ) -> Conditions:
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

    def posting(self, facets: Sequence[str], token: str) -> tuple[str, Any]:
        """Return a condition on the words of a row, among which a facet begins with `#`."""
        words = [*(f"#{facet}" for facet in facets), token]
        return "rowid IN (SELECT p.rowid FROM postings p WHERE p.words @> hashes_of(CAST(? AS TEXT[])))", words

    def json_of_attribute(self, path: str) -> tuple[str, tuple[str, ...]]:
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
