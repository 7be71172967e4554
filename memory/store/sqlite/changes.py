"""The log of changes, and facts that become current again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.encoding.indexing import acts_mask, body_checksum, supersession_key_of, to_microseconds
from recall_loop.memory.store.sqlite.prepared_records import ChangeOrigin, encode_body
from recall_loop.memory.store.sqlite.schema import (
    SCHEMA_VERSION,
    UPGRADE_1_TO_2,
    UPGRADE_2_TO_3,
    UPGRADE_3_TO_4,
    UPGRADE_4_TO_5,
    UPGRADE_5_TO_6,
)
from recall_loop.memory.store.sqlite.versions import RecordChange, forget_successors, record_versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase


KEPT_DELETIONS = 10_000
# Schemas that are upgraded when the store is opened for writing.
UPGRADABLE_SCHEMAS = ("1", "2", "3", "4", "5")

# One statement sees one state of the data. Rows of records and of deletions never share a number.
_CHANGED = """SELECT 0, version, horizon FROM tenants WHERE tenant = :tenant
UNION ALL SELECT 1, rowid, 0 FROM records WHERE tenant = :tenant AND changed > :since
UNION ALL SELECT 1, rowid, 0 FROM deleted WHERE tenant = :tenant AND version > :since"""
COMMIT_META_KEY = "commit_number"
_NEXT_COMMIT = f"""INSERT INTO meta VALUES ('{COMMIT_META_KEY}', '1')
ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1 RETURNING value"""
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


def read_changes(database: SqliteDatabase, tenant: str, since: int) -> ChangedRows | None:
    """Return the rows of a tenant that changed after version `since`, or None if that isn't known.

    It isn't known if deletions of that time are forgotten (the newest 10,000 are kept), if the store
    was made before changes were noted, or if `since` is ahead of the data.

    Raises:
        StoreUnavailableError: SQLite fails.
    """
    found = database.fetch(_CHANGED, {"tenant": tenant, "since": since})
    version, horizon = next((row[1:] for row in found if row[0] == 0), (0, 0))
    if not horizon <= since <= version:
        return None
    rowids = np.fromiter((row[1] for row in found if row[0]), dtype=np.int64)
    return ChangedRows(version, np.unique(rowids))


def next_version(connection: sqlite3.Connection, tenant: str) -> int:
    """Return the version that the current transaction leads to, before `touch_tenant` is called."""
    found = connection.execute(_NEXT, (tenant,)).fetchone()
    return int(found[0]) if found else 1


def next_commit(connection: sqlite3.Connection) -> int:
    """Return the number of the commit that the current transaction leads to; every call takes one."""
    return int(connection.execute(_NEXT_COMMIT).fetchone()[0])


def last_commit(database: SqliteDatabase) -> int:
    """Return the number of the last commit; 0 where no record was written since commits are counted."""
    return int(database.meta().get(COMMIT_META_KEY, "0"))


def record_deletions(connection: sqlite3.Connection, tenant: str, rowids: Iterable[int]) -> None:
    """Note rows that this transaction deletes; forget the oldest deletions beyond 10,000."""
    version = next_version(connection, tenant)
    values = [(tenant, version, rowid) for rowid in rowids]
    connection.executemany("INSERT INTO deleted VALUES (?, ?, ?)", values)
    oldest = connection.execute(_FIRST_TOO_MANY, (tenant, KEPT_DELETIONS)).fetchone()
    if oldest:
        connection.execute("DELETE FROM deleted WHERE tenant = ? AND version <= ?", (tenant, *oldest))
        connection.execute("UPDATE tenants SET horizon = ? WHERE tenant = ?", (*oldest, tenant))


def upgrade_schema(database: SqliteDatabase) -> None:
    """Bring a store of an earlier schema, open for writing, to this one; any other store is left as it is.

    Raises:
        StoreUnavailableError: SQLite fails; the store is as before.
    """
    if database.meta().get("schema") not in UPGRADABLE_SCHEMAS:
        return
    with database.transaction() as connection:
        # A sidecar that was rebuilt from the Chroma side of an earlier schema has the tables already.
        columns = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
        for column, statements, backfill in _UPGRADES:
            if column not in columns:
                for statement in statements:
                    connection.execute(statement)
                backfill(connection)
        for statement in UPGRADE_5_TO_6:
            connection.execute(statement)
        # Stores had no id of their own before: the generation that both sides are of takes its place.
        connection.execute("INSERT OR IGNORE INTO meta SELECT 'store', value FROM meta WHERE key = 'generation'")
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA_VERSION),))


def _backfill_supersession_keys(connection: sqlite3.Connection) -> None:
    query = "SELECT b.record, r.rowid FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.kind = 'fact'"
    slots = [(supersession_key_of(json.loads(body)), rowid) for body, rowid in connection.execute(query)]
    connection.executemany("UPDATE records SET slot = ? WHERE rowid = ?", slots)


def _backfill_speech_acts(connection: sqlite3.Connection) -> None:
    acts = [
        (acts_mask(json.loads(body)), rowid) for rowid, body in connection.execute("SELECT rowid, record FROM bodies")
    ]
    connection.executemany("UPDATE records SET acts = ? WHERE rowid = ?", [pair for pair in acts if pair[0]])


def _backfill_checksums(connection: sqlite3.Connection) -> None:
    sums = [(body_checksum(body), rowid) for rowid, body in connection.execute("SELECT rowid, record FROM bodies")]
    connection.executemany("UPDATE records SET checksum = ? WHERE rowid = ?", sums)
    numbered = "UPDATE tombstones SET commit_number = ?"
    if connection.execute("SELECT 1 FROM tombstones LIMIT 1").fetchone():
        connection.execute(numbered, (next_commit(connection),))


_DELETED = """SELECT r.id, r.superseded_by, json_extract(b.record, '$.valid_until')
FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.superseded_by IS NOT NULL AND r.rowid IN (SELECT value FROM json_each(?))"""
_BY_THEM = """SELECT r.rowid, r.superseded_by, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.superseded_by IN
  (SELECT d.id FROM records d WHERE d.rowid IN (SELECT value FROM json_each(?)))
AND r.rowid NOT IN (SELECT value FROM json_each(?))"""
_RESTORE = """UPDATE records SET superseded_by = ?, valid_until = ?, checksum = ?, commit_number = ?
WHERE rowid = ?"""
_IDS = "SELECT id FROM records WHERE rowid IN (SELECT value FROM json_each(?))"
_End = tuple[str, str]
_ENDS = ("superseded_by", "valid_until")


def undo_supersession(
    connection: sqlite3.Connection, tenant: str, deleted: Collection[int], *, keep_history: bool = False
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
        values = (end and end[0], until, body_checksum(new), next_commit(connection), rowid)
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


# Each upgrade by a column that only stores without it lack, and what works its values out.
_UPGRADES: tuple[tuple[str, Sequence[str], Callable[[sqlite3.Connection], None]], ...] = (
    ("changed", UPGRADE_1_TO_2, lambda _: None),
    ("slot", UPGRADE_2_TO_3, _backfill_supersession_keys),
    ("expires_at", UPGRADE_3_TO_4, _backfill_speech_acts),
    ("checksum", UPGRADE_4_TO_5, _backfill_checksums),
)
