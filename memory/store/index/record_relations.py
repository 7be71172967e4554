"""What a scope or a tenant holds, in figures, and how a record is connected: for people who look around (PAGE-1)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from recall_loop.memory.store.encoding.indexing import from_microseconds, now_microseconds
from recall_loop.memory.store.tables.database import AMONG, Database
from recall_loop.memory.store.tables.predicate import Predicate
from recall_loop.memory.store.tables.record_queries import read_by_id
from recall_loop.state.records.records import Fact, Record

MOST_OWNERS, MOST_RELATED = 100, 200
# Expired records are counted separately and subtracted: each statement is answered from an index, without the rows.
_COUNTED = ("kind", "user_id", "agent_id")
_NUMBERS = "SELECT '{column}', r.{column}, {sign}count(*) FROM records r WHERE {where} GROUP BY r.{column}"
_TIMES = "SELECT '{side}', NULL, {side}(r.created_at) FROM records r WHERE {where}"


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """What a scope holds.

    Attributes:
        records: their number, superseded facts among them.
        kinds: number of records of each kind that there is.
        users: number of records of each user, the most first, at most 100 users.
        agents: the same of agents.
        first: the earliest time of a record; None if no record has one.
        last: the latest.
    """

    records: int
    kinds: Mapping[str, int]
    users: Mapping[str, int]
    agents: Mapping[str, int]
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class RecordRelations:
    """Records that a record is connected with, at most 200 of each; what is out of scope or expired is left out.

    Attributes:
        sources: those that it was drawn from.
        derived: facts that were drawn from it.
        supersedes: facts that it has superseded.
        superseded_by: the fact that has superseded it.
        sources_known: number of the records that it was drawn from and that are there, those beyond 200 too.
        sources_gone: number of its sources that are not.
    """

    sources: tuple[Record, ...] = ()
    derived: tuple[Record, ...] = ()
    supersedes: tuple[Record, ...] = ()
    superseded_by: Record | None = None
    sources_known: int = 0
    sources_gone: int = 0


def read_overview(database: Database, predicate: Predicate, moment: int) -> StoreOverview:
    """Return what a predicate allows and hasn't expired at a moment (microseconds since 1970), in figures."""
    current = predicate.unexpired(moment)
    held, expired = predicate.where, f"{predicate.where} AND r.expires_at <= ?"
    statements = [_NUMBERS.format(column=name, where=held, sign="") for name in _COUNTED]
    statements += [_NUMBERS.format(column=name, where=expired, sign="-") for name in _COUNTED]
    statements += [_TIMES.format(side=side, where=current.where) for side in ("min", "max")]
    params = predicate.params * len(_COUNTED) + (*predicate.params, moment) * len(_COUNTED) + current.params * 2
    kinds, users, agents = (Counter[str](), Counter[str](), Counter[str]())
    counts = dict(zip(_COUNTED, (kinds, users, agents), strict=True))
    times: dict[str, int | None] = {}
    for column, name, number in database.fetch(" UNION ALL ".join(statements), params):
        if column not in counts:
            times[column] = number
        elif name is not None:
            counts[column][name] += number
    return StoreOverview(
        records=kinds.total(),
        kinds=dict(sorted((+kinds).items())),
        users=_most(+users),
        agents=_most(+agents),
        first=None if times["min"] is None else from_microseconds(times["min"]),
        last=None if times["max"] is None else from_microseconds(times["max"]),
    )


def read_relations(database: Database, predicate: Predicate, record: Record) -> RecordRelations:
    """Return the records that a record is connected with, as far as a predicate allows them."""
    quoted = json.dumps(record.id, ensure_ascii=False)
    # Records whose JSON doesn't contain the id aren't read; it may be there for another reason.
    named = "instr(b.record, ?) > 0 AND EXISTS (SELECT 1 FROM json_each(b.record, '$.source_ids') WHERE value = ?)"
    drawn = _ids(database, predicate, "JOIN bodies b ON b.rowid = r.rowid", named, quoted, record.id)
    replaced = _ids(database, predicate, "", "r.superseded_by = ?", record.id)
    newer = record.superseded_by if isinstance(record, Fact) else None
    every = list(dict.fromkeys(record.source_ids))
    there = _known(database, predicate, every)
    sources = [one for one in every if one in there][:MOST_RELATED]
    wanted = [*sources, *drawn, *replaced, *([newer] if newer else [])]
    found = read_by_id(database, predicate, list(dict.fromkeys(wanted)))
    return RecordRelations(
        sources=tuple(found[one] for one in sources if one in found),
        derived=tuple(found[one] for one in drawn if one in found),
        supersedes=tuple(found[one] for one in replaced if one in found),
        superseded_by=found.get(newer) if newer else None,
        sources_known=len(there),
        sources_gone=len(every) - len(there),
    )


def _known(database: Database, predicate: Predicate, ids: list[str]) -> set[str]:
    query = f"SELECT r.id FROM records r WHERE {predicate.where} AND r.id {AMONG}"
    return {row[0] for row in database.fetch(query, (*predicate.params, json.dumps(ids)))}


def _most(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_OWNERS])


def _ids(database: Database, predicate: Predicate, join: str, condition: str, *values: str) -> list[str]:
    """Return ids of facts that meet a condition; only facts have sources and are superseded."""
    query = f"""SELECT r.id FROM records r {join} WHERE {predicate.where} AND r.kind = 'fact' AND {condition}
        ORDER BY r.rowid LIMIT {MOST_RELATED}"""
    return [row[0] for row in database.fetch(query, (*predicate.params, *values))]


_SIZES = """SELECT r.tenant, count(*), sum(CASE WHEN r.expires_at <= ? THEN 1 ELSE 0 END),
    sum(length({bytes}) + length(v.own) + length(v.context)
    + coalesce(length(t.vectors), 0) + coalesce(length(p.vectors), 0))
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
LEFT JOIN tokens t ON t.rowid = r.rowid LEFT JOIN pieces p ON p.rowid = r.rowid
GROUP BY r.tenant ORDER BY r.tenant"""


@dataclass(frozen=True, slots=True)
class TenantSize:
    """A tenant that has records.

    Attributes:
        tenant: its name.
        records: how many records can be read, as `MemoryStore.count` says.
        bytes: of all its records as JSON, expired ones too, and of their vectors. Indexes, versions and Chroma's copy
            come on top.
        expired: how many more have expired, and stand there until a sweep erases them.
    """

    tenant: str
    records: int
    bytes: int
    expired: int


def tenant_sizes(database: Database) -> list[TenantSize]:
    """Return every tenant that has records, by name; reads the text of all records."""
    rows = database.fetch(_SIZES.format(bytes=database.dialect.record_bytes), (now_microseconds(),))
    return [
        TenantSize(tenant, int(every) - int(expired), int(size), int(expired)) for tenant, every, expired, size in rows
    ]
