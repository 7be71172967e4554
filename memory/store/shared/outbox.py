"""Rows that Chroma has still to hear of, taken by whichever process is free (HOST-2).

A row that was written or deleted is pending. A process claims some, so that no other takes them meanwhile, sends what
stands there now, and notes them as applied unless they were written again. A claim is of a key: while a record is sent,
nobody sends its deletion, nor a record that was rewritten while its deletion is sent. It ends by itself: what a
process that died had claimed is taken by another.

Each claim has its owner's token. A process that was so slow that others have claimed its rows since acknowledges and
releases nothing of theirs; as what it sent may have come after what they sent, it has these rows sent again.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from recall_loop.memory.store.chroma.chroma_rows import SELECT_ROWS, ChromaRow
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.tables.database import (
    AMONG,
    AMONG_ROWS,
    APPLIED,
    KNOWN_KEYS,
    PENDING,
    Connection,
    Database,
    ids_json,
)

_LOG = logging.getLogger(__name__)
BATCH = 1000
# Longer than any request to Chroma takes to fail. A claim is renewed from one request to the next, so that no row
# is sent by two processes at once, however slow Chroma is.
CLAIM_SECONDS = 90
_KEPT_AFTER_SECONDS = 15
# Microseconds by PostgreSQL's clock, which all processes share.
_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
_SKIP = " FOR UPDATE SKIP LOCKED"
_CLAIM = f"""UPDATE {{table}} SET claimed_until = {_NOW} + ?, claimed_by = ? WHERE {{key}} IN (
  SELECT {{key}} FROM {{table}} WHERE state = {PENDING} AND claimed_until < {_NOW}
  ORDER BY {{key}} LIMIT ?{_SKIP}) RETURNING {{key}}, {{number}}, key"""
_CLAIM_ROWS = _CLAIM.format(table="records", key="rowid", number="revision")
_CLAIM_DELETED = _CLAIM.format(table="tombstones", key="key", number="commit_number")
_ROWS = f"{SELECT_ROWS} WHERE r.rowid {AMONG_ROWS}"
_SENT = f"""UPDATE records SET state = {APPLIED} WHERE rowid =
(SELECT r.rowid FROM records r WHERE r.claimed_by = ? AND r.revision = ? AND r.rowid = ?{_SKIP})"""
_HEARD = f"""UPDATE tombstones SET state = {APPLIED} WHERE key =
(SELECT t.key FROM tombstones t WHERE t.claimed_by = ? AND t.commit_number = ? AND t.key = ?{_SKIP})"""
_HELD = f"SELECT c.key FROM {{table}} c WHERE c.claimed_by = ? AND c.key {AMONG}"
_HELD_RECORDS, _HELD_DELETED = _HELD.format(table="records"), _HELD.format(table="tombstones")
_KEEP = f"UPDATE {{table}} SET claimed_until = {_NOW} + ? WHERE key IN ({_HELD}{_SKIP})"
_KEEP_BOTH = (_KEEP.format(table="records"), _KEEP.format(table="tombstones"))
_UNCLAIM = f"UPDATE {{table}} SET claimed_until = 0, claimed_by = NULL WHERE key IN ({_HELD}{_SKIP})"
_UNCLAIM_RECORDS, _UNCLAIM_DELETED = _UNCLAIM.format(table="records"), _UNCLAIM.format(table="tombstones")
# A claim passes from a record to its deletion and back: a key refers to the record, if it exists.
_LOST = """SELECT k.value FROM json_each(?) k
LEFT JOIN records r ON r.key = k.value LEFT JOIN tombstones t ON t.key = k.value
WHERE CASE WHEN r.key IS NULL THEN t.claimed_by ELSE r.claimed_by END IS DISTINCT FROM ?"""
_AGAIN = tuple(f"UPDATE {table} SET state = {PENDING} WHERE key = ?" for table in ("records", "tombstones"))
_WAITING = f"""SELECT (SELECT count(*) FROM records WHERE state = {PENDING}),
(SELECT count(*) FROM tombstones WHERE state = {PENDING})"""
_OF_TENANT = f"SELECT rowid FROM records WHERE tenant = ? AND state = {PENDING} LIMIT ?"


@dataclass(frozen=True, slots=True)
class ClaimedRows:
    """What one process sends next.

    Attributes:
        rows: rows as they stand, with the revision at which each was claimed or a later one.
        deleted: keys of deleted records, each with the commit that deleted it.
        back: those of them under which a record stands again: nothing is to be deleted.
        keys: the keys of all rows that were claimed; some may have been deleted since.
        owner: token of the claim.
        since: when it was made, by this process's monotonic clock.
    """

    rows: Sequence[ChromaRow]
    deleted: Sequence[tuple[str, int]]
    back: frozenset[str]
    keys: Sequence[str]
    owner: str
    since: float = field(default_factory=time.monotonic, compare=False)

    @property
    def keys_json(self) -> str:
        """All keys that were claimed, as a JSON array."""
        return json.dumps(sorted({*self.keys, *(key for key, _ in self.deleted)}))

    @property
    def gone(self) -> list[str]:
        """Keys that Chroma is to delete."""
        return [key for key, _ in self.deleted if key not in self.back]

    def __bool__(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self.keys or self.deleted)


def claim(database: PostgresDatabase) -> ClaimedRows:
    """Claim up to a thousand rows and as many deletions that are pending."""
    span, owner = CLAIM_SECONDS * 1_000_000, uuid.uuid4().hex
    with database.side_transaction() as connection:
        deleted = connection.execute(_CLAIM_DELETED, (span, owner, BATCH)).fetchall()
        claimed = connection.execute(_CLAIM_ROWS, (span, owner, BATCH)).fetchall()
    rowids = ids_json(rowid for rowid, _, _ in claimed)
    rows = [ChromaRow.from_tables(row) for row in database.fetch(_ROWS, (rowids,))] if claimed else []
    buried = [(key, number) for key, number, _ in deleted]
    back = database.fetch(KNOWN_KEYS, (json.dumps([key for key, _ in buried]),)) if buried else []
    return ClaimedRows(rows, buried, frozenset(key for (key,) in back), [key for _, _, key in claimed], owner)


def keep(database: PostgresDatabase, claimed: ClaimedRows) -> None:
    """Make a claim last as long again, where some time has passed; what others have claimed since stays theirs."""
    if time.monotonic() - claimed.since < _KEPT_AFTER_SECONDS:
        return
    for statement in _KEEP_BOTH:
        with database.side_transaction() as connection:
            connection.execute(statement, (CLAIM_SECONDS * 1_000_000, claimed.owner, claimed.keys_json))


def settle(database: PostgresDatabase, sent: ClaimedRows) -> None:
    """Note what Chroma has; what was written again since stays pending, and so does what somebody is writing now.

    Nothing is waited for, so that no writer, who takes rows in another order, is ever kept from its end.
    """
    with database.side_transaction() as connection:
        rows = sorted((row.rowid, row.revision) for row in sent.rows)
        connection.executemany(_SENT, [(sent.owner, revision, rowid) for rowid, revision in rows])
        connection.executemany(_HEARD, [(sent.owner, number, key) for key, number in sorted(sent.deleted)])
    release(database, sent)


def release(database: PostgresDatabase, claimed: ClaimedRows) -> None:
    """Release claimed keys, whatever stands under them by now, for the next attempt of any process.

    Rows that somebody writes at this moment are waited for one by one, with no other in hand.
    """
    _send_lost_again(database, claimed)
    keys = claimed.keys_json
    for free, held in ((_UNCLAIM_RECORDS, _HELD_RECORDS), (_UNCLAIM_DELETED, _HELD_DELETED)):
        with database.side_transaction() as connection:
            connection.execute(free, (claimed.owner, keys))
        for (key,) in database.fetch(held, (claimed.owner, keys)):
            with database.side_transaction() as connection:
                connection.execute(free.replace(_SKIP, ""), (claimed.owner, json.dumps([key])))


def _send_lost_again(database: PostgresDatabase, claimed: ClaimedRows) -> None:
    """Have what others have claimed since sent again, after them: this process may have sent something older."""
    keys = json.dumps(sorted({*claimed.keys, *claimed.gone}))
    lost = [key for (key,) in database.fetch(_LOST, (keys, claimed.owner))]
    for statement in _AGAIN:
        for key in lost:
            with database.side_transaction() as connection:
                connection.execute(statement, (key,))
    if lost:
        _LOG.warning(
            "%d claims of rows for Chroma had lapsed and passed to others; these rows are sent again", len(lost)
        )


def send_all_again(connection: Connection) -> None:
    """Have all records sent, within a transaction; what is on its way to an earlier collection doesn't count."""
    connection.execute(
        f"UPDATE records SET state = {PENDING}, claimed_until = 0, claimed_by = NULL, revision = revision + 1"
    )


def count_waiting(database: Database) -> tuple[int, int]:
    """Return how many rows and deletions are pending."""
    written, deleted = database.fetch(_WAITING)[0]
    return int(written), int(deleted)


def pending_rowids(database: Database, tenant: str, most: int) -> list[int]:
    """Return up to `most` rows of a tenant that Chroma may not have yet."""
    return [row for (row,) in database.fetch(_OF_TENANT, (tenant, most))]
