"""Tables of the SQLite sidecar, and the steps that bring a file of an earlier schema to this one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from recall_loop.memory.store.encoding.indexing import acts_mask, body_checksum, supersession_key_of
from recall_loop.memory.store.tables.database import Connection
from recall_loop.memory.store.tables.upgrades import Upgrade, note_recalls_since

# records: columns for predicates and ordering, so that a scan reads short rows only.
# bodies: the record itself (JSON), its own stems, and the text of its window.
# fts.window: the window's stems, encoded; fts.facets: the row's speaker, conversation and other facets.
# tokens: token vectors of the record's own text, if the embedder provides them; can be recomputed at any time.
# pieces: vectors of the pieces of a long record, float16, concatenated; can be recomputed at any time, too.
# records.commit_number: number of the commit that last wrote the record itself; `meta` has the last one.
# Chroma has these numbers too, so that each side knows when the other is older (GUARD-1).
# records.checksum: of the record's JSON in `bodies` (GUARD-6).
# tombstones: keys of deleted records, and the commit that deleted each; state 1 = not yet deleted in Chroma. They
# are kept forever: anything that an older copy of either side brings back is deleted again.
# records.valid_until, superseded_by, slot: for facts; facts in one slot make statements about the same thing.
# records.expires_at: time from which a record is forgotten, in microseconds since 1970.
# records.acts: bit mask of the speech acts of its sentences.
# records.changed: the tenant's version at which the row, its window or its vectors last changed.
# recalls: how often a record was recalled, and when last; written a few seconds late (`write/recall_counts.py`).
# deleted: numbers of rows deleted after the tenant's version `horizon`; earlier deletions aren't known.
# versions: changes of existing records, numbered per record from 1; both bodies are JSON. The versions of a record
# are erased with it, as is each version of another fact that names it as its successor (`forget_successors`).
_DELETE_TRIGGER = """CREATE TRIGGER leaves AFTER DELETE ON records
BEGIN
  UPDATE memberships SET records = records - 1
    WHERE tenant = old.tenant AND agent_id = old.agent_id AND group_id = old.group_id;
  DELETE FROM memberships WHERE tenant = old.tenant AND agent_id = old.agent_id
    AND group_id = old.group_id AND records <= 0;
  DELETE FROM bodies WHERE rowid = old.rowid;
  DELETE FROM vectors WHERE rowid = old.rowid;
  DELETE FROM tokens WHERE rowid = old.rowid;
  DELETE FROM pieces WHERE rowid = old.rowid;
  DELETE FROM recalls WHERE rowid = old.rowid;
  DELETE FROM record_tags WHERE record = old.rowid;
  DELETE FROM fts WHERE rowid = old.rowid;
  DELETE FROM versions WHERE tenant = old.tenant AND id = old.id;
END;
"""

_VERSIONS = (
    """CREATE TABLE versions (
  rowid INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, changed_at INTEGER NOT NULL,
  actor TEXT, action TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
  UNIQUE (tenant, id, number)
)""",
    "CREATE INDEX versions_time ON versions (changed_at)",
    *(
        f"""CREATE INDEX versions_{side} ON versions (tenant, json_extract({side}, '$.superseded_by'))
  WHERE json_extract({side}, '$.superseded_by') IS NOT NULL"""
        for side in ("before", "after")
    ),
)
_RECALLS = """CREATE TABLE IF NOT EXISTS recalls (
  rowid INTEGER PRIMARY KEY, times INTEGER NOT NULL, last_at INTEGER NOT NULL
)"""
_EXPIRY = "CREATE INDEX records_expiry ON records (tenant, expires_at) WHERE expires_at IS NOT NULL"

DDL = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tenants (
  tenant TEXT PRIMARY KEY, version INTEGER NOT NULL, horizon INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE records (
  rowid INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
  agent_id TEXT, group_id TEXT, user_id TEXT, conversation_id TEXT, session TEXT,
  position INTEGER, role TEXT, label TEXT, fact_type TEXT, created_at INTEGER,
  place TEXT NOT NULL, thread TEXT, order_key TEXT NOT NULL,
  valid_until INTEGER, superseded_by TEXT, slot TEXT,
  terms INTEGER NOT NULL DEFAULT 0, window_terms INTEGER NOT NULL DEFAULT 0,
  revision INTEGER NOT NULL DEFAULT 1, state INTEGER NOT NULL DEFAULT 1,
  changed INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER, acts INTEGER NOT NULL DEFAULT 0,
  commit_number INTEGER NOT NULL DEFAULT 0, checksum INTEGER,
  UNIQUE (tenant, id)
);
CREATE INDEX records_tenant ON records (tenant);
CREATE INDEX records_kind ON records (tenant, kind);
CREATE INDEX records_agent ON records (tenant, agent_id);
CREATE INDEX records_group ON records (tenant, group_id);
CREATE INDEX records_user ON records (tenant, user_id);
CREATE INDEX records_conversation ON records (tenant, conversation_id);
CREATE INDEX records_time ON records (tenant, created_at);
CREATE INDEX records_thread ON records (thread, order_key) WHERE thread IS NOT NULL;
CREATE INDEX records_pending ON records (state) WHERE state = 1;
CREATE INDEX records_changed ON records (tenant, changed);
CREATE INDEX records_slot ON records (tenant, slot) WHERE slot IS NOT NULL;
CREATE INDEX records_superseded ON records (tenant, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE bodies (
  rowid INTEGER PRIMARY KEY, record TEXT NOT NULL, terms TEXT NOT NULL, window TEXT NOT NULL
);
CREATE TABLE vectors (rowid INTEGER PRIMARY KEY, own BLOB NOT NULL, context BLOB NOT NULL);
CREATE TABLE tokens (rowid INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE pieces (rowid INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE record_tags (
  record INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (tag, record)
) WITHOUT ROWID;
CREATE INDEX record_tags_row ON record_tags (record);
CREATE TABLE memberships (
  tenant TEXT NOT NULL, agent_id TEXT NOT NULL, group_id TEXT NOT NULL, records INTEGER NOT NULL,
  PRIMARY KEY (tenant, agent_id, group_id)
) WITHOUT ROWID;
CREATE INDEX memberships_group ON memberships (tenant, group_id, agent_id);
CREATE TABLE tombstones (
  key TEXT PRIMARY KEY, commit_number INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX tombstones_pending ON tombstones (state) WHERE state = 1;
CREATE TABLE deleted (
  tenant TEXT NOT NULL, version INTEGER NOT NULL, rowid INTEGER NOT NULL, PRIMARY KEY (tenant, version, rowid)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(facets, window, tokenize = 'unicode61 remove_diacritics 0');
CREATE TRIGGER joins AFTER INSERT ON records WHEN new.agent_id IS NOT NULL AND new.group_id IS NOT NULL
BEGIN
  INSERT INTO memberships VALUES (new.tenant, new.agent_id, new.group_id, 1)
    ON CONFLICT DO UPDATE SET records = records + 1;
END;
CREATE TRIGGER moves AFTER UPDATE OF agent_id, group_id ON records
WHEN old.agent_id IS NOT new.agent_id OR old.group_id IS NOT new.group_id
BEGIN
  UPDATE memberships SET records = records - 1
    WHERE tenant = old.tenant AND agent_id = old.agent_id AND group_id = old.group_id;
  DELETE FROM memberships WHERE tenant = old.tenant AND agent_id = old.agent_id
    AND group_id = old.group_id AND records <= 0;
  INSERT INTO memberships SELECT new.tenant, new.agent_id, new.group_id, 1
    WHERE new.agent_id IS NOT NULL AND new.group_id IS NOT NULL
    ON CONFLICT DO UPDATE SET records = records + 1;
END;
"""
    + "".join(f"{statement};\n" for statement in (_EXPIRY, _RECALLS, *_VERSIONS))
    + _DELETE_TRIGGER
)

# Created while everything is embedded again, and dropped afterwards: new embeddings, next to the old vectors.
# target: the embedder; checksum: of the embedded record; the rest as in `records`, `vectors`, `tokens`, `pieces`.
STAGING = (
    """CREATE TABLE reembedded (
  rowid INTEGER PRIMARY KEY, target TEXT NOT NULL, checksum INTEGER NOT NULL,
  own BLOB NOT NULL, tokens BLOB, pieces BLOB NOT NULL
)""",
)

# Earlier changes are unknown, hence the horizon.
_1_TO_2 = (
    "ALTER TABLE records ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS records_tenant ON records (tenant)",
    "CREATE INDEX records_changed ON records (tenant, changed)",
    """CREATE TABLE deleted (
  tenant TEXT NOT NULL, version INTEGER NOT NULL, rowid INTEGER NOT NULL, PRIMARY KEY (tenant, version, rowid)
) WITHOUT ROWID""",
    "ALTER TABLE tenants ADD COLUMN horizon INTEGER NOT NULL DEFAULT 0",
    "UPDATE tenants SET horizon = version",
    "CREATE TABLE IF NOT EXISTS tokens (rowid INTEGER PRIMARY KEY, vectors BLOB NOT NULL)",
    "DROP TRIGGER leaves",
    _DELETE_TRIGGER,
)

# Facts had no end before; their slots are derived from the records.
_2_TO_3 = (
    "ALTER TABLE records ADD COLUMN valid_until INTEGER",
    "ALTER TABLE records ADD COLUMN superseded_by TEXT",
    "ALTER TABLE records ADD COLUMN slot TEXT",
    "CREATE INDEX records_slot ON records (tenant, slot) WHERE slot IS NOT NULL",
    "CREATE INDEX records_superseded ON records (tenant, superseded_by) WHERE superseded_by IS NOT NULL",
)

# Speech acts are derived from the records.
_3_TO_4 = (
    "ALTER TABLE records ADD COLUMN expires_at INTEGER",
    "ALTER TABLE records ADD COLUMN acts INTEGER NOT NULL DEFAULT 0",
    _EXPIRY,
    *_VERSIONS,
    "DROP TRIGGER leaves",
    _DELETE_TRIGGER,
)

# Of earlier deletions, only those not yet sent to Chroma are known. Checksums are computed.
_4_TO_5 = (
    "ALTER TABLE records ADD COLUMN commit_number INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE records ADD COLUMN checksum INTEGER",
    "ALTER TABLE tombstones ADD COLUMN commit_number INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tombstones ADD COLUMN state INTEGER NOT NULL DEFAULT 1",
    "CREATE INDEX tombstones_pending ON tombstones (state) WHERE state = 1",
    "DELETE FROM tombstones WHERE key IN (SELECT key FROM records)",
)

# Long records from before have one vector until they are written or embedded again. Earlier stores had no id: the
# generation of both sides replaces it.
_5_TO_6 = (
    "CREATE TABLE IF NOT EXISTS pieces (rowid INTEGER PRIMARY KEY, vectors BLOB NOT NULL)",
    "DROP TRIGGER leaves",
    _DELETE_TRIGGER,
    "INSERT OR IGNORE INTO meta SELECT 'store', value FROM meta WHERE key = 'generation'",
)

# Earlier versions counted no recalls.
_6_TO_7 = (_RECALLS, "DROP TRIGGER leaves", _DELETE_TRIGGER)


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
    1: _adding("changed", _1_TO_2),
    2: _adding("slot", _2_TO_3, _backfill_supersession_keys),
    3: _adding("expires_at", _3_TO_4, _backfill_speech_acts),
    4: _adding("checksum", _4_TO_5, _backfill_checksums),
    5: _running(_5_TO_6),
    6: _running(_6_TO_7, note_recalls_since),
}
