"""What compaction removes besides deleted bytes: names of empty tenants, and files that repairs left (STORE-6)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.files.file_names import OLD_FOLDER, SIDECAR_BUILDING_FILE, quarantined_sidecars
from recall_loop.memory.store.recovery import rebuild
from recall_loop.memory.store.sqlite.sqlite_store import set_meta

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

_EMPTY = "tenant NOT IN (SELECT DISTINCT tenant FROM records)"


def start_new_generation(database: SqliteDatabase) -> None:
    """Start a new generation, and forget tenants that have no records.

    Their versions would start again from 1: a new generation makes the caches of other processes
    forget theirs.
    """
    with database.transaction() as connection:
        for table in ("tenants", "deleted", "memberships"):
            connection.execute(f"DELETE FROM {table} WHERE {_EMPTY}")
        set_meta(connection, {"generation": uuid.uuid4().hex})


def remove_leftovers(store: Path) -> None:
    """Remove damaged sidecars that were kept aside, and what crashes have left.

    Raises:
        OSError: a file can't be removed.
    """
    for file in quarantined_sidecars(store):
        file.unlink()
    rebuild.remove_building(store / SIDECAR_BUILDING_FILE)
    chroma_files.remove_path(store / OLD_FOLDER)
