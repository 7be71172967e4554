"""Chroma's folder within a store: whether its files are whole, and how new ones take the place of old ones.

Functions that read, write, rename or remove files raise `OSError` where that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from recall_loop.memory.store.files.store_files import (
    ASIDE_FOLDER,
    BUILDING_FOLDER,
    CHROMA_DATABASE,
    CHROMA_FOLDER,
    OLD_FOLDER,
    SALVAGE_FOLDER,
    file_identity,
)

_VECTOR_FILES = ("*.bin", "*.pickle")
_CHUNK = 1 << 20
# Header of the vector index: version, first offset, capacity in rows, rows, bytes per row.
_HEADER, _LENGTH_BYTES = "<iQQQQ", 4
# Where SQLite locks a file: a byte for a writer that waits for readers to finish, then those of the readers.
_PENDING, _READERS, _READER_BYTES = 0x40000000, 0x40000002, 510
_LOCK_SECONDS, _LOCK_PAUSE = 2.0, 0.02


def has_vectors(folder: Path) -> bool:
    """Return whether any vector file holds rows, or is not as long as it says: only these can end a process.

    Below about 1,000 rows there are no vector files, or only empty ones.
    """
    headers = dict(_headers(folder))
    for header, sizes in headers.items():
        data = header.with_name("data_level0.bin")
        if sizes is None or sizes[1] or not data.is_file() or data.stat().st_size != sizes[0] * sizes[2]:
            return True
    return bool(vector_files(folder)) and not headers


def _headers(folder: Path) -> Iterator[tuple[Path, tuple[int, int, int] | None]]:
    """Yield the header of each vector index, with the rows that it has room for, its rows, and the bytes of a row."""
    for header in folder.rglob("header.bin"):
        found = header.read_bytes()
        yield header, struct.unpack_from(_HEADER, found)[2:] if len(found) >= struct.calcsize(_HEADER) else None


def is_openable(folder: Path) -> bool:
    """Return whether Chroma's client can open its files, which it does for writing only: not on a read-only disk."""
    return all(os.access(place, os.W_OK) for place in (folder, folder / CHROMA_DATABASE))


def vector_files(folder: Path) -> list[Path]:
    """Return the files of Chroma's vector index."""
    return sorted(file for pattern in _VECTOR_FILES for file in folder.rglob(pattern))


NO_VECTORS = "{}"


def noted_fingerprint(folder: Path) -> str:
    """Return the fingerprint that a writer notes: `NO_VECTORS` for files without rows, which readers may make too."""
    return fingerprint_files(folder) if has_vectors(folder) else NO_VECTORS


def is_fingerprint_of(noted: str, folder: Path) -> bool:
    """Return whether the vector files are as their writer noted them."""
    return noted == fingerprint_files(folder) or (noted == NO_VECTORS and not has_vectors(folder))


def fingerprint_files(folder: Path) -> str:
    """Return sizes and checksums of the vector files; a damaged one would end the process that reads it."""
    sums: dict[str, list[int]] = {}
    for file in vector_files(folder):
        total = 0
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                total = zlib.crc32(chunk, total)
        sums[file.relative_to(folder).as_posix()] = [file.stat().st_size, total]
    return json.dumps(sums, sort_keys=True)


def zero_unused_space(folder: Path) -> None:
    """Zero the unused room in the vector files: a new index is written with whatever its memory held (STORE-6).

    That has been seen to be text of deleted records. Later writes hold rows only. Chroma must not have
    the files open.
    """
    for header, sizes in _headers(folder):
        room, used, row_bytes = sizes or (0, 0, 0)
        for name, each in (("data_level0.bin", row_bytes), ("length.bin", _LENGTH_BYTES)):
            file = header.with_name(name)
            # A larger file has another layout, or is damaged: it is left alone.
            if file.is_file() and used * each < file.stat().st_size <= room * each:
                _zero(file, used * each)


def _zero(file: Path, start: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(start)
        rest = stream.read()
        if rest.strip(b"\x00"):
            stream.seek(start)
            stream.write(bytes(len(rest)))


def is_database_damaged(folder: Path) -> bool:
    """Return whether Chroma's database is missing, no database, or malformed. A locked one is neither."""
    file = folder / CHROMA_DATABASE
    if folder.is_dir() and not file.exists():
        return True
    try:
        with closing(_connected(file)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        return False
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return True
    return bool(found[0] != "ok")


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0.5, check_same_thread=False)


def database_identity(folder: Path) -> tuple[int, int] | None:
    """Return the identity of the database file; None if it is missing, or can't be looked at."""
    with suppress(OSError):
        return file_identity(folder / CHROMA_DATABASE)
    return None


def database_stamp(folder: Path) -> str:
    """Return size and time of the database file, which a copy keeps and a write changes; empty if it is missing."""
    with suppress(OSError):
        found = os.stat(folder / CHROMA_DATABASE)
        return f"{found.st_size} {found.st_mtime_ns}"
    return ""


class DatabaseLockMonitor:
    """Checks whether another process keeps readers of Chroma's database out; Chroma itself would wait for ever.

    And whether the names of its tables are readable: an error of SQLite's that quotes one that is no text ends the
    process. The file stays open for as long as Chroma has it open: closing it would drop the locks that Chroma holds.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the database of a folder; None = there is no file, and nothing is ever wrong with it."""
        self._file = None if folder is None else folder / CHROMA_DATABASE
        self._handle: int | None = None
        self._reader: sqlite3.Connection | None = None
        self.attach()

    def attach(self) -> None:
        """Open the file, unless it is open; a new one is there only once Chroma has made it."""
        if self._handle is None and self._file is not None:
            with suppress(OSError):
                self._handle = os.open(self._file, os.O_RDONLY)

    def is_locked(self) -> bool:
        """Return whether it is locked, and stays so for two seconds. Known on Linux only."""
        end = time.monotonic() + _LOCK_SECONDS
        while self._handle is not None and _is_write_locked(self._handle):
            if time.monotonic() > end:
                return True
            time.sleep(_LOCK_PAUSE)
        return False

    def has_unreadable_names(self) -> bool:
        """Return whether the names of the database's tables can't be read."""
        try:
            if self._reader is None and self._handle is not None and self._file is not None:
                self._reader = _connected(self._file)
                self._reader.execute("SELECT name, tbl_name, sql FROM sqlite_master").fetchall()
        except UnicodeDecodeError:
            return True
        except sqlite3.Error as error:  # for any other problem, Chroma raises its own error
            return str(error).startswith("Could not decode")
        return False

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


if sys.platform == "linux":
    import fcntl

    _LOCK = "hhqqi"

    def _is_write_locked(handle: int) -> bool:
        for start, length in ((_PENDING, 1), (_READERS, _READER_BYTES)):
            asked = struct.pack(_LOCK, fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
            found = struct.unpack(_LOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
            if found[0] == fcntl.F_WRLCK:
                return True
        return False

else:

    def _is_write_locked(handle: int) -> bool:
        return False


def begin_rebuild(store: Path) -> Path:
    """Return an empty folder in which Chroma's files are rebuilt.

    Raises:
        OSError: it can't be created, or something that isn't Chroma's is in its place.
    """
    if (store / CHROMA_FOLDER).exists() and not (store / CHROMA_FOLDER).is_dir():
        raise NotADirectoryError(f"{store / CHROMA_FOLDER} is a file")
    remove_path(store / BUILDING_FOLDER)
    (store / BUILDING_FOLDER).mkdir()
    return store / BUILDING_FOLDER


def swap_in_rebuilt(store: Path, *, keep: bool = False) -> None:
    """Let the newly made files take the place of the old ones. A crash at any point leaves one whole set.

    With `keep` the old ones are kept aside, for they may hold what the new ones don't.
    """
    remove_path(store / OLD_FOLDER)
    if (store / CHROMA_FOLDER).exists():
        names = (store / f"{ASIDE_FOLDER}{number}" for number in count(1))
        free = next(name for name in names if not name.exists())
        (store / CHROMA_FOLDER).rename(free if keep else store / OLD_FOLDER)
    (store / BUILDING_FOLDER).rename(store / CHROMA_FOLDER)
    remove_path(store / OLD_FOLDER)


def copy_database(folder: Path) -> Path:
    """Copy Chroma's database, and what SQLite keeps beside it, without the vector files; return the copy's folder."""
    copy = folder.with_name(SALVAGE_FOLDER)
    remove_path(copy)
    copy.mkdir()
    for file in folder.glob(f"{CHROMA_DATABASE}*"):
        shutil.copyfile(file, copy / file.name)
    return copy


def finish_interrupted_swap(store: Path) -> None:
    """After a crash: put the old files back if no new ones took their place, and clear what is left over."""
    if not (store / CHROMA_FOLDER).exists() and (store / OLD_FOLDER).exists():
        (store / OLD_FOLDER).rename(store / CHROMA_FOLDER)
    for name in (BUILDING_FOLDER, OLD_FOLDER, SALVAGE_FOLDER):
        remove_path(store / name)


def remove_path(folder: Path) -> None:
    """Remove a folder, or a file in its place, if there is one."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
