"""Bringing both sides together where one of them is older or damaged; neither ever shrinks to match it (GUARD-1).

Commits are numbered. A row or a deletion that comes of a later commit wins, on whichever side it stands; of two of the
same commit the one whose checksum holds wins (GUARD-6). What is merged into the sidecar stays pending, so that the
caller's next flush makes both sides equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from zlib import crc32

from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.chroma.chroma_tombstones import reaches, read_tombstones
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.encoding.indexing import body_checksum
from recall_loop.memory.store.files import store_files
from recall_loop.memory.store.recovery.recovery import damaged_texts
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import COMMIT_META_KEY, last_commit
from recall_loop.memory.store.tables.database import AMONG, APPLIED, PENDING, Database, DatabaseDamagedError, chunks
from recall_loop.memory.store.write.commits import delete_records
from recall_loop.memory.store.write.taking_over import bury, take_rows
from recall_loop.state.errors import EmbedderError, StoreUnavailableError

_PAGE = 1_000
_NAMED = 5
# Set while a merge is in progress: the keys of records that are taken over, and of those that are erased.
_UNDER_WAY = "merging"
# Other processes know tenant versions that a restored sidecar would count up to again.
_LEAP = 1_000_000

_KNOWN = f"""SELECT r.key, r.rowid, r.revision, r.commit_number, r.checksum, {{bytes}}
FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.key {AMONG}"""
_RECORDS_OF = f"""SELECT tenant, id, key, commit_number FROM records
WHERE key {AMONG} ORDER BY tenant"""
_SEND = f"UPDATE records SET state = {PENDING} WHERE key = ?"
_DELETE_AGAIN = f"UPDATE tombstones SET state = {PENDING} WHERE key = ?"
_LEAP_VERSIONS = f"UPDATE tenants SET version = version + {_LEAP}, horizon = version + {_LEAP}"


@dataclass
class Merge:
    """What a merge did, in numbers of records.

    They were taken over from Chroma, erased again, sent to Chroma again, or are damaged on both sides (ids or keys).
    """

    taken: int = 0
    erased: int = 0
    sent: int = 0
    damaged: list[str] = field(default_factory=list)

    def words(self) -> str | None:
        """Return the repairs in words, for `repairs`; None if there were none."""
        named = ", ".join(self.damaged[:_NAMED])
        said = {
            "records taken over from Chroma, which had them newer or whole, without the versions of these changes that "
            "`history` gives": self.taken,
            "deleted records deleted again": self.erased,
            "records sent to Chroma, which had them older, damaged or not at all": self.sent,
            f"records damaged on both sides, to be written again or deleted ({named})": len(self.damaged),
        }
        return "; ".join(f"{count} {words}" for words, count in said.items() if count) or None


@dataclass(frozen=True, slots=True)
class _Known:
    rowid: int
    revision: int
    commit_number: int
    checksum: int | None
    body: bytes

    @property
    def is_sound(self) -> bool:
        return self.checksum in (None, crc32(self.body))


@dataclass
class _Plan:
    """Keys of records that are taken over from Chroma, erased, sent to Chroma, and deleted there again."""

    commit: int
    take: list[str] = field(default_factory=list)
    erase: list[str] = field(default_factory=list)
    send: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)


def is_under_way(database: Database) -> bool:
    """Return whether a merge of both sides was cut off."""
    return _UNDER_WAY in database.meta()


def may_lack_rows(database: Database, chroma: ChromaIndex) -> bool:
    """Return whether Chroma holds something of a later commit than the sidecar, or a merge was cut off."""
    return is_under_way(database) or reaches(chroma, last_commit(database) + 1)


def merge_sides(database: Database, chroma: ChromaIndex, embedder: Embedder) -> Merge:
    """Take over what Chroma has later or whole, repeat deletions, and mark as pending what Chroma lacks.

    Chroma isn't changed. Reads all of both sides: some seconds per 100,000 records, and texts that are taken over are
    embedded.

    Raises:
        ChromaError: Chroma fails; the next open goes on.
        DatabaseDamagedError: the sidecar is malformed, or parts of it are older than others: it has to be rebuilt.
        StoreUnavailableError: SQLite or the embedder fails; the next open goes on.
    """
    _check_consistent(database)
    report = Merge()
    plan = _planned(database, chroma, report)
    database.set_meta({_UNDER_WAY: json.dumps([plan.take, plan.erase]), COMMIT_META_KEY: str(plan.commit)})
    report.erased = _erase(database, plan.erase) + _mark(database, _DELETE_AGAIN, plan.again)
    try:
        for keys in chunks(plan.take, _PAGE):
            rows = chroma.get(keys)
            report.taken += take_rows(database, embedder, rows, report.damaged)
    except EmbedderError as error:
        raise StoreUnavailableError(
            "Chroma has records that the sidecar lost; taking them over needs the embedder, which fails: "
            f"{error}. Open the store again when it answers, or {store_files.HOW_TO_READ_ONLY}"
        ) from error
    report.sent = _mark(database, _SEND, plan.send)
    with database.transaction() as connection:
        connection.execute(_LEAP_VERSIONS)
        connection.execute("DELETE FROM meta WHERE key = ?", (_UNDER_WAY,))
    return report


def _check_consistent(database: Database) -> None:
    """Raise `DatabaseDamagedError`, after noting it for the next open, where a sidecar is malformed or of mixed age."""
    found = None
    if isinstance(database, SqliteDatabase):
        with database.reading() as file:
            found = store_files.structural_damage(file)
    with database.reading() as connection:
        highest = connection.execute("SELECT max(commit_number) FROM records").fetchone()[0] or 0
    if found is None and highest > last_commit(database):
        found = "parts of it are older than others"
    if found is not None:
        database.mark_suspect()
        raise DatabaseDamagedError(
            f"the sidecar is damaged: {found}: open the store for writing to rebuild it from Chroma"
        )


def _mend_texts(database: Database, chroma: ChromaIndex) -> set[str]:
    """Put Chroma's text in the place of each damaged one that is sound there, and return the keys of these records.

    Their windows, words and vectors may be those of the damaged text: they are worked out with the rest of the merge.
    """
    mended = set[str]()
    for page in damaged_texts(database):
        damaged = {key: rowid for rowid, key, _ in page}
        sound = [row for row in chroma.get(list(damaged)) if row.is_sound] if damaged else []
        values = [(row.record, damaged[row.key]) for row in sound]
        sums = [(body_checksum(row.record), damaged[row.key]) for row in sound]
        if not sound:
            continue
        with database.transaction() as connection:
            connection.executemany("UPDATE bodies SET record = ? WHERE rowid = ?", values)
            connection.executemany("UPDATE records SET checksum = ? WHERE rowid = ?", sums)
        mended.update(row.key for row in sound)
    return mended


def _planned(database: Database, chroma: ChromaIndex, report: Merge) -> _Plan:
    """Decide about every key before anything is written: writing a record raises the numbers of its neighbours."""
    deleted = read_tombstones(chroma)
    with database.transaction() as connection:
        bury(connection, deleted)
    deleted = dict(database.fetch("SELECT key, commit_number FROM tombstones"))
    plan = _Plan(commit=max([last_commit(database), *deleted.values()]))
    # Numbers that have been raised since decided about interrupted writes.
    plan.take, erased = json.loads(database.meta().get(_UNDER_WAY, "[[], []]"))
    decided = {*plan.take, *erased}
    mended, seen = _mend_texts(database, chroma), set[bytes]()
    erased = {*erased, *_outdated(database, deleted)}
    rows, query = chroma.rows(), _KNOWN.format(bytes=database.dialect.record_bytes)
    while page := list(islice(rows, _PAGE)):
        seen.update(bytes.fromhex(row.key) for row in page)
        plan.commit = max(plan.commit, *(row.commit_number for row in page))
        stored = {key: _Known(*rest) for key, *rest in database.fetch(query, (json.dumps([row.key for row in page]),))}
        for row in (row for row in page if row.key not in decided):
            _plan_row(plan, row, stored.get(row.key), deleted.get(row.key, -1), row.key in mended, report)
    keys = (key for (key,) in database.fetch(f"SELECT key FROM records WHERE state = {APPLIED}"))
    plan.send += [key for key in keys if bytes.fromhex(key) not in seen and key not in erased]
    plan.erase = sorted(erased.difference(plan.take))
    return plan


def _plan_row(plan: _Plan, row: ChromaRow, known: _Known | None, deleted: int, mended: bool, report: Merge) -> None:
    is_dead = deleted > row.commit_number
    if known is None:
        (plan.again if is_dead else plan.take).append(row.key)
    elif is_dead and deleted > known.commit_number:
        return
    elif not is_dead and (mended or _is_better(row, known)):
        plan.take.append(row.key)
    elif not known.is_sound:
        report.damaged.append(row.key)
    elif is_dead or _is_worse(row, known):
        plan.send.append(row.key)


def _outdated(database: Database, deleted: Mapping[str, int]) -> Iterator[str]:
    """Yield the keys of the sidecar's records whose deletion is later than they are."""
    every = iter(deleted)
    while keys := list(islice(every, _PAGE)):
        found = database.fetch(_RECORDS_OF, (json.dumps(keys),))
        yield from (key for _, _, key, number in found if number < deleted[key])


def _erase(database: Database, keys: Sequence[str]) -> int:
    erased = 0
    for part in chunks(keys, _PAGE):
        found = database.fetch(_RECORDS_OF, (json.dumps(part),))
        for tenant, rows in groupby(found, key=lambda row: row[0]):
            erased += delete_records(database, str(tenant), [name for _, name, _, _ in rows])
    return erased


def _is_better(row: ChromaRow, known: _Known) -> bool:
    if row.is_sound != known.is_sound:
        return row.is_sound
    return (row.commit_number, row.revision) > (known.commit_number, known.revision)


def _is_worse(row: ChromaRow, known: _Known) -> bool:
    return not row.is_sound or (row.commit_number, row.revision) < (known.commit_number, known.revision)


def _mark(database: Database, statement: str, keys: Sequence[str]) -> int:
    if keys:
        with database.transaction() as connection:
            connection.executemany(statement, [(key,) for key in keys])
    return len(keys)
