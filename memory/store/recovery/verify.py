"""Comparing the sidecar with Chroma, and looking for damage in either; nothing is changed (STORE-4)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex, CollectionMissingError
from recall_loop.memory.store.chroma.chroma_server import ChromaLocation
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.chroma.side_comparison import MEND, compare_sides, named_ids
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
from recall_loop.memory.store.recovery.chroma_connection import ChromaConnection
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles, is_backup
from recall_loop.memory.store.recovery.opening import check_path
from recall_loop.memory.store.shared.open_schema import OpenSchema
from recall_loop.memory.store.shared.outbox import count_waiting
from recall_loop.memory.store.shared.shared_chroma import SharedChroma
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import Database, DatabaseDamagedError
from recall_loop.memory.store.tables.upgrades import check_schema
from recall_loop.state.errors import StoreUnavailableError

# Each counts orphaned rows.
_ALONE = {
    **store_files.INCOMPLETE_ROWS,
    **store_files.SURPLUS_ROWS,
    "tags without a record": "SELECT count(*) FROM record_tags WHERE record NOT IN (SELECT rowid FROM records)",
    "versions without a record": """SELECT count(*) FROM versions v
        WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.tenant = v.tenant AND r.id = v.id)""",
    "counts of recalls without a record": "SELECT count(*) FROM recalls WHERE rowid NOT IN (SELECT rowid FROM records)",
    "agents whose groups are miscounted": """SELECT count(*) FROM (
        SELECT tenant, agent_id, group_id, records FROM memberships
        EXCEPT SELECT tenant, agent_id, group_id, count(*) FROM records
        WHERE agent_id IS NOT NULL AND group_id IS NOT NULL GROUP BY 1, 2, 3) miscounted""",
}
_LENGTHS = "SELECT count(*) FROM vectors WHERE length(own) != ? OR length(context) != ?"


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The findings of a verification.

    Attributes:
        findings: the damage, a line each; empty if the store is sound.
        notes: remarks that aren't damage.
        records: records in the sidecar that can be read, as `MemoryStore.count` says of each tenant; None if it can't
            be read.
        expired: further records there, which await a sweep; None if it can't be read.
        chroma_rows: rows in Chroma, expired ones too; None if it can't be read.
    """

    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    records: int | None = None
    expired: int | None = None
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
    expired: int | None = None
    chroma_rows: int | None = None

    def report(self) -> VerificationReport:
        findings, notes = tuple(self.findings), tuple(self.notes)
        return VerificationReport(findings, notes, self.records, self.expired, self.chroma_rows)


def verify_place(place: Path | str, *, api_key: str | None = None) -> VerificationReport:
    """Verify the store in a folder or at an address, open or not. Takes no lock, needs no embedder.

    Raises:
        StoreUnavailableError: there is no store, or its address can't be reached.
    """
    if isinstance(place, Path):
        return verify_folder(place, api_key=api_key)
    report = _Findings()
    with closing(PostgresDatabase(PostgresAddress.parse(place), create=False, read_only=True)) as database:
        _verify(report, OpenSchema(database, read_only=True, api_key=api_key), None)
    return report.report()


def verify_folder(path: Path, *, api_key: str | None = None) -> VerificationReport:
    """Verify the store in a folder, open or not, whatever state it is in. Takes no lock, needs no embedder."""
    report = _Findings()
    check_path(path, create=False, read_only=False)
    if not (path / SIDECAR_FILE).exists():
        report.findings.append("the sidecar is missing: open the store for writing to rebuild it from Chroma")
        return report.report()
    try:
        database = SqliteDatabase(path / SIDECAR_FILE, read_only=True)
    except DatabaseDamagedError as error:
        report.findings.append(str(error))  # it names the remedy
        return report.report()
    with closing(database):
        _verify(report, OpenStoreFiles(path, database, read_only=True, api_key=api_key), None)
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
        if isinstance(database, SqliteDatabase) and not _is_file_intact(report, database):
            return
        if not _marker_is_known(report, database, str(files.place)):
            return
        _rows(report, database)
        _outbox(report, database, files)
        if isinstance(database, SqliteDatabase):
            _lexical(report, database)
        if files.path is not None:
            _leftovers(report, files.path)
        _texts(report, database)
        if is_backup(database):
            report.notes.append("a backup holds no Chroma: the first open for writing makes it")
        elif isinstance(files, OpenStoreFiles) and files.is_copy():
            report.notes.append("a copied folder has no collection of its own yet: the first open for writing makes it")
        else:
            _chroma(report, database, files.chroma_location(), chroma)
    except DatabaseDamagedError as error:
        report.findings.append(str(error))


def _is_file_intact(report: _Findings, database: SqliteDatabase) -> bool:
    with database.reading() as connection:
        found = store_files.malformed_pages(connection)
    if found:
        report.findings += [f"the sidecar is malformed: {line}" for line in found]
        database.mark_suspect()
        return False
    return True


def _marker_is_known(report: _Findings, database: Database, place: str) -> bool:
    marker = marker_of(database)
    if not marker:
        report.findings.append("the store was never finished: open it once for writing")
        return False
    try:
        check_schema(database, marker, place)
    except StoreUnavailableError as error:
        report.findings.append(str(error))  # it names the remedy
        return False
    return True


def _rows(report: _Findings, database: Database) -> None:
    dimension = int(marker_of(database)["dimension"])
    with database.reading() as connection:
        report.expired = recovery.count_expired(database)
        report.records = recovery.count_records(database) - report.expired
        for words, query in _ALONE.items():
            try:
                count = connection.execute(query).fetchone()[0]
            except sqlite3.OperationalError as error:  # a table of the full-text index is missing
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
    """Check SQLite's full-text table against itself, which takes the write lock."""
    file = database.file
    if database.read_only and (file is None or not os.access(file.parent, os.W_OK) or not os.access(file, os.W_OK)):
        report.notes.append("the lexical index was not checked: the folder can't be written")
        return
    with closing(SqliteDatabase(file)) if database.read_only else nullcontext(database) as lockable:
        if complaint := rebuilding.check_lexical_index(lockable):
            report.findings.append(f"the lexical index is damaged: {complaint}")


def _texts(report: _Findings, database: Database) -> None:
    """Compare the sidecar's texts with their checksums (GUARD-6)."""
    damaged = [name for page in recovery.damaged_texts(database) for _, _, name in page]
    if damaged:
        report.findings.append(f"texts that are damaged in the sidecar, {MEND}: {named_ids(damaged)}")
        database.mark_suspect()


def _leftovers(report: _Findings, path: Path) -> None:
    for file in quarantined_sidecars(path):
        if file.suffix == ".sqlite3":
            report.notes.append(f"a damaged sidecar is kept as {file.name}; compaction removes it")
    for name in (BUILDING_FOLDER, OLD_FOLDER):
        if (path / name).exists():
            report.notes.append(f"{name} is left over from a rebuild; the next open for writing removes it")


def _chroma(report: _Findings, database: Database, location: ChromaLocation, chroma: ChromaIndex | None) -> None:
    if chroma is None and location is None:
        return  # in memory, it is filled when a search first needs it
    if isinstance(location, Path):
        if fault := _fault_of_files(location, is_open=chroma is not None):
            report.findings.append(fault)
            return
        if chroma is None and not chroma_files.is_openable(location):
            report.notes.append("Chroma was not compared: its client opens no folder that can't be written")
            return
    try:
        side = chroma or ChromaIndex(location, {}, create=False)
        try:
            found = compare_sides(database, side)
            report.findings += found.findings
            report.chroma_rows = found.rows
            if found.damaged:
                database.mark_suspect()
        finally:
            if chroma is None:
                side.close()
    except CollectionMissingError as error:
        report.findings.append(f"{error}: open the store for writing, or rebuild")
    except ChromaError as error:
        report.findings.append(str(error))


def _fault_of_files(folder: Path, *, is_open: bool) -> str | None:
    """Return why Chroma's files can't be read; those that this process has open are left alone.

    To close them would drop Chroma's own locks.
    """
    if (not is_open and chroma_files.is_database_damaged(folder)) or not (folder / CHROMA_DATABASE).exists():
        return "Chroma's database is missing or malformed: open the store for writing, or rebuild"
    if not vector_files_readable(folder):
        return "Chroma's files crash the process that reads them or block it: open for writing, or rebuild"
    return None
