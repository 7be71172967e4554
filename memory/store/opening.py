"""Opening a store's folder: paths, lock, sidecar, generation marker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.memory.store import recovery
from recall_loop.memory.store.chroma_side import ChromaError, ChromaSide
from recall_loop.memory.store.lock import WriterLock
from recall_loop.memory.store.schema import METRIC, SCHEMA_VERSION
from recall_loop.memory.store.sidecar import Sidecar, set_meta
from recall_loop.state.errors import (
    EmbedderMismatchError,
    StoreReadOnlyError,
    StoreUnavailableError,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recall_loop.memory.store.embeddings import Embedder

SIDECAR = "sidecar.sqlite3"
CHROMA = "chroma"
_ENDED, _OPEN, _CLOSED = "writer", "open", "closed"


@dataclass
class Opened:
    """What is open: the sidecar, and for a writer of a folder the lock.

    `unclean` means that the last writer ended without closing, and Chroma wasn't tried since.
    """

    path: Path | None
    sidecar: Sidecar
    read_only: bool = False
    lock: WriterLock | None = None
    unclean: bool = False

    def close(self) -> None:
        """Note a clean end, close the sidecar, then give the lock back."""
        try:
            if self.lock is not None and not self.unclean:
                self._note(_CLOSED)
        finally:
            self.sidecar.close()
            if self.lock is not None:
                self.lock.release()
                self.lock = None

    def begin(self) -> None:
        """Note that a writer is at work, and whether the last one ended without closing."""
        self.unclean = self.sidecar.meta().get(_ENDED) == _OPEN
        self._note(_OPEN)

    def _note(self, state: str) -> None:
        with self.sidecar.transaction() as connection:
            set_meta(connection, {_ENDED: state})


def default_embedder() -> Embedder:
    """Return the embedder for stores that name none."""
    from recall_loop.memory.store.embeddings import MiniLmEmbedder

    return MiniLmEmbedder()


def chroma_folder(path: Path) -> Path:
    """Return Chroma's folder within a store."""
    return path / CHROMA


def open_memory(embedder: Embedder) -> Opened:
    """Open a new store in memory."""
    sidecar = Sidecar(None)
    with sidecar.transaction() as connection:
        set_meta(connection, recovery.new_marker(embedder))
    return Opened(None, sidecar)


def open_folder(path: Path, embedder: Embedder, *, create: bool, read_only: bool, re_embed: bool) -> Opened:
    """Open a folder's sidecar, making or repairing it as needed; see `MemoryStore.open`."""
    _check_path(path, create=create, read_only=read_only)
    if read_only:
        opened = Opened(path, Sidecar(path / SIDECAR, read_only=True), read_only=True)
    else:
        opened = _open_locked(path, embedder)
    try:
        _check_marker(opened, embedder, re_embed=re_embed and not read_only)
        if not read_only:
            opened.begin()
    except BaseException:
        opened.close()
        raise
    return opened


def _check_path(path: Path, *, create: bool, read_only: bool) -> None:
    if "\x00" in str(path):
        raise StoreUnavailableError(f"{shown(str(path))}: not a path; it holds a NUL character")
    try:
        is_file = path.exists() and not path.is_dir()
        found = (path / SIDECAR).exists()
        rebuildable = (path / CHROMA / "chroma.sqlite3").exists()
    except OSError as error:
        raise StoreUnavailableError(f"{path}: the store can't be opened: {error.strerror}") from error
    if is_file:
        raise StoreUnavailableError(f"{path}: is a file; a store is a folder")
    if read_only and not found and rebuildable:
        raise StoreUnavailableError(f"{path}: the sidecar is missing; open it once for writing to rebuild it")
    if not found and not rebuildable and (read_only or not create):
        raise StoreUnavailableError(f"{path}: no store there")


def _open_locked(path: Path, embedder: Embedder) -> Opened:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise StoreReadOnlyError(f"{path}: the folder can't be written; open it with read_only=True")
        lock = WriterLock(path)
    except PermissionError as error:
        raise StoreReadOnlyError(f"{path}: the folder can't be written: {error.strerror}") from error
    except OSError as error:
        raise StoreUnavailableError(f"{path}: the store can't be opened: {error.strerror}") from error
    try:
        return Opened(path, _writable_sidecar(path, embedder), lock=lock)
    except BaseException:
        lock.release()
        raise


def _writable_sidecar(path: Path, embedder: Embedder) -> Sidecar:
    """Open, make or rebuild the sidecar."""
    sidecar = Sidecar(path / SIDECAR)
    try:
        if recovery.marker_of(sidecar):
            return sidecar
        if (path / CHROMA / "chroma.sqlite3").exists():
            sidecar.close()
            return _rebuilt(path, embedder)
        with sidecar.transaction() as connection:
            set_meta(connection, recovery.new_marker(embedder))
        return sidecar
    except BaseException:
        sidecar.close()
        raise


def _rebuilt(path: Path, embedder: Embedder) -> Sidecar:
    """Rebuild a missing sidecar from Chroma; the marker is Chroma's own."""
    file = path / SIDECAR
    try:
        chroma = ChromaSide(path / CHROMA, {})
        try:
            marker = {**recovery.new_marker(embedder), **chroma.noted()}
            _check_embedder(path, marker, embedder)
            recovery.sidecar_from_chroma(file, chroma, marker, embedder)
        finally:
            chroma.close()
    except ChromaError as error:
        raise StoreUnavailableError(
            f"{path}: the sidecar is missing and can't be rebuilt from Chroma: {error}"
        ) from error
    return Sidecar(file)


def _check_marker(opened: Opened, embedder: Embedder, *, re_embed: bool) -> None:
    marker = recovery.marker_of(opened.sidecar)
    if not marker:
        raise StoreUnavailableError(f"{opened.path}: the store was never finished; open it once for writing")
    if int(marker["schema"]) != SCHEMA_VERSION or marker["metric"] != METRIC:
        raise StoreUnavailableError(
            f"{opened.path}: made with schema {marker['schema']} and metric {marker['metric']}; "
            f"this version reads schema {SCHEMA_VERSION} and {METRIC}"
        )
    if re_embed and marker["fingerprint"] != embedder.fingerprint:
        recovery.re_embed(opened.sidecar, embedder)
        return
    _check_embedder(opened.path, marker, embedder)


def _check_embedder(path: Path | None, marker: Mapping[str, str], embedder: Embedder) -> None:
    if marker["fingerprint"] != embedder.fingerprint:
        raise EmbedderMismatchError(
            f"{path}: made with embedder {marker['fingerprint']} (dimension {marker['dimension']}), "
            f"opened with {embedder.fingerprint}. Open it with its own embedder, or embed everything anew: "
            f"recall-loop store rebuild --store {path} --re-embed"
        )


def reader_chroma(path: Path | None, marker: Mapping[str, str]) -> ChromaSide:
    """Open Chroma for a reader, which never makes or repairs anything.

    Raises:
        ChromaError: it is missing, can't be opened, or belongs to another generation.
    """
    if path is None or not (path / CHROMA / "chroma.sqlite3").exists():
        raise ChromaError("Chroma's files are missing; open the store once for writing")
    chroma = ChromaSide(path / CHROMA, marker, create=False)
    if chroma.marker() != dict(marker):
        chroma.close()
        raise ChromaError("Chroma is of another generation; open the store once for writing")
    return chroma
