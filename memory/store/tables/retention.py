"""What policy forgets: expired rows, which may get more time, and those that a rule names (LIVE-7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from recall_loop.memory.store.encoding.indexing import body_checksum, now_microseconds, to_microseconds
from recall_loop.memory.store.tables.database import AMONG, Conditions, Database
from recall_loop.memory.store.tables.predicate import Predicate
from recall_loop.memory.store.tables.prepared_records import encode_body
from recall_loop.memory.store.tables.versions import MICROSECONDS_PER_DAY
from recall_loop.state.scope import RetentionRule

_EXPIRING = f"""SELECT r.rowid, r.id, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant = ? AND r.id {AMONG} AND r.expires_at > ?"""


def with_rule(predicate: Predicate, rule: RetentionRule, now: int) -> Predicate:
    """Return the predicate for those rows that a rule names too; `now` in microseconds since 1970."""
    named = _selected_by(rule, now)
    where, params = f"{predicate.where} AND {named.sql}", (*predicate.params, *named.params)
    return replace(predicate, where=where, params=params, column_predicate=None)


def _selected_by(rule: RetentionRule, now: int) -> Conditions:
    """Return the conditions of a rule, which has one at least."""
    named = Conditions()
    for column, wanted in (("kind", rule.kinds), ("role", rule.roles)):
        if wanted is not None:
            named.add(f"r.{column} IN ({','.join('?' * len(wanted))})", *map(str, wanted))
    if rule.speech_acts is not None:  # a row without any act matches none of them
        named.add("r.acts != 0 AND r.acts & ~? = 0", sum(act.bit for act in rule.speech_acts))
    if rule.older_than_days is not None:
        named.add("r.created_at < ?", now - int(rule.older_than_days * MICROSECONDS_PER_DAY))
    return named


def count_by_kind(database: Database, predicate: Predicate) -> dict[str, int]:
    """Return how many rows of each kind a predicate allows; kinds without any are left out."""
    query = f"SELECT r.kind, count(*) FROM records r WHERE {predicate.where} GROUP BY r.kind ORDER BY r.kind"
    return dict(database.fetch(query, predicate.params))


def tenants_with_expired(database: Database, moment: int) -> list[str]:
    """Return the tenants that have rows which expired until `moment` (microseconds since 1970)."""
    query = "SELECT DISTINCT tenant FROM records WHERE expires_at IS NOT NULL AND expires_at <= ?"
    return [tenant for (tenant,) in database.fetch(query, (moment,))]


def first_expired_ids(database: Database, tenant: str, moment: int, limit: int) -> list[str]:
    """Return the ids of a tenant's rows that expired until `moment`, at most `limit`."""
    query = "SELECT id FROM records WHERE tenant = ? AND expires_at <= ? LIMIT ?"
    return [record_id for (record_id,) in database.fetch(query, (tenant, moment, limit))]


def tenants_selected_by(database: Database, rule: RetentionRule, now: int) -> list[str]:
    """Return the tenants that have rows which a rule names."""
    named = _selected_by(rule, now)
    query = f"SELECT DISTINCT r.tenant FROM records r WHERE {named.sql}"
    return [tenant for (tenant,) in database.fetch(query, named.params)]


def prolong_records(database: Database, tenant: str, moments: Mapping[str, datetime]) -> int:
    """Move the times at which records expire; see `MemoryStore.prolong`.

    Caches need not hear of it: they ask again when the earliest time that they know has come.
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
