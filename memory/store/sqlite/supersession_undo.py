"""Superseded facts when the fact that superseded them is deleted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from datetime import datetime

from recall_loop.memory.store.encoding.indexing import to_microseconds
from recall_loop.memory.store.sqlite.prepared_records import encode_body

_DELETED = """SELECT r.id, r.superseded_by, json_extract(b.record, '$.valid_until')
FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.superseded_by IS NOT NULL AND r.rowid IN (SELECT value FROM json_each(?))"""
_BY_THEM = """SELECT r.rowid, r.superseded_by, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.superseded_by IN
  (SELECT d.id FROM records d WHERE d.rowid IN (SELECT value FROM json_each(?)))
AND r.rowid NOT IN (SELECT value FROM json_each(?))"""
_IDS = "SELECT id FROM records WHERE rowid IN (SELECT value FROM json_each(?))"
_End = tuple[str, str]


def undo_supersession(connection: sqlite3.Connection, tenant: str, deleted: Collection[int]) -> list[int]:
    """Bring each fact that one of `deleted` had superseded to its state without it; return their rows.

    Where the deleted fact was superseded itself, its successor takes its place; else the fact is current again. Called
    within the transaction, before the rows go. The rows that are returned have to be indexed again.
    """
    rows = json.dumps(list(deleted))
    ends = {record: (by, until) for record, by, until in connection.execute(_DELETED, (rows,))}
    gone = {row[0] for row in connection.execute(_IDS, (rows,))}
    found = connection.execute(_BY_THEM, (tenant, rows, rows)).fetchall()
    for rowid, by, body in found:
        record, end = json.loads(body), _final_successor(by, ends, gone)
        for name, value in zip(("superseded_by", "valid_until"), end or (None, None), strict=True):
            record[name] = value
        kept = {name: value for name, value in record.items() if value is not None}
        connection.execute("UPDATE bodies SET record = ? WHERE rowid = ?", (encode_body(kept), rowid))
        until = None if end is None else to_microseconds(datetime.fromisoformat(end[1]))
        values = (end and end[0], until, rowid)
        connection.execute("UPDATE records SET superseded_by = ?, valid_until = ? WHERE rowid = ?", values)
    return [row[0] for row in found]


def _final_successor(by: str, ends: dict[str, _End], gone: Collection[str]) -> _End | None:
    """Follow the chain of deleted facts to the first that stays; None where it ends among them."""
    seen: set[str] = set()
    while by in ends and by not in seen:
        seen.add(by)
        found = ends[by]
        if found[0] not in gone:
            return found
        by = found[0]
    return None
