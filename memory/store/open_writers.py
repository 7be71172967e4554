"""Opening a store; a folder that this process writes is open once, for all who open it, until the last closes it."""

from __future__ import annotations

import logging
import os
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import EllipsisType
from typing import TypeVar
from weakref import WeakValueDictionary

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.locks import KeyedLocks
from recall_loop.memory.store.forgetting import sweep
from recall_loop.memory.store.open_store import OpenStore
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.recovery.opening import OpenOptions, check_server, open_place
from recall_loop.memory.store.recovery.repair import check_embedder
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.tables.attribute_index import checked_paths, indexed_paths
from recall_loop.memory.store.tables.database import DatabaseDamagedError
from recall_loop.memory.store.tables.versions import DEFAULT_HISTORY_DAYS
from recall_loop.state.errors import InvalidInputError, RecallError, StoreLockedError, StoreUnavailableError

_LOG = logging.getLogger(__name__)
_S = TypeVar("_S", bound=OpenStore)
_PAUSE_SECONDS, _LONGEST_WAIT = 0.02, 86_400


def check_wait_seconds(given: object) -> float:
    """Return a valid number of seconds to wait for a folder.

    Raises:
        InvalidInputError: it isn't a number from 0 to 86,400.
    """
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _LONGEST_WAIT:
        raise InvalidInputError("wait_seconds", given, f"a number from 0 to {_LONGEST_WAIT:,}")
    return given


def open_as(kind: type[_S], place: Path | str, embedder: Embedder, how: OpenOptions) -> _S:
    """Return a store of a kind over a folder or an address; see `MemoryStore.open`."""
    end = time.monotonic() + how.wait_seconds
    while True:
        try:
            return _open_now(kind, place, embedder, how)
        except StoreLockedError as error:
            if not how.wait_seconds:
                raise
            if time.monotonic() >= end:
                raise StoreLockedError(f"{error} (still after {how.wait_seconds:g} s)") from error
        # Sleep without holding the folder's turn, which closing its store in this process takes.
        time.sleep(_PAUSE_SECONDS)


def _open_now(kind: type[_S], place: Path | str, embedder: Embedder, how: OpenOptions) -> _S:
    if how.read_only or how.defer:
        session = _begin(place, embedder, how)
        if how.read_only:
            session.connection.notice()
        return kind(session)
    if how.re_embed or how.move or not isinstance(place, Path):
        return kind(_open_repaired(place, embedder, how))
    return OPEN_WRITERS.open(kind, place, embedder, how)


class OpenWriters:
    """The writers of folders, for any thread; unused ones are forgotten."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, as in a forked child: its parent's writers, and locks that no thread here releases."""
        self._turns = KeyedLocks[Path]()
        self._writers: WeakValueDictionary[Path, RecordWriter] = WeakValueDictionary()

    def turn(self, folder: Path) -> AbstractContextManager[bool]:
        """Return a lock to hold while a folder's writer is opened, joined or closed."""
        return self._turns[_real(folder)]

    def open(self, kind: type[_S], folder: Path, embedder: Embedder, how: OpenOptions) -> _S:
        """Return a store over the folder's open writer in this process, which is opened if there is none."""
        turn = self.turn(folder)
        with turn:
            joined = self._join(kind, folder, embedder, how)
            if joined is not None:
                return joined
            session = _open_repaired(folder, embedder, how)
            session.turn = turn
            writer = self._writers[_real(folder)] = RecordWriter(session)
            return kind(session, writer)

    def _join(self, kind: type[_S], folder: Path, embedder: Embedder, how: OpenOptions) -> _S | None:
        writer = self._find(folder)
        if writer is None:
            return None
        store = kind(writer.session, writer)
        if self._find(folder) is not writer:  # a garbage collection closed the last other one before this one existed
            return None
        try:
            _check_options(writer.session, embedder, how)
        except BaseException as error:
            store.close()
            if isinstance(error, RecallError) and self._find(folder) is not writer:  # nobody else used it
                return None
            raise
        return store

    def _find(self, folder: Path) -> RecordWriter | None:
        """Return the writer that is open; not one whose folder was taken away, be there another in its place."""
        writer = self._writers.get(_real(folder))
        files = None if writer is None else writer.session.files
        return writer if isinstance(files, OpenStoreFiles) and files.is_writing() else None


OPEN_WRITERS = OpenWriters()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OPEN_WRITERS.reset)


def _real(folder: Path) -> Path:
    with suppress(ValueError):  # not a path: whoever opens it reports that
        return Path(os.path.realpath(folder))
    return folder


def _begin(place: Path | str, embedder: Embedder, how: OpenOptions) -> StoreSession:
    days = DEFAULT_HISTORY_DAYS if isinstance(how.history_days, EllipsisType) else how.history_days
    return StoreSession(open_place(place, embedder, how), embedder, days, how.retention or ())


def _open_repaired(place: Path | str, embedder: Embedder, how: OpenOptions) -> StoreSession:
    """Open a place with its Chroma, and sweep it."""
    session = _begin(place, embedder, how)
    try:
        _connect(session)
    except DatabaseDamagedError:  # Chroma found it damaged; the next open rebuilds it
        session = _begin(place, embedder, how)
        _connect(session)
    return session


def _connect(session: StoreSession) -> None:
    try:
        try:
            session.connection.connect()
        except ChromaError as error:
            session.connection.degrade(error)
        if session.degraded_reason is None:
            try:
                sweep(session, RecordWriter(session), session.retention)
            except StoreUnavailableError as error:  # reads leave out expired records anyway
                _LOG.warning("%s: the sweep is left for later: %s", session.files.place, error)
    except BaseException:
        session.close()
        raise


def _check_options(session: StoreSession, embedder: Embedder, how: OpenOptions) -> None:
    """Check that who joins an open store wants it as it is open, as far as anything is stated."""
    files = session.files
    check_embedder(files.place, session.marker, embedder)
    if isinstance(files, OpenStoreFiles):
        check_server(files, how.server)
        key = None if how.server is None else how.server.api_key
        if key not in (None, files.api_key) and files.chroma_folder is None:
            raise InvalidInputError("api_key", "another key", f"the one with which {files.place} is open for writing")
    options: dict[str, tuple[object, object]] = {}
    if not isinstance(how.history_days, EllipsisType):
        options["history_days"] = (how.history_days, session.history_days)
    if how.retention is not None:
        options["retention"] = (how.retention, session.retention)
    if how.attributes is not None:
        options["indexed_attributes"] = (sorted(checked_paths(how.attributes)), sorted(indexed_paths(session.database)))
    for name, (wanted, present) in options.items():
        if wanted != present:
            raise InvalidInputError(name, wanted, f"{present!r}, as this process has {files.place} open for writing")
