"""Bringing a SQLite file of an earlier schema to this one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from recall_loop.memory.store.encoding.indexing import acts_mask, body_checksum, supersession_key_of
from recall_loop.memory.store.sqlite.sqlite_schema import (
    UPGRADE_1_TO_2,
    UPGRADE_2_TO_3,
    UPGRADE_3_TO_4,
    UPGRADE_4_TO_5,
    UPGRADE_5_TO_6,
)
from recall_loop.memory.store.tables.database import SCHEMA_VERSION

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Connection, Database

# Schemas that are upgraded when the store is opened for writing.
UPGRADABLE_SCHEMAS = ("1", "2", "3", "4", "5")


def upgrade_schema(database: Database) -> None:
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


# Each upgrade by a column that only stores without it lack, and what works its values out.
_UPGRADES: tuple[tuple[str, Sequence[str], Callable[[Connection], None]], ...] = (
    ("changed", UPGRADE_1_TO_2, lambda _: None),
    ("slot", UPGRADE_2_TO_3, _backfill_supersession_keys),
    ("expires_at", UPGRADE_3_TO_4, _backfill_speech_acts),
    ("checksum", UPGRADE_4_TO_5, _backfill_checksums),
)
