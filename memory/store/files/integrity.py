"""Whether a sidecar holds the rows that were written: SQLite's own check, then each record's JSON (STORE-4)."""

from __future__ import annotations

import sqlite3

from recall_loop.state.records.records import RECORD_ADAPTER

_LINES = 3
# Each counts rows that no write leaves.
INCOMPLETE_ROWS = {
    "records without a body": "SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM bodies)",
    "records without vectors": "SELECT count(*) FROM records WHERE rowid NOT IN (SELECT rowid FROM vectors)",
}
_DAMAGED_VECTORS = """SELECT count(*) FROM vectors
WHERE typeof(own) != 'blob' OR typeof(context) != 'blob' OR length(own) != length(context)"""


def malformed_pages(connection: sqlite3.Connection) -> list[str]:
    """Return SQLite's own findings about the file, at most three; none if it is sound. Reads all of it."""
    found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_LINES})")]
    return [] if found == ["ok"] else found


def check_integrity(connection: sqlite3.Connection) -> str | None:
    """Return the damage of a sidecar's file or rows, or None. Reads all of it: seconds per 100,000 records."""
    try:
        pages = malformed_pages(connection)
        return f"malformed: {'; '.join(pages)}" if pages else _damaged_rows(connection)
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        return f"malformed: {error}"


def _damaged_rows(connection: sqlite3.Connection) -> str | None:
    queries = {**INCOMPLETE_ROWS, "damaged vectors": _DAMAGED_VECTORS}
    counts = {words: connection.execute(query).fetchone()[0] for words, query in queries.items()}
    if any(counts.values()):
        return ", ".join(f"{words}: {count}" for words, count in counts.items() if count)
    for rowid, body in connection.execute("SELECT rowid, record FROM bodies"):
        try:
            RECORD_ADAPTER.validate_json(body)
        except (TypeError, ValueError):
            return f"what stands in row {rowid} is no record"
    return None
