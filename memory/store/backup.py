"""A copy of a whole store in a folder, as it is at one moment, while others write to it (OPS-8)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from recall_loop.memory.store.chroma.chroma_files import remove_path
from recall_loop.memory.store.files.store_files import (
    LOCK_FILE,
    SIDECAR_BUILDING_FILE,
    SIDECAR_FILE,
    WriterLock,
    errors_naming,
    has_writer,
)
from recall_loop.memory.store.files.store_place import checked_place, is_within, make_folder, shown_place
from recall_loop.memory.store.recovery import reconciling, recovery
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles, forget_chroma
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.recovery.verify import VerificationReport, verify_folder
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError, UnsupportedOptionError

_ALLOWED = "the path of a folder that doesn't exist yet, outside the store's own"
_DRAFT = ".unfinished"


def not_a_folder_error(place: str) -> UnsupportedOptionError:
    """Return the error for a store that isn't in a folder, whose backups are made otherwise."""
    allowed = "a folder; PostgreSQL has tools of its own, `pg_dump` for one (docs/postgresql.md)"
    return UnsupportedOptionError("store", shown_place(place), allowed)


def back_up(session: StoreSession, target: str | Path) -> VerificationReport:
    """Copy an open store to a new folder; see `Maintenance.backup`."""
    files, database, goal = session.files, session.database, checked_place(target, "target")
    if not isinstance(files, OpenStoreFiles) or not isinstance(database, SqliteDatabase):
        raise not_a_folder_error(files.place)
    if isinstance(goal, str) or goal.exists() or goal.is_symlink() or is_within(goal, files.path):
        raise InvalidInputError("target", shown_place(goal), _ALLOWED)
    if files.path is not None and not has_writer(files.path) and session.degraded_detail is not None:
        raise _unsound(files, session.degraded_detail)  # a writer would have reconciled both sides
    if session.recalls is not None:
        session.recalls.flush()
    with _temporary_folder(goal, like=files.path) as draft:
        _copy(database, draft / SIDECAR_BUILDING_FILE)
        _detach_from_chroma(files, draft / SIDECAR_BUILDING_FILE)
        (draft / SIDECAR_BUILDING_FILE).replace(draft / SIDECAR_FILE)
        with closing(SqliteDatabase(draft / SIDECAR_FILE)):  # closed last, it leaves no write-ahead file
            report = verify_folder(draft)
        if not report.sound:
            raise _unsound(files, "; ".join(report.findings))
    return report


def _unsound(files: OpenStoreFiles, why: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{files.place}: not backed up: it must be repaired first ({why}); open it for writing, as its service "
        "and `recall-loop store sweep` do, or `recall-loop store rebuild` it"
    )


@contextmanager
def _temporary_folder(goal: Path, *, like: Path | None) -> Iterator[Path]:
    """Give a folder beside `goal` that takes its name when the context is left without an error, and else goes.

    What a killed backup has left of it goes first.
    """
    draft = goal.with_name(goal.name + _DRAFT)
    with errors_naming(goal, draft):
        make_folder(draft)
        lock = WriterLock(draft)
        try:
            for left in draft.iterdir():
                if left.name != LOCK_FILE:
                    remove_path(left)
            if like is not None:
                _copy_permissions(draft, like)
            yield draft
        except BaseException:
            remove_path(draft)
            raise
        finally:
            lock.release()
        draft.rename(goal)


def _copy_permissions(path: Path, like: Path) -> None:
    """Let those read a path who may read another one."""
    path.chmod(path.stat().st_mode & 0o700 | like.stat().st_mode & 0o077)


def _copy(database: SqliteDatabase, file: Path) -> None:
    """Copy a sidecar in one step: a step of its own for some pages would start over with each write of others."""
    with database.reading() as connection, closing(sqlite3.connect(file)) as copy:
        try:
            connection.backup(copy)
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{file}: the sidecar can't be copied: {error}") from error
    if database.file is not None:
        _copy_permissions(file, database.file)


def _detach_from_chroma(files: OpenStoreFiles, file: Path) -> None:
    """Let a copy of the sidecar forget its original's Chroma: the first open for writing gives it one of its own.

    Its pages are written anew: a backup is kept for long, and would hold what had been erased before it was made.
    """
    with closing(SqliteDatabase(file)) as copy:
        if reconciling.is_under_way(copy):
            raise _unsound(files, "its repair is under way or was cut off")
        forget_chroma(copy)
        recovery.apply_all(copy)
        copy.compact()
