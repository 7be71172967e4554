"""SQL as only SQLite words it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.sqlite import attribute_predicate, attribute_values
from recall_loop.memory.store.sqlite.sqlite_schema import STAGING

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Connection


class SqliteDialect:
    """The `Dialect` of SQLite: JSON functions, and a full-text table (FTS5)."""

    staging = STAGING
    record_bytes = "CAST(b.record AS BLOB)"  # as text it can't be decoded where it is damaged

    def attribute_clauses(
        self, conditions: Mapping[str, object], tenant: str, numbers: Mapping[str, int]
    ) -> tuple[list[str], list[Any]]:
        """Return conditions on attributes; see `attribute_predicate`."""
        return attribute_predicate.attribute_clauses(conditions, tenant, numbers)

    def index_attributes(
        self, connection: Connection, kept: Mapping[str, int], added: Mapping[str, int], dropped: Mapping[str, int]
    ) -> None:
        """Keep the values of these paths in a table of their own; see `attribute_values`."""
        attribute_values.index_attributes(connection, kept, added, dropped)

    def posting(self, facets: Sequence[str], token: str) -> tuple[str, str]:
        """Return a match of the full-text table."""
        narrow = " AND ".join(f'"{facet}"' for facet in facets)
        parts = (f"facets : ({narrow})" if facets else "", f'window : "{token}"')
        return "fts MATCH ?", " AND ".join(part for part in parts if part)

    def json_of_attribute(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Return the JSON of an attribute, or of what holds it."""
        return attribute_predicate.json_sql(path)
