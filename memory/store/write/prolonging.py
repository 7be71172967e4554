"""Later times for records to expire at: no text, no vector and no version is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from recall_loop.memory.store.encoding.indexing import body_checksum, now_microseconds, to_microseconds
from recall_loop.memory.store.tables.database import AMONG
from recall_loop.memory.store.tables.prepared_records import encode_body

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Database

_EXPIRING = f"""SELECT r.rowid, r.id, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.id {AMONG} AND r.expires_at > ?"""


def prolong_records(database: Database, tenant: str, moments: Mapping[str, datetime]) -> int:
    """Move the times at which records expire; see `MemoryStore.prolong`.

    Caches need not hear of it: they ask again when the earliest time that they know has come.

    Raises:
        StoreUnavailableError: SQLite fails; nothing was written.
    """
    prolonged = 0
    with database.transaction() as connection:
        params = (tenant, json.dumps(list(moments)), now_microseconds())
        for rowid, record_id, body in connection.execute(_EXPIRING, params).fetchall():
            record, moment = json.loads(body), moments[record_id]
            if datetime.fromisoformat(record["expires_at"]) < moment:
                record["expires_at"] = moment.isoformat().replace("+00:00", "Z")
                new = encode_body(record)
                connection.execute("UPDATE bodies SET record = ? WHERE rowid = ?", (new, rowid))
                values = (to_microseconds(moment), body_checksum(new), rowid)
                connection.execute("UPDATE records SET expires_at = ?, checksum = ? WHERE rowid = ?", values)
                prolonged += 1
    return prolonged
