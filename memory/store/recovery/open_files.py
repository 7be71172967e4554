"""The open files of a store, and in what state its last writer left them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_server import (
    FOLDER_NOTE,
    ChromaLocation,
    is_server_note,
    server_from_meta,
)
from recall_loop.memory.store.files.store_files import (
    CHROMA_DATABASE,
    CHROMA_FOLDER,
    SERVER_FILE,
    SIDECAR_FILE,
    SUSPECT_FILE,
    SUSPECT_TEXTS,
    WriterLock,
    file_identity,
    has_writer,
)
from recall_loop.memory.store.files.store_place import folder_mark, is_mark_of
from recall_loop.memory.store.tables.database import Database, set_meta
from recall_loop.state.errors import StoreUnavailableError

_ENDED, _OPEN, _CLOSED = "writer", "open", "closed"
BACKUP_NOTE = {_ENDED: "backup"}
"""Stands in a sidecar that was copied without Chroma, until the first open for writing, which makes that."""
_FILES = "chroma_files"
_STAMP = "chroma_stamp"
_LOG = logging.getLogger(__name__)


@dataclass
class OpenStoreFiles:
    """The open files of a store: the sidecar, and for a writer of a folder the lock.

    Attributes:
        path: the store's folder; None in memory.
        unclean_shutdown: Chroma's files weren't closed by their last writer, and weren't tried yet.
        files_changed: Chroma's files aren't as their last writer left them, and so are damaged.
        api_key: key of the Chroma server.
        repairs: repairs that were made, in words.
    """

    path: Path | None
    database: Database
    read_only: bool = False
    lock: WriterLock | None = None
    unclean_shutdown: bool = False
    files_changed: bool = False
    api_key: str | None = None
    repairs: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The folder, for messages."""
        return "in memory" if self.path is None else str(self.path)

    @property
    def location(self) -> Path | str | None:
        """The folder, as another process opens it; None in memory."""
        return self.path

    def __post_init__(self) -> None:
        self._identity = self._sidecar_identity()

    def _sidecar_identity(self) -> tuple[int, int] | None:
        return None if self.path is None else file_identity(self.path / SIDECAR_FILE)

    def is_in_place(self) -> bool:
        """Return whether the folder's sidecar is the one that is open, and its lock the one that is held.

        What is written elsewhere is lost, and a lock that was removed lets another writer in.
        """
        return self._identity == self._sidecar_identity() and (self.lock is None or self.lock.is_in_place())

    def is_writing(self) -> bool:
        """Return whether the folder is open for writing, and still the one that was opened."""
        return self.lock is not None and self.is_in_place()

    def size(self) -> int:
        """Return the bytes of the folder's files; 0 in memory."""
        files = () if self.path is None else self.path.rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    @cached_property
    def chroma_folder(self) -> Path | None:
        """Chroma's folder; None where it is in memory or on a server."""
        location = self.chroma_location()
        return location if isinstance(location, Path) else None

    def close(self) -> None:
        """Note a clean end, close the sidecar, then give the lock back."""
        try:
            clean = not self.unclean_shutdown and not self.files_changed
            if self.path is not None and clean and self.is_writing():
                chroma_files.zero_unused_space(self.path / CHROMA_FOLDER)
                files = chroma_files.noted_fingerprint(self.path / CHROMA_FOLDER)
                stamp = chroma_files.database_stamp(self.path / CHROMA_FOLDER)
                self.database.set_meta({_ENDED: _CLOSED, _FILES: files, _STAMP: stamp})
        except (OSError, StoreUnavailableError) as error:
            # The next open then checks the files first.
            _LOG.warning("%s: a clean shutdown could not be recorded: %s", self.path, error)
        finally:
            self.database.close()
            if self.lock is not None:
                self.lock.release()
                self.lock = None

    def is_copy(self) -> bool:
        """Return whether the folder was copied from one whose vectors are in a collection on a server."""
        meta = self.database.meta()
        known, mark = server_from_meta(meta), meta.get(FOLDER_NOTE)
        if self.path is None or mark is None or known is None or known.collection is None:
            return False
        return not is_mark_of(mark, self.path)

    def separate_copy(self) -> None:
        """Note which folder it is; a copy forgets its original's collection, and Chroma's opening fills one of its own.

        Raises:
            OSError: the folder can't be looked at or written.
        """
        if self.path is None:
            return
        if self.is_copy():
            forget_chroma(self.database)
            (self.path / SERVER_FILE).unlink(missing_ok=True)
            words = "was copied from another folder: its vectors go to a collection of its own on the Chroma server"
            record_repair(self.repairs, f"{self.path}: {words}")
        mark = folder_mark(self.path)
        if mark is not None and self.database.meta().get(FOLDER_NOTE) != mark:
            self.database.set_meta({FOLDER_NOTE: mark})

    def mark_in_use(self) -> None:
        """Note that a writer is at work, and in what state the last one left Chroma's files."""
        state = self.chroma_files_state()
        self.unclean_shutdown, self.files_changed = state == "open", state == "changed"
        self.database.set_meta({_ENDED: _OPEN})

    def chroma_files_state(self) -> Literal["closed", "open", "changed"]:
        """Return whether Chroma's vector files were closed by their last writer, and are as it left them."""
        meta = self.database.meta()
        if self.path is None:
            return "closed"
        if meta.get(_ENDED) == _OPEN:
            return "open"
        try:
            same = _FILES not in meta or chroma_files.is_fingerprint_of(meta[_FILES], self.path / CHROMA_FOLDER)
        except OSError:
            same = False
        return "closed" if same else "changed"

    def is_chroma_as_left(self) -> bool:
        """Return whether Chroma's folder is the one that belongs here, as far as its files tell without being read.

        While a writer is at work it is: the writer itself notices if the folder is taken away.
        """
        meta = self.database.meta()
        if self.path is None or (meta.get(_ENDED) == _OPEN and has_writer(self.path)):
            return True
        stamp = chroma_files.database_stamp(self.path / CHROMA_FOLDER)
        return meta.get(_ENDED) == _CLOSED and meta.get(_STAMP) == stamp

    def is_left_to_tables(self) -> bool:
        """Return whether Chroma is there, but on a disk where nothing opens it: no damage, the tables answer alone."""
        folder = self.chroma_folder
        return folder is not None and (folder / CHROMA_DATABASE).exists() and not chroma_files.is_openable(folder)

    def texts_are_suspect(self) -> bool:
        """Return whether a damaged text was met, on either side: the next open for writing compares all of them."""
        file = None if self.path is None else self.path / SUSPECT_FILE
        return file is not None and file.exists() and file.read_text(encoding="utf-8") == SUSPECT_TEXTS

    def forget_suspicion(self) -> None:
        """Note that both sides have been compared."""
        if self.path is not None:
            (self.path / SUSPECT_FILE).unlink(missing_ok=True)

    def chroma_location(self) -> ChromaLocation:
        """Return where the store's Chroma is, as its sidecar notes it.

        The collection that a copy of a folder names is its original's: until the copy is opened for writing, it has
        none.
        """
        known = server_from_meta(self.database.meta())
        if known is not None and not (self.read_only and self.is_copy()):
            return replace(known, api_key=self.api_key)
        return None if self.path is None else self.path / CHROMA_FOLDER


def is_backup(database: Database) -> bool:
    """Return whether a sidecar is a backup that nobody has opened for writing yet."""
    return BACKUP_NOTE.items() <= database.meta().items()


def is_folder_note(name: str) -> bool:
    """Return whether a key of `meta` is about the files of a folder."""
    return name in (_ENDED, _FILES, _STAMP, FOLDER_NOTE)


def forget_chroma(database: Database) -> None:
    """Let a copy of a sidecar forget its original's Chroma, but not the server: it gets one of its own when opened."""
    notes = database.meta()
    server = server_from_meta(notes)
    own = {} if server is None else replace(server, collection=None).note()
    with database.transaction() as connection:
        forgotten = [(name,) for name in notes if is_server_note(name) or is_folder_note(name)]
        connection.executemany("DELETE FROM meta WHERE key = ?", forgotten)
        set_meta(connection, own | BACKUP_NOTE)


def record_repair(repairs: list[str], words: str) -> None:
    """Keep the words of a repair, and log them."""
    repairs.append(words)
    _LOG.warning("%s", words)
