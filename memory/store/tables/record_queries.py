"""Records read by predicate: rows, pages, counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recall_loop.memory.store.encoding.indexing import now_microseconds, position_after, session_key_of
from recall_loop.memory.store.tables.database import AMONG, AMONG_ROWS, Connection, Database, ids_json
from recall_loop.memory.store.tables.predicate import UNEXPIRED, Predicate, compile_predicate
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import RECORD_ADAPTER, Fact, Record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, SpeechAct

PAGE_RECORDS = 500
_PAGE_CHARACTERS = 16 * 1024 * 1024
_RECORDS = "FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE"
_BODY = "SELECT b.rowid, b.record, r.checksum FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.rowid = ?"
# All facts that some facts superseded, directly or through others.
SUPERSEDED_SOURCES = f"""WITH RECURSIVE chain (root, id, number) AS (
  SELECT r.superseded_by, r.id, r.rowid FROM records r
    WHERE {{where}} AND r.superseded_by {AMONG}
  UNION SELECT c.root, r.id, r.rowid FROM chain c JOIN records r ON r.tenant = ? AND r.superseded_by = c.id
    WHERE {{where}}
)
SELECT s.value, c.root, json_extract(b.record, '$.valid_until')
FROM chain c JOIN bodies b ON b.rowid = c.number, json_each(b.record, '$.source_ids') s ORDER BY 3"""

_LINKS = f"""SELECT r.rowid,
 (SELECT {{before}} FROM records p WHERE p.thread = r.thread {{skipped}}
   AND (p.order_key, p.rowid) < (r.order_key, r.rowid) ORDER BY p.order_key DESC, p.rowid DESC LIMIT 1),
 (SELECT {{after}} FROM records n WHERE n.thread = r.thread
   AND (n.order_key, n.rowid) > (r.order_key, r.rowid) ORDER BY n.order_key, n.rowid LIMIT 1)
FROM records r WHERE r.rowid {AMONG_ROWS} AND r.thread IS NOT NULL"""
_NEIGHBOURS = _LINKS.format(before="p.rowid", after="n.rowid", skipped="")
# A refusal states nothing, and the turn before it may be answered by a later turn: "When does the loan end?", "I don't
# know", "In May, says the bank" (LIVE-2).
_REFUSES = f"{{}}.acts = {SpeechAct.NON_ANSWER.bit}"
_BEHIND_REFUSALS = f"""SELECT (SELECT n.rowid FROM records n WHERE n.thread = r.thread AND NOT {_REFUSES.format("n")}
   AND (n.order_key, n.rowid) > (r.order_key, r.rowid) ORDER BY n.order_key, n.rowid LIMIT 1)
FROM records r WHERE r.rowid {AMONG_ROWS} AND r.thread IS NOT NULL"""
# A turn that states nothing is not context for the turn before it: a question would make anything said before it
# look like its answer. A question or request is context for the next turn, which may be the reply (LIVE-2).
_STATES = f"({{0}}.acts = 0 OR {{0}}.acts & {SpeechAct.STATEMENT.bit} != 0)"
_ASKS = f"p.acts & {SpeechAct.QUESTION.bit | SpeechAct.REQUEST.bit} != 0"
# Otherwise, the window of a remaining turn would still contain expired text (LIVE-7). Turns written one after
# another also expire one after another: up to a day apart counts as the same time.
_EXPIRY_SLACK = 86_400_000_000
_STAYS = f"({{0}}.expires_at IS NULL OR {{0}}.expires_at >= r.expires_at - {_EXPIRY_SLACK})"
_CONTEXT = _LINKS.format(
    before=f"CASE WHEN ({_STATES.format('p')} OR {_ASKS}) AND {_STAYS.format('p')} THEN p.rowid END",
    after=f"CASE WHEN {_STATES.format('n')} AND {_STAYS.format('n')} THEN n.rowid END",
    skipped=f"AND NOT {_REFUSES.format('p')}",
)
ThreadLinks = dict[int, tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some of many records: of `MemoryStore.page` by ascending id, of `newest` newest first.

    Attributes:
        records: the records.
        after: where the next page begins, for the `after` of the next call; None at the end.
    """

    records: tuple[Record, ...]
    after: str | None

    def __iter__(self) -> Iterator[Record]:
        """Yield the records of this page."""
        return iter(self.records)

    def __len__(self) -> int:
        """Return how many records the page has."""
        return len(self.records)


def read_page(database: Database, predicate: Predicate, after: str, limit: int) -> RecordPage:
    """Return the next page of the records that a predicate allows; see `MemoryStore.page`."""
    query = f"SELECT r.rowid, r.id FROM records r WHERE {predicate.where} AND r.id > ? ORDER BY r.id LIMIT ?"
    return _read_page(database, query, (*predicate.params, after), limit, lambda rowid, record_id: record_id)


def _read_page(
    database: Database, query: str, params: Sequence[Any], limit: int, place_of: Callable[[int, Any], str]
) -> RecordPage:
    """Return a page of the rows of `query`; `place_of` makes of a row what the next page begins after.

    Bodies stay out of the statement that sorts: of a filtered scope SQLite may have to sort every row.
    """
    records: list[Record] = []
    characters = 0
    with database.reading() as connection:
        rows = connection.execute(query, (*params, limit + 1)).fetchall()
        for number, row in enumerate(rows[:limit], start=1):
            found = connection.execute(_BODY, row[:1]).fetchone()
            if found is None:  # deleted since
                continue
            records.append(_record(database, *found))
            characters += len(found[1])
            if characters >= _PAGE_CHARACTERS and number < len(rows):
                return RecordPage(tuple(records), place_of(*row))
    return RecordPage(tuple(records), place_of(*rows[limit - 1]) if len(rows) > limit else None)


_NEWEST_FIRST = "ORDER BY r.created_at IS NULL, r.created_at DESC, r.rowid DESC LIMIT ?"
_OLDER = "(r.created_at < ? OR (r.created_at = ? AND r.rowid < ?) OR r.created_at IS NULL)"
_NO_TIME = "(r.created_at IS NULL AND r.rowid < ?)"
_PLACE = re.compile(r"(-?[0-9]{1,18}|):([0-9]{1,18})")


def read_newest(database: Database, predicate: Predicate, after: str, limit: int) -> RecordPage:
    """Return the next page of the records that a predicate allows, newest first; see `MemoryStore.newest`."""
    rest, place = _place_after(after)
    query = f"SELECT r.rowid, r.created_at FROM records r WHERE {predicate.where} AND {rest} {_NEWEST_FIRST}"
    return _read_page(database, query, (*predicate.params, *place), limit, _place_of)


def _place_of(rowid: int, created: int | None) -> str:
    return f"{'' if created is None else created}:{rowid}"


def _place_after(after: object) -> tuple[str, tuple[int, ...]]:
    """Return the condition for what follows a record on pages that begin with the newest, and its parameters."""
    if after == "":
        return "1 = 1", ()
    found = _PLACE.fullmatch(after) if isinstance(after, str) else None
    if found is None:
        raise InvalidInputError("after", after, "`after` of the previous page")
    rowid = int(found[2])
    return (_OLDER, (int(found[1]), int(found[1]), rowid)) if found[1] else (_NO_TIME, (rowid,))


def read_by_id(database: Database, predicate: Predicate, ids: Sequence[str]) -> dict[str, Record]:
    """Return the records with these ids that a predicate allows."""
    wanted = f"r.id {AMONG}"
    query = f"SELECT r.id, r.rowid, b.record, r.checksum {_RECORDS} {predicate.where} AND {wanted}"
    with database.reading() as connection:
        rows = connection.execute(query, (*predicate.params, json.dumps(ids)))
        return {record_id: _record(database, *row) for record_id, *row in rows}


def _record(database: Database, rowid: int, body: str, checksum: int | None) -> Record:
    return RECORD_ADAPTER.validate_json(database.sound_body(rowid, body, checksum))


def iterate_records(database: Database, predicate: Predicate) -> Iterator[Record]:
    """Yield the records that a predicate allows, in the order in which they were first written."""
    query = (
        f"SELECT r.rowid, b.record, r.checksum {_RECORDS} {predicate.where} AND r.rowid > ? ORDER BY r.rowid LIMIT ?"
    )
    last = 0
    while True:
        with database.reading() as connection:
            page = connection.execute(query, (*predicate.params, last, PAGE_RECORDS)).fetchall()
            records = [_record(database, *row) for row in page]
        yield from records
        last = page[-1][0] if page else last
        if len(page) < PAGE_RECORDS:
            return


def count_matching(database: Database, predicate: Predicate) -> int:
    """Return how many records a predicate allows."""
    return int(database.fetch(f"SELECT count(*) FROM records r WHERE {predicate.where}", predicate.params)[0][0])


def first_ids(database: Database, predicate: Predicate, limit: int) -> list[str]:
    """Return the ids of the records that a predicate allows, oldest first, at most `limit`."""
    query = f"SELECT r.id FROM records r WHERE {predicate.where} ORDER BY r.rowid LIMIT ?"
    return [row[0] for row in database.fetch(query, (*predicate.params, limit))]


def expired_ids(database: Database, predicate: Predicate) -> list[str]:
    """Return the ids of the records that a predicate allows and that have expired."""
    query = f"SELECT r.id FROM records r WHERE {predicate.where} AND r.expires_at <= ? ORDER BY r.rowid"
    return [row[0] for row in database.fetch(query, (*predicate.params, now_microseconds()))]


def list_tenants(database: Database) -> list[str]:
    """Return the tenants that have records, sorted."""
    return [row[0] for row in database.fetch("SELECT DISTINCT tenant FROM records ORDER BY tenant")]


def next_position(database: Database, scope: Scope, session: str | None) -> int | None:
    """Return the position after the last message of a session; see `MemoryStore.next_position`."""
    thread = session_key_of(scope.tenant, {**scope.model_dump(), "session": session})
    if database.fetch("SELECT 1 FROM records WHERE thread = ? AND position IS NULL LIMIT 1", (thread,)):
        return None
    predicate = compile_predicate(scope, Filters(session=session), [ContentType.MESSAGE])
    query = f"SELECT coalesce(max(r.position), -1) FROM records r WHERE {predicate.where}"
    return position_after(int(database.fetch(query, predicate.params)[0][0]))


def distinct_attribute(database: Database, predicate: Predicate, path: str) -> list[Any]:
    """Return the distinct values of an attribute; see `MemoryStore.distinct_attribute`."""
    value, names = database.dialect.json_of_attribute(path)
    found = database.fetch(f"SELECT DISTINCT {value} {_RECORDS} {predicate.where}", predicate.params)
    values = [json.loads(text) for (text,) in found if text]
    for name in names:
        values = [one[name] for one in values if isinstance(one, dict) and name in one]
    distinct = {json.dumps(one, sort_keys=True): one for one in values}
    return [distinct[text] for text in sorted(distinct)]


def facts_by_key(database: Database, tenant: str, keys: Iterable[str]) -> dict[str, list[Fact]]:
    """Return all facts that haven't expired with the given supersession keys; see `MemoryStore.facts_by_key`."""
    query = f"""SELECT r.slot, r.rowid, b.record, r.checksum {_RECORDS} r.tenant = ?
        AND r.slot IN (SELECT value FROM json_each(?)) AND {UNEXPIRED} ORDER BY r.rowid"""
    found: dict[str, list[Fact]] = {}
    with database.reading() as connection:
        for key, *row in connection.execute(query, (tenant, json.dumps(list(keys)), now_microseconds())):
            record = _record(database, *row)
            if isinstance(record, Fact):
                found.setdefault(key, []).append(record)
    return found


def superseded_sources(database: Database, scope: Scope, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the sources of superseded facts; see `MemoryStore.superseded_sources`."""
    predicate = compile_predicate(scope)
    query = SUPERSEDED_SOURCES.format(where=predicate.where)
    params = (*predicate.params, json.dumps(list(ids)), predicate.tenant, *predicate.params)
    return {source: (by, until) for source, by, until in database.fetch(query, params)}


def window_neighbours(connection: Connection, rowids: Iterable[int]) -> set[int]:
    """Return the rows in whose windows some messages may stand: those beside them, and those behind refusals."""
    among = ids_json(rowids)
    found = connection.execute(_NEIGHBOURS, (among,)).fetchall()
    beside = neighbour_rowids({rowid: (before, after) for rowid, before, after in found})
    return beside.union(row for (row,) in connection.execute(_BEHIND_REFUSALS, (among,)) if row is not None)


def context_links(connection: Connection, rowids: Iterable[int]) -> ThreadLinks:
    """Return those of the neighbours of each message that belong into its window."""
    found = connection.execute(_CONTEXT, (ids_json(rowids),))
    return {rowid: (before, after) for rowid, before, after in found}


def neighbour_rowids(links: ThreadLinks) -> set[int]:
    """Return all rows that stand beside others."""
    return {rowid for pair in links.values() for rowid in pair if rowid is not None}
