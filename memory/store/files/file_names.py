"""The names of the files and folders of a store."""

from __future__ import annotations

from pathlib import Path

SIDECAR_FILE = "sidecar.sqlite3"
SIDECAR_BUILDING_FILE = "sidecar.building.sqlite3"
# Stands beside a sidecar in which damage was met: the next open for writing examines it.
SUSPECT_FILE = "sidecar.suspect"
LOCK_FILE = "writer.lock"
SERVER_FILE = "server.json"
CHROMA_FOLDER, BUILDING_FOLDER, OLD_FOLDER = "chroma", "chroma.building", "chroma.old"
CHROMA_DATABASE = "chroma.sqlite3"
# SQLite's files beside a database.
DATABASE_ENDINGS = ("-wal", "-shm", "")


def quarantined_sidecars(store: Path) -> list[Path]:
    """Return the files of damaged sidecars that were set aside."""
    return sorted(store.glob("sidecar.damaged-*"))


def quarantine_name(store: Path) -> str:
    """Return the next free name for a damaged sidecar."""
    number = 1
    while any(store.glob(f"sidecar.damaged-{number}*")):
        number += 1
    return f"sidecar.damaged-{number}.sqlite3"
