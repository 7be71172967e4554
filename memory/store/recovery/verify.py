"""Comparing the sidecar with Chroma, and looking for damage in either; nothing is changed (STORE-4)."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex, CollectionMissingError
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.files import store_files
from recall_loop.memory.store.files.store_files import (
    BUILDING_FOLDER,
    CHROMA_DATABASE,
    OLD_FOLDER,
    SIDECAR_FILE,
    quarantined_sidecars,
)
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.recovery import rebuilding, recovery
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.recovery.opening import check_path
from recall_loop.memory.store.shared.open_schema import OpenSchema
from recall_loop.memory.store.shared.outbox import count_waiting
from recall_loop.memory.store.shared.shared_chroma import SharedChroma
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.database import AMONG, METRIC, SCHEMA_VERSION, DatabaseDamagedError

if TYPE_CHECKING:
    from recall_loop.memory.store.recovery.chroma_connection import ChromaConnection
    from recall_loop.memory.store.tables.database import Database

_SHOWN = 3
_PAGE = 5_000
# Half precision and Chroma's own normalising turn a vector by less than this.
_SAME = 0.999
# Each counts rows that stand alone.
_ALONE = {
    **store_files.INCOMPLETE_ROWS,
    **store_files.SURPLUS_ROWS,
    "tags without a record": "SELECT count(*) FROM record_tags WHERE record NOT IN (SELECT rowid FROM records)",
    "versions without a record": """SELECT count(*) FROM versions v
        WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.tenant = v.tenant AND r.id = v.id)""",
    "agents whose groups are miscounted": """SELECT count(*) FROM (
        SELECT tenant, agent_id, group_id, records FROM memberships
        EXCEPT SELECT tenant, agent_id, group_id, count(*) FROM records
        WHERE agent_id IS NOT NULL AND group_id IS NOT NULL GROUP BY 1, 2, 3)""",
}
_WAITING = "SELECT key FROM records WHERE state = 1 UNION SELECT key FROM tombstones WHERE state = 1"
_LENGTHS = "SELECT count(*) FROM vectors WHERE length(own) != ? OR length(context) != ?"
_TEXTS = """SELECT r.rowid, r.id, r.checksum, {bytes}
FROM records r JOIN bodies b ON b.rowid = r.rowid WHERE r.rowid > ? ORDER BY r.rowid LIMIT ?"""
_MEND = "repaired by opening the store for writing or `recall-loop store rebuild`"
_ROWS = f"""SELECT r.key, r.rowid, r.revision, r.id, v.context, r.checksum, {{bytes}}
FROM records r LEFT JOIN vectors v ON v.rowid = r.rowid LEFT JOIN bodies b ON b.rowid = r.rowid
WHERE r.key {AMONG}"""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The findings of a verification.

    Attributes:
        findings: what is wrong, a line each; empty if the store is sound.
        notes: what is worth knowing and not wrong.
        records: records in the sidecar; None if it can't be read.
        chroma_rows: rows in Chroma; None if it can't be read.
    """

    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    records: int | None = None
    chroma_rows: int | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        return {"sound": self.sound, **asdict(self)}


@dataclass
class _Findings:
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: int | None = None
    chroma_rows: int | None = None

    def report(self) -> VerificationReport:
        return VerificationReport(tuple(self.findings), tuple(self.notes), self.records, self.chroma_rows)


def verify_place(place: Path | str, *, api_key: str | None = None) -> VerificationReport:
    """Verify the store in a folder or at an address, open or not. Takes no lock, needs no embedder.

    Raises:
        StoreUnavailableError: there is no store, or its address can't be reached.
    """
    if isinstance(place, Path):
        return verify_folder(place, api_key=api_key)
    report = _Findings()
    database = PostgresDatabase(PostgresAddress.parse(place), create=False, read_only=True)
    try:
        _verify(report, OpenSchema(database, read_only=True, api_key=api_key), None)
    finally:
        database.close()
    return report.report()


def verify_folder(path: Path, *, api_key: str | None = None) -> VerificationReport:
    """Verify the store in a folder, open or not, whatever state it is in. Takes no lock, needs no embedder.

    Raises:
        StoreUnavailableError: there is no store.
    """
    report = _Findings()
    check_path(path, create=False, read_only=False)
    if not (path / SIDECAR_FILE).exists():
        report.findings.append("the sidecar is missing: open the store for writing to rebuild it from Chroma")
        return report.report()
    try:
        database = SqliteDatabase(path / SIDECAR_FILE, read_only=True)
    except DatabaseDamagedError as error:
        report.findings.append(f"{error}: open the store for writing to rebuild it from Chroma")
        return report.report()
    try:
        _verify(report, OpenStoreFiles(path, database, read_only=True, api_key=api_key), None)
    finally:
        database.close()
    return report.report()


def verify_open(opened: OpenStoreFiles | OpenSchema, link: ChromaConnection | SharedChroma) -> VerificationReport:
    """Verify an open store; see `Maintenance.verify`."""
    report = _Findings()
    if link.reason is not None:
        report.findings.append(f"works without Chroma: {link.detail}")
    if isinstance(link, SharedChroma):
        with link.searching() as chroma:
            _verify(report, opened, chroma)
    else:
        _verify(report, opened, None if opened.read_only else link.chroma)
    return report.report()


def _verify(report: _Findings, files: OpenStoreFiles | OpenSchema, chroma: ChromaIndex | None) -> None:
    database = files.database
    try:
        if isinstance(database, SqliteDatabase) and not _file_is_whole(report, database):
            return
        if not _marker_is_known(report, database):
            return
        _rows(report, database)
        _outbox(report, database, files)
        if isinstance(database, SqliteDatabase):
            _lexical(report, database)
        if files.path is not None:
            _leftovers(report, files.path)
        _texts(report, database)
        _chroma(report, database, files.chroma_location(), chroma)
    except DatabaseDamagedError as error:
        report.findings.append(str(error))


def _file_is_whole(report: _Findings, database: SqliteDatabase) -> bool:
    with database.reading() as connection:
        found = store_files.malformed_pages(connection)
    if found:
        report.findings += [f"the sidecar is malformed: {line}" for line in found]
        database.mark_suspect()
        return False
    return True


def _marker_is_known(report: _Findings, database: Database) -> bool:
    marker = recovery.marker_of(database)
    if not marker:
        report.findings.append("the store was never finished: open it once for writing")
    elif int(marker["schema"]) != SCHEMA_VERSION or marker["metric"] != METRIC:
        report.findings.append(f"made with schema {marker['schema']} and metric {marker['metric']}")
    else:
        return True
    return False


def _rows(report: _Findings, database: Database) -> None:
    """Check the rows of the tables against each other."""
    dimension = int(recovery.marker_of(database)["dimension"])
    with database.reading() as connection:
        report.records = recovery.count_records(database)
        for words, query in _ALONE.items():
            try:
                count = connection.execute(query).fetchone()[0]
            except sqlite3.OperationalError as error:  # a table of the full-text index is gone
                report.findings.append(f"{words} can't be counted: {error}")
                continue
            if count:
                report.findings.append(f"{words}: {count}")
        odd = connection.execute(_LENGTHS, (2 * dimension, 2 * dimension)).fetchone()[0]
    if odd:
        report.findings.append(f"vectors with a length other than {dimension}: {odd}")


def _outbox(report: _Findings, database: Database, files: OpenStoreFiles | OpenSchema) -> None:
    """Count what Chroma has still to hear of: another process may be about to send it, where several write."""
    if isinstance(files, OpenSchema) and files.chroma_location() is None:
        return
    pending, gone = count_waiting(database)
    if pending or gone:
        said = report.notes if isinstance(files, OpenSchema) else report.findings
        said.append(f"not yet in Chroma: {pending} written and {gone} deleted records")


def _lexical(report: _Findings, database: SqliteDatabase) -> None:
    """Check SQLite's full-text table against itself."""
    with _lockable(report, database) as lockable:
        if lockable is not None and (complaint := rebuilding.check_lexical_index(lockable)):
            report.findings.append(f"the lexical index is damaged: {complaint}")


def _texts(report: _Findings, database: Database) -> None:
    """Compare the sidecar's texts with their checksums (GUARD-6)."""
    damaged, last = list[str](), 0
    query = _TEXTS.format(bytes=database.dialect.bytes_of("b.record"))
    while found := database.fetch(query, (last, _PAGE)):
        last = found[-1][0]
        damaged += [name for _, name, checksum, body in found if checksum not in (None, crc32(body))]
    if damaged:
        report.findings.append(f"texts that are damaged in the sidecar, {_MEND}: {_named(damaged)}")
        database.mark_suspect()


def _named(ids: Sequence[str]) -> str:
    return f"{len(ids)} ({', '.join(ids[:_SHOWN])}{', …' if len(ids) > _SHOWN else ''})"


@contextmanager
def _lockable(report: _Findings, database: SqliteDatabase) -> Iterator[SqliteDatabase | None]:
    """Give a sidecar that can take the write lock for the check of the full-text table, or None."""
    file = database.file
    if not database.read_only:
        yield database
    elif file is None or not os.access(file.parent, os.W_OK) or not os.access(file, os.W_OK):
        report.notes.append("the lexical index was not checked: the folder can't be written")
        yield None
    else:
        own = SqliteDatabase(file)
        try:
            yield own
        finally:
            own.close()


def _leftovers(report: _Findings, path: Path) -> None:
    for file in quarantined_sidecars(path):
        if file.suffix == ".sqlite3":
            report.notes.append(f"a damaged sidecar is kept as {file.name}; compaction removes it")
    for name in (BUILDING_FOLDER, OLD_FOLDER):
        if (path / name).exists():
            report.notes.append(f"{name} is left over from a rebuild; the next open for writing removes it")


def _chroma(report: _Findings, database: Database, location: ChromaLocation, chroma: ChromaIndex | None) -> None:
    if chroma is None and location is None:
        return  # in memory it is filled when a search first needs it
    # Files that this process has open are left alone: closing them would drop Chroma's own locks.
    if isinstance(location, Path):
        if (chroma is None and chroma_files.is_database_damaged(location)) or not (location / CHROMA_DATABASE).exists():
            report.findings.append("Chroma's database is missing or malformed: open the store for writing, or rebuild")
            return
        if not vector_files_readable(location):
            report.findings.append("Chroma's files crash the process that reads them: open for writing, or rebuild")
            return
    try:
        side = chroma or ChromaIndex(location, {}, create=False)
        try:
            _compare(report, database, side)
        finally:
            if chroma is None:
                side.close()
    except CollectionMissingError as error:
        report.findings.append(f"{error}: open the store for writing, or rebuild")
    except ChromaError as error:
        report.findings.append(str(error))


def _compare(report: _Findings, database: Database, chroma: ChromaIndex) -> None:
    """Compare generation, ids, revisions and vectors of both sides; what is still to be sent is left out."""
    side = chroma.marker()
    if side != recovery.marker_of(database):
        words = f"generation {side['generation']}" if side else "never completely filled"
        report.findings.append(f"Chroma doesn't match the sidecar: {words}")
        return
    waiting = {row[0] for row in database.fetch(_WAITING)}
    settled = database.fetch("SELECT count(*) FROM records WHERE state = 0")[0][0]
    wrong: dict[str, list[str]] = {}
    report.chroma_rows = seen = 0
    every = chroma.rows(vectors=True)
    query = _ROWS.format(bytes=database.dialect.bytes_of("b.record"))
    while rows := list(islice(every, _PAGE)):
        report.chroma_rows += len(rows)
        stored = {key: row for key, *row in database.fetch(query, (json.dumps([row.key for row in rows]),))}
        for row in rows:
            if row.key in waiting:
                continue
            known = stored.get(row.key)
            seen += known is not None
            if (what := _difference(row, known)) is not None:
                wrong.setdefault(what, []).append(row.key if known is None else known[2])
    if seen < settled:
        report.findings.append(f"records missing from Chroma: {settled - seen}")
    for words, ids in wrong.items():
        report.findings.append(f"{words}: {_named(ids)}")
        if _MEND in words:
            database.mark_suspect()


def _difference(row: ChromaRow, known: Sequence[Any] | None) -> str | None:
    if known is None:
        return "rows in Chroma that the sidecar doesn't have"
    rowid, revision, _, context, checksum, body = known
    if not row.is_sound:
        return f"texts that are damaged in Chroma, {_MEND}"
    if (row.rowid, row.revision) != (rowid, revision):
        return "records of another revision in Chroma"
    if row.checksum != checksum and _without_expiry(row.record) != _without_expiry(body):
        return f"records with another text in Chroma, {_MEND}"
    return None if context is None or _is_same_vector(row.vector, context) else "records with another vector in Chroma"


def _is_same_vector(vector: Any, context: bytes) -> bool:
    ours, theirs = np.frombuffer(context, dtype=np.float16).astype(np.float32), np.asarray(vector, dtype=np.float32)
    scale = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    return ours.shape == theirs.shape and (scale <= 0 or float(ours @ theirs) >= _SAME * scale)


def _without_expiry(body: str | bytes | None) -> object:
    """Return a record's fields but for its expiry, which only the sidecar prolongs; the body where it is no record."""
    try:
        fields = json.loads(body or "")
        fields.pop("expires_at", None)
    except (AttributeError, ValueError):
        return body
    return fields
