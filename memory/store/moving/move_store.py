"""Moving a store between its backends (HOST-4): its tables as they are, resumably, and compared before it counts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from recall_loop.memory.store.chroma.chroma_clients import await_answer
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, is_server_note
from recall_loop.memory.store.embed.embedder_factory import as_embedder
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.store_place import checked_place, shown_place
from recall_loop.memory.store.moving.copied_tables import (
    TABLES,
    CopiedTable,
    TableSum,
    last_numbers,
    set_last_numbers,
    sum_table,
)
from recall_loop.memory.store.moving.move_ends import FRESH_PLACE, held_source, held_target
from recall_loop.memory.store.recovery.open_files import is_folder_note
from recall_loop.memory.store.recovery.repair import check_embedder
from recall_loop.memory.store.shared.open_schema import LOCATION_META_KEY
from recall_loop.memory.store.store import EmbedderInput, MemoryStore
from recall_loop.memory.store.tables.attribute_index import declare_paths, indexed_paths, is_index_note
from recall_loop.memory.store.tables.changes import COMMIT_META_KEY, marker_of
from recall_loop.memory.store.tables.database import MOVING_META_KEY, RE_EMBEDDING_META_KEY, Database, set_meta
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError

MoveProgress = Callable[[str, int], None]
"""Called with the table that is being copied and the number of rows copied so far."""
_TENANTS = "SELECT tenant, version FROM tenants ORDER BY tenant"
# Noted permanently: which store the target is a copy of.
_MOVED = "moved_from"
_OWN_NOTES = frozenset(
    [MOVING_META_KEY, RE_EMBEDDING_META_KEY, _MOVED, COMMIT_META_KEY, LOCATION_META_KEY, "store", "generation"]
)


@dataclass(frozen=True, slots=True)
class MoveReport:
    """A move that ended; both sides hold the same.

    Attributes:
        tables: rows and checksum of each table, by its name; the same on both sides.
        resumed: whether it went on where an earlier one had been cut off.
        done_before: whether an earlier one had copied everything, so that both sides were only compared.
    """

    tables: Mapping[str, TableSum]
    resumed: bool
    done_before: bool = False

    @property
    def records(self) -> int:
        """How many records were moved."""
        return self.tables["records"].rows


def move_store(
    source: str | Path,
    target: str | Path,
    *,
    embedder: EmbedderInput | None = None,
    url: str | None = None,
    progress: MoveProgress | None = None,
) -> MoveReport:
    """Copy a store to another backend, compare both sides, and build the target's index of vectors.

    The source is left as it is, and takes no writes meanwhile. The target is no store before all of it is there and was
    compared: a move that was cut off is taken up by the same call, from its start if the source has changed since. One
    that had ended is compared again.

    Args:
        source: a store's folder or address.
        target: a folder or schema without a store.
        embedder: the store's own; as in `MemoryStore.open`.
        url: Chroma server for the target's vectors; absent = a folder keeps them itself, PostgreSQL compares them.
        progress: called after each page.

    Raises:
        InvalidInputError: one of them is no place, or the target holds a store.
        EmbedderMismatchError: the store was made with another embedder; nothing was copied.
        StoreLockedError: another process writes one of the folders.
        StoreUnavailableError: one of them can't be read or written, the Chroma server doesn't answer, or the sides
            differ.
    """
    if url is not None:  # before anything is copied, which may take hours
        _check_server(url)
    origin, goal, chosen = checked_place(source, "source"), checked_place(target, "target"), as_embedder(embedder)
    with held_source(origin) as from_, held_target(goal, from_) as to:
        check_embedder(shown_place(origin), marker_of(from_), chosen)
        moving = _Moving(from_, to, progress)
        resumed = moving.begin(shown_place(goal))
        moving.copy()
        sums = moving.compare()
        moving.finish()
    _index_vectors(goal, chosen, url)
    return MoveReport(sums, resumed, moving.ended)


def _check_server(url: str) -> None:
    try:
        await_answer(ChromaServer(url))
    except OSError as error:
        words = "the Chroma server doesn't answer; nothing was copied"
        raise StoreUnavailableError(f"{url}: {words} ({error})", told=words) from error


def _index_vectors(goal: Path | str, embedder: Embedder, url: str | None) -> None:
    """Fill the target's Chroma; in PostgreSQL whoever opens it for writing sends what is pending."""
    if isinstance(goal, Path) or url is not None:
        with MemoryStore.open(goal, embedder=embedder, create=False, url=url, move=url is not None, defer=True) as new:
            new.maintenance.rebuild()


class _Moving:
    """One move on its way; how far it is stands among the target's notes, written with each page."""

    def __init__(self, source: Database, target: Database, progress: MoveProgress | None) -> None:
        self._source, self._target, self._progress = source, target, progress
        self._state: dict[str, Any] = {}
        self.ended = False

    def begin(self, place: str) -> bool:
        """Take up an earlier move, or begin; return whether it goes on where one was cut off."""
        fresh = {"from": marker_of(self._source)["store"], "stamp": self._stamp(), "table": 0, "after": None}
        known = self._target.meta()
        found = json.loads(known.get(MOVING_META_KEY, "null"))
        if found is not None and found["from"] != fresh["from"]:
            raise InvalidInputError("target", place, "a place without parts of another store that was moved there")
        if known and found is None:  # it was interrupted before its vector index existed, or it holds a store
            same = self._source.fetch(_TENANTS) == self._target.fetch(_TENANTS)
            if json.loads(known.get(_MOVED, "null")) != fresh or not same:
                raise InvalidInputError("target", place, FRESH_PLACE)
            self.ended, self._state = True, fresh | {"table": len(TABLES)}
            return False
        if found is not None and found["stamp"] == fresh["stamp"]:
            self._state = found
            return True
        self._state = fresh
        with self._target.transaction() as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table.name}")
            set_meta(connection, {MOVING_META_KEY: json.dumps(self._state)})
        return False

    def _stamp(self) -> str:
        """Return a mark of the source's state: every write raises the version of its tenant."""
        generation = self._source.generation()
        return sha256(json.dumps([generation, self._source.fetch(_TENANTS)]).encode()).hexdigest()

    def copy(self) -> None:
        """Copy what is missing."""
        done = 0
        for number in range(self._state["table"], len(TABLES)):
            table = TABLES[number]
            while not table.by_triggers and (rows := table.page(self._source, self._state["after"])):
                self._state |= {"table": number, "after": table.key_of(rows[-1])}
                self._write(table, rows)
                done += len(rows)
                if self._progress is not None:
                    self._progress(table.name, done)
            self._state |= {"table": number + 1, "after": None}

    def _write(self, table: CopiedTable, rows: list[tuple[Any, ...]]) -> None:
        with self._target.transaction() as connection:
            table.insert(connection, rows)
            set_meta(connection, {MOVING_META_KEY: json.dumps(self._state)})

    def compare(self) -> dict[str, TableSum]:
        """Count and sum up each table on both sides; where they differ, the next move starts over."""
        sums: dict[str, TableSum] = {}
        for table in TABLES:
            ours, theirs = sum_table(self._source, table), sum_table(self._target, table)
            if ours != theirs:
                if not self.ended:
                    self._target.set_meta({MOVING_META_KEY: json.dumps(self._state | {"stamp": ""})})
                counts = f"{ours.rows:,} rows in the source, {theirs.rows:,} in the target"
                raise StoreUnavailableError(f"{table.name} differs after the move ({counts}); move the store again")
            sums[table.name] = ours
        return sums

    def finish(self) -> None:
        """Make the target a store, with an identity of its own, since the source stays one."""
        if self.ended:
            return
        declare_paths(self._target, list(indexed_paths(self._source)))
        notes = {name: text for name, text in self._source.meta().items() if _is_moved(name)}
        own = {"store": uuid.uuid4().hex, "generation": uuid.uuid4().hex}
        own[_MOVED] = json.dumps(self._state | {"table": 0, "after": None})
        with self._target.transaction() as connection:
            set_last_numbers(self._target, connection, *last_numbers(self._source))
            set_meta(connection, notes | own)
            connection.execute("DELETE FROM meta WHERE key = ?", (MOVING_META_KEY,))


def _is_moved(note: str) -> bool:
    return not (note in _OWN_NOTES or is_server_note(note) or is_folder_note(note) or is_index_note(note))
