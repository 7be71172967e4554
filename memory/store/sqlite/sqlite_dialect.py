"""SQL as only SQLite words it."""

from __future__ import annotations

from collections.abc import Sequence

from recall_loop.memory.store.sqlite import attribute_predicate, attribute_values
from recall_loop.memory.store.sqlite.sqlite_schema import STAGING


class SqliteDialect:
    """The `Dialect` of SQLite: JSON functions, and a full-text table (FTS5)."""

    staging = STAGING
    record_bytes = "CAST(b.record AS BLOB)"  # as text, it can't be decoded where it is damaged
    attribute_clauses = staticmethod(attribute_predicate.attribute_clauses)
    index_attributes = staticmethod(attribute_values.index_attributes)
    json_of_attribute = staticmethod(attribute_predicate.json_sql)

    def posting(self, facets: Sequence[str], token: str) -> tuple[str, str]:
        """Return a match of the full-text table."""
        narrow = " AND ".join(f'"{facet}"' for facet in facets)
        parts = (f"facets : ({narrow})" if facets else "", f'window : "{token}"')
        return "fts MATCH ?", " AND ".join(part for part in parts if part)
