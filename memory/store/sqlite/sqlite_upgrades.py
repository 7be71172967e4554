"""The steps that bring a SQLite file of an earlier schema to this one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from recall_loop.memory.store.encoding.indexing import acts_mask, body_checksum, supersession_key_of
from recall_loop.memory.store.sqlite.sqlite_schema import (
    UPGRADE_1_TO_2,
    UPGRADE_2_TO_3,
    UPGRADE_3_TO_4,
    UPGRADE_4_TO_5,
    UPGRADE_5_TO_6,
    UPGRADE_6_TO_7,
)
from recall_loop.memory.store.tables.database import Connection
from recall_loop.memory.store.tables.upgrades import Upgrade, note_recalls_since


def _backfill_supersession_keys(connection: Connection) -> None:
    query = "SELECT b.record, r.rowid FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.kind = 'fact'"
    slots = [(supersession_key_of(json.loads(body)), rowid) for body, rowid in connection.execute(query)]
    connection.executemany("UPDATE records SET slot = ? WHERE rowid = ?", slots)


def _backfill_speech_acts(connection: Connection) -> None:
    acts = [
        (acts_mask(json.loads(body)), rowid) for rowid, body in connection.execute("SELECT rowid, record FROM bodies")
    ]
    connection.executemany("UPDATE records SET acts = ? WHERE rowid = ?", [pair for pair in acts if pair[0]])


def _backfill_checksums(connection: Connection) -> None:
    sums = [(body_checksum(body), rowid) for rowid, body in connection.execute("SELECT rowid, record FROM bodies")]
    connection.executemany("UPDATE records SET checksum = ? WHERE rowid = ?", sums)
    numbered = "UPDATE tombstones SET commit_number = ?"
    if connection.execute("SELECT 1 FROM tombstones LIMIT 1").fetchone():
        connection.execute(numbered, (connection.next_commit(),))


def _adding(column: str, statements: Sequence[str], backfill: Upgrade = lambda _: None) -> Upgrade:
    """Return a step for tables that lack a column: a sidecar that was rebuilt from Chroma's side has it already."""

    def upgrade(connection: Connection) -> None:
        if all(row[1] != column for row in connection.execute("PRAGMA table_info(records)")):
            _running(statements, backfill)(connection)

    return upgrade


def _running(statements: Sequence[str], backfill: Upgrade = lambda _: None) -> Upgrade:
    def upgrade(connection: Connection) -> None:
        for statement in statements:
            connection.execute(statement)
        backfill(connection)

    return upgrade


# By the schema that each upgrades from.
UPGRADES: Mapping[int, Upgrade] = {
    1: _adding("changed", UPGRADE_1_TO_2),
    2: _adding("slot", UPGRADE_2_TO_3, _backfill_supersession_keys),
    3: _adding("expires_at", UPGRADE_3_TO_4, _backfill_speech_acts),
    4: _adding("checksum", UPGRADE_4_TO_5, _backfill_checksums),
    5: _running(UPGRADE_5_TO_6),
    6: _running(UPGRADE_6_TO_7, note_recalls_since),
}
