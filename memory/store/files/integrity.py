"""Whether the rows of a sidecar can be what was written: SQLite's own check, then each record's JSON (STORE-4)."""

from __future__ import annotations

import sqlite3

from recall_loop.state.records.records import RECORD_ADAPTER

_SHOWN = 3
_ALONE = """SELECT (SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM bodies)),
(SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM vectors)),
(SELECT count(*) FROM vectors
 WHERE typeof(own) != 'blob' OR typeof(context) != 'blob' OR length(own) != length(context))"""


def check_integrity(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with a sidecar's file or rows, or None. Reads all of it: seconds per 100,000 records."""
    try:
        found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
        return f"malformed: {'; '.join(found)}" if found != ["ok"] else _odd_rows(connection)
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        return f"malformed: {error}"


def _odd_rows(connection: sqlite3.Connection) -> str | None:
    bodies, vectors, lengths = connection.execute(_ALONE).fetchone()
    if bodies or vectors or lengths:
        return f"{bodies} records without a body, {vectors} without vectors, {lengths} with odd ones"
    for rowid, body in connection.execute("SELECT rowid, record FROM bodies"):
        try:
            RECORD_ADAPTER.validate_json(body)
        except (TypeError, ValueError):
            return f"what stands in row {rowid} is no record"
    return None
