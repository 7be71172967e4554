"""Versions: what a record was before each change, and after it (API-3)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from recall_loop.memory.store.encoding.indexing import from_microseconds, now_microseconds
from recall_loop.memory.store.tables.database import AMONG, Connection, Database
from recall_loop.memory.store.tables.predicate import UNEXPIRED
from recall_loop.memory.store.tables.prepared_records import ChangeOrigin
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import RECORD_ADAPTER, Record, RecordVersion
from recall_loop.state.scope import Scope
from recall_loop.state.types import ScopeMode

# The versions of a record that is written constantly would outgrow the store.
KEPT_VERSIONS = 1_000
DEFAULT_HISTORY_DAYS = 30
MAX_HISTORY_DAYS = 36_500
MICROSECONDS_PER_DAY = 86_400_000_000

_INSERT = """INSERT INTO versions (tenant, id, number, changed_at, actor, action, before, after)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_LAST = f"""SELECT id, max(number) FROM versions
WHERE tenant = ? AND id {AMONG} GROUP BY id"""
_VERSIONS = f"""SELECT v.number, v.changed_at, v.actor, v.action, v.before, v.after
FROM versions v JOIN records r ON r.tenant = v.tenant AND r.id = v.id
WHERE v.tenant = ? AND v.id = ? AND v.changed_at >= ? AND {UNEXPIRED} ORDER BY v.number"""
_OUTNUMBERED = "DELETE FROM versions WHERE tenant = ? AND id = ? AND number <= ?"
_NAMED = f"json_extract({{side}}, '$.superseded_by') {AMONG}"
_TENANT = attrgetter("tenant")
_OWNERS = ("agent_id", "user_id", "conversation_id")
_FORGET = "DELETE FROM versions WHERE tenant = ? AND "


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One change of a record: its bodies before and after."""

    tenant: str
    id: str
    before: str
    after: str
    origin: ChangeOrigin


def check_history_days(given: object) -> int | None:
    """Return for how many days versions are kept; 0 and None for none.

    Raises:
        InvalidInputError: it is no whole number from 0 to 36,500, nor None.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_HISTORY_DAYS:
        raise InvalidInputError("history_days", given, f"a whole number from 0 to {MAX_HISTORY_DAYS:,}, or None")
    return given


def record_versions(connection: Connection, changes: Iterable[RecordChange]) -> None:
    """Note changes, in their order, within the transaction that makes them; each record keeps its newest 1,000."""
    now = now_microseconds()
    for tenant, of_tenant in groupby(sorted(changes, key=_TENANT), _TENANT):
        part = list(of_tenant)
        ids = json.dumps(list({change.id for change in part}))
        last: dict[str, int] = dict(connection.execute(_LAST, (tenant, ids)))
        rows = []
        for change in part:
            number = last[change.id] = last.get(change.id, 0) + 1
            origin = change.origin
            action = "superseded" if _is_end(change) else origin.action
            rows.append((tenant, change.id, number, now, origin.actor, action, change.before, change.after))
        connection.executemany(_INSERT, rows)
        many = [(tenant, record, number - KEPT_VERSIONS) for record, number in last.items() if number > KEPT_VERSIONS]
        connection.executemany(_OUTNUMBERED, many)


def _is_end(change: RecordChange) -> bool:
    """Return whether a fact got a successor by the change."""
    before, after = (json.loads(body).get("superseded_by") for body in (change.before, change.after))
    return after is not None and before != after


def tenants_with_old_versions(database: Database, days: int | None, now: int) -> list[str]:
    """Return the tenants that have versions older than so many days; None = no age is too old."""
    if days is None:
        return []
    query = "SELECT DISTINCT tenant FROM versions WHERE changed_at < ? ORDER BY tenant"
    return [tenant for (tenant,) in database.fetch(query, (now - days * MICROSECONDS_PER_DAY,))]


def sweep_versions(database: Database, tenant: str, days: int, now: int) -> int:
    """Delete a tenant's versions that are older than so many days; return how many."""
    old = (tenant, now - days * MICROSECONDS_PER_DAY)
    with database.transaction() as connection:
        return connection.execute("DELETE FROM versions WHERE tenant = ? AND changed_at < ?", old).rowcount


def read_versions(database: Database, scope: Scope, record_id: str, days: int | None) -> list[RecordVersion]:
    """Return the versions of a record, oldest first; none older than so many days, None = of any age.

    None for a record that has expired, nor from when it had an owner outside the scope.
    """
    now = now_microseconds()
    since = 0 if days is None else now - days * MICROSECONDS_PER_DAY
    rows = database.fetch(_VERSIONS, (scope.tenant, record_id, since, now))
    found = [
        RecordVersion(
            number=number,
            changed_at=from_microseconds(changed_at),
            actor=actor,
            action=action,
            before=RECORD_ADAPTER.validate_json(before),
            after=RECORD_ADAPTER.validate_json(after),
        )
        for number, changed_at, actor, action, before, after in rows
    ]
    owners = _owners(scope)
    return [one for one in found if _is_owned(one.before, owners) and _is_owned(one.after, owners)]


def _owners(scope: Scope) -> dict[str, str]:
    """Return the owners that a scope names; a constellation has records of other agents too."""
    names = ("user_id", "conversation_id") if scope.mode is ScopeMode.CONSTELLATION else _OWNERS
    return {name: value for name in names if (value := getattr(scope, name)) is not None}


def _is_owned(record: Record, owners: Mapping[str, str]) -> bool:
    return all(getattr(record, name) == value for name, value in owners.items())


def forget_versions(connection: Connection, records: Iterable[tuple[str, str]]) -> None:
    """Delete the versions of records, each given by tenant and id, within a transaction."""
    connection.executemany("DELETE FROM versions WHERE tenant = ? AND id = ?", records)


def forget_successors(connection: Connection, tenant: str, ids: Collection[str]) -> None:
    """Delete the versions of other facts that name one of `ids` as their successor, within a transaction."""
    wanted = json.dumps(list(ids))
    for side in ("before", "after"):
        connection.execute(_FORGET + _NAMED.format(side=side), (tenant, wanted))


def forget_owned(connection: Connection, scope: Scope) -> None:
    """Delete the versions from when records that now have another owner were in the scope, within a transaction."""
    owners = _owners(scope)
    for side in ("before", "after") if owners else ():
        owned = " AND ".join(f"json_extract({side}, '$.{name}') = ?" for name in owners)
        connection.execute(_FORGET + owned, (scope.tenant, *owners.values()))
