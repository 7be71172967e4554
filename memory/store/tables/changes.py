"""The log of changes, and facts that become current again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.encoding.indexing import body_checksum, to_microseconds
from recall_loop.memory.store.tables.database import AMONG_ROWS, MARKER_FIELDS, Connection, Database
from recall_loop.memory.store.tables.prepared_records import ChangeOrigin, encode_body
from recall_loop.memory.store.tables.versions import RecordChange, forget_successors, record_versions

KEPT_DELETIONS = 10_000
# One statement sees one snapshot of the data. Rows of records and of deletions never share a number.
_CHANGED = """SELECT 0, version, horizon FROM tenants WHERE tenant = :tenant
UNION ALL SELECT 1, rowid, 0 FROM records WHERE tenant = :tenant AND changed > :since
UNION ALL SELECT 1, rowid, 0 FROM deleted WHERE tenant = :tenant AND version > :since"""
COMMIT_META_KEY = "commit_number"
_NEXT = "SELECT version + 1 FROM tenants WHERE tenant = ?"
_FIRST_TOO_MANY = """SELECT version FROM deleted WHERE tenant = ?
ORDER BY version DESC, rowid DESC LIMIT 1 OFFSET ?"""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that changed after some version.

    Attributes:
        version: version of the tenant's data that these changes lead to.
        rowids: rows that were written, got another window or vector, or were deleted; ascending.
    """

    version: int
    rowids: NDArray[np.int64]


def read_changes(database: Database, tenant: str, since: int) -> ChangedRows | None:
    """Return the rows of a tenant that changed after version `since`, or None if that isn't known.

    It isn't known if deletions of that time are forgotten (the newest 10,000 are kept), if the store
    was made before changes were noted, or if `since` is ahead of the data.
    """
    found = database.fetch(_CHANGED, {"tenant": tenant, "since": since})
    version, horizon = next((row[1:] for row in found if row[0] == 0), (0, 0))
    if not horizon <= since <= version:
        return None
    rowids = np.fromiter((row[1] for row in found if row[0]), dtype=np.int64)
    return ChangedRows(version, np.unique(rowids))


def next_version(connection: Connection, tenant: str) -> int:
    """Return the version that the current transaction leads to, before `touch_tenant` is called."""
    found = connection.execute(_NEXT, (tenant,)).fetchone()
    return int(found[0]) if found else 1


def last_commit(database: Database) -> int:
    """Return the number of the last commit; 0 where no record was written since commits are counted."""
    return int(database.meta().get(COMMIT_META_KEY, "0"))


def marker_of(database: Database) -> dict[str, str]:
    """Return the generation marker of a store's tables; empty if they were never finished."""
    meta = database.meta()
    return {name: meta[name] for name in MARKER_FIELDS if name in meta} if "generation" in meta else {}


def record_deletions(connection: Connection, tenant: str, rowids: Iterable[int]) -> None:
    """Note rows that this transaction deletes; forget the oldest deletions beyond 10,000."""
    version = next_version(connection, tenant)
    values = [(tenant, version, rowid) for rowid in rowids]
    connection.executemany("INSERT INTO deleted VALUES (?, ?, ?)", values)
    oldest = connection.execute(_FIRST_TOO_MANY, (tenant, KEPT_DELETIONS)).fetchone()
    if oldest:
        connection.execute("DELETE FROM deleted WHERE tenant = ? AND version <= ?", (tenant, *oldest))
        connection.execute("UPDATE tenants SET horizon = ? WHERE tenant = ?", (*oldest, tenant))


_DELETED = f"""SELECT r.id, r.superseded_by, json_extract(b.record, '$.valid_until')
FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.superseded_by IS NOT NULL AND r.rowid {AMONG_ROWS}"""
_BY_THEM = f"""SELECT r.rowid, r.superseded_by, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.superseded_by IN
  (SELECT d.id FROM records d WHERE d.rowid {AMONG_ROWS})
AND r.rowid NOT {AMONG_ROWS}"""
_RESTORE = """UPDATE records SET superseded_by = ?, valid_until = ?, checksum = ?, commit_number = ?
WHERE rowid = ?"""
_IDS = f"SELECT id FROM records WHERE rowid {AMONG_ROWS}"
_End = tuple[str, str]
_ENDS = ("superseded_by", "valid_until")


def undo_supersession(
    connection: Connection, tenant: str, deleted: Collection[int], *, keep_history: bool = False
) -> list[int]:
    """Bring each fact that one of `deleted` had superseded to its state without it; return their rows.

    Where the deleted fact was superseded itself, its successor takes its place; else the fact is current again. Their
    versions lose it too: what is left of the change is the successor, with `keep_history`. Called within the
    transaction, before the rows go. The rows that are returned have to be indexed again.
    """
    rows = json.dumps(list(deleted))
    ends = {record: (by, until) for record, by, until in connection.execute(_DELETED, (rows,))}
    gone = {row[0] for row in connection.execute(_IDS, (rows,))}
    found = connection.execute(_BY_THEM, (tenant, rows, rows)).fetchall()
    forget_successors(connection, tenant, gone)
    history: list[RecordChange] = []
    for rowid, by, body in found:
        record, end = json.loads(body), _final_successor(by, ends, gone)
        for name, value in zip(_ENDS, end or (None, None), strict=True):
            record[name] = value
        new = encode_body({name: value for name, value in record.items() if value is not None})
        connection.execute("UPDATE bodies SET record = ? WHERE rowid = ?", (new, rowid))
        if keep_history and end is not None:
            current = {name: value for name, value in record.items() if name not in _ENDS}
            history.append(RecordChange(tenant, record["id"], encode_body(current), new, ChangeOrigin()))
        until = None if end is None else to_microseconds(datetime.fromisoformat(end[1]))
        values = (end and end[0], until, body_checksum(new), connection.next_commit(), rowid)
        connection.execute(_RESTORE, values)
    record_versions(connection, history)
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
