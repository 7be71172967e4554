"""mem0: its local vector store (Qdrant's or Chroma's), or what `get_all` gave, written to a file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from recall_loop.memory.intake.imports.external_json import iter_objects, load_json, to_json_text
from recall_loop.memory.intake.imports.external_memory import DefaultOwner, ImportItem, SourceError
from recall_loop.memory.intake.imports.external_pickles import read_point
from recall_loop.memory.intake.imports.external_sqlite import (
    copy_database,
    is_sqlite,
    iter_rows,
    open_readonly,
    table_names,
)
from recall_loop.memory.intake.imports.mem0_fields import Mem0History, memory_item, point_record_id
from recall_loop.memory.parsing.json_lines import InvalidLine
from recall_loop.state.errors import InvalidInputError

DEFAULT_COLLECTION = "mem0"
# What mem0 keeps beside the memories: names that occur in them, and a note of its own.
_INTERNAL_COLLECTIONS = ("mem0migrations",)
_ENTITIES = "_entities"
_QDRANT, _CHROMA = "meta.json", "chroma.sqlite3"
_PAGE = 1000


class _MemoryReader(Protocol):
    """Yields `(place, id, payload)`, or `(place, raw, InvalidLine)` for what can't be read."""

    def __call__(self) -> Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]: ...


class Mem0Source:
    """One collection of mem0.

    Args:
        path: the folder of the vector store, or a file with an export.
        owner: whose a memory is that names nobody.
        collection: its name. Absent = `mem0`, or the only one that there is.
        history: mem0's history file.
        expired: take memories too whose expiration date is over.

    Raises:
        SourceError: there is no store of mem0, or it can't be read.
        InvalidInputError: there is no such collection.
    """

    def __init__(
        self,
        path: Path,
        owner: DefaultOwner,
        *,
        collection: str | None = None,
        history: Path | None = None,
        expired: bool = False,
    ) -> None:
        self.path = path
        self._owner = owner
        self._expired = expired
        self._history = Mem0History(history) if history else None
        self.description, self._memories = _open(path, collection)

    def items(self) -> Iterator[ImportItem]:
        """Yield the memories, then the messages of the history file."""
        for place, name, payload in self._memories():
            if isinstance(payload, InvalidLine):
                yield ImportItem(place, payload.raw, reason=payload.reason)
                continue
            events = self._history.events_of(name) if self._history else []
            yield memory_item(place, name, payload, self._owner, events, expired=self._expired)
        if self._history:
            yield from self._history.messages(self._owner)


def _open(path: Path, collection: str | None) -> tuple[str, _MemoryReader]:
    if (path / _QDRANT).is_file():
        name = _choose_collection(path, collection, _qdrant_collections(path))
        return f"mem0, collection {name} (Qdrant)", lambda: _qdrant(path / "collection" / name / "storage.sqlite")
    if (path / _CHROMA).is_file():
        name = _choose_collection(path, collection, _chroma_collections(path))
        return f"mem0, collection {name} (Chroma)", lambda: _chroma(path, name)
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    if path.is_dir():
        raise SourceError(
            f"{path}: no local vector store of mem0; it is the folder with {_QDRANT} (Qdrant) or {_CHROMA} (Chroma), "
            "named by vector_store.config.path"
        )
    if is_sqlite(path):
        raise SourceError(f"{path}: an SQLite file; name the folder of the vector store, and a history file as such")
    if collection is not None:
        raise InvalidInputError("collection", collection, "none for an export")
    return "mem0, export", lambda: _export(path)


def _choose_collection(path: Path, wanted: str | None, there: list[str]) -> str:
    memories = [name for name in there if name not in _INTERNAL_COLLECTIONS and not name.endswith(_ENTITIES)]
    if wanted is not None and wanted in there:
        return wanted
    if wanted is None and DEFAULT_COLLECTION in memories:
        return DEFAULT_COLLECTION
    if wanted is None and len(memories) == 1:
        return memories[0]
    raise InvalidInputError("collection", wanted, f"one of {path}: {', '.join(sorted(there)) or 'there is none'}")


def _qdrant_collections(path: Path) -> list[str]:
    try:
        found = json.loads((path / _QDRANT).read_text(encoding="utf-8"))
        names = list(found["collections"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError(f"{path / _QDRANT}: not Qdrant's list of collections") from error
    # A name is a folder's: whoever wrote the list must not lead us elsewhere.
    return [name for name in names if isinstance(name, str) and name == Path(name).name and name not in ("", "..")]


def _qdrant(file: Path) -> Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]:
    with open_readonly(file) as connection:
        if "points" not in table_names(connection):
            raise SourceError(f"{file}: no points of Qdrant in it")
        for number, row in iter_rows(connection, "points", ["point"]):
            place, data = f"point {number}", row.get("point")
            try:
                given, payload = read_point(data if isinstance(data, bytes) else b"")
            except ValueError as error:
                yield (
                    place,
                    "",
                    InvalidLine(str(error), repr(data[:200]) if isinstance(data, bytes) else to_json_text(data)),
                )
            else:
                yield f"point {given}", point_record_id(given), payload


def _chroma_collections(path: Path) -> list[str]:
    with open_readonly(path / _CHROMA) as connection:
        if "collections" not in table_names(connection):
            raise SourceError(f"{path / _CHROMA}: no collections of Chroma in it")
        return [str(row["name"]) for _, row in iter_rows(connection, "collections", ["name"])]


def _chroma(path: Path, name: str) -> Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]:
    """Read a copy of the database, through Chroma: opening a store of an older version changes its files."""
    with tempfile.TemporaryDirectory(prefix="recall-loop-import-") as folder:
        copy_database(path / _CHROMA, Path(folder) / _CHROMA)
        yield from _chroma_rows(path, Path(folder), name)


def _chroma_rows(path: Path, folder: Path, name: str) -> Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]:
    from chromadb.errors import ChromaError

    from recall_loop.memory.store.chroma.chroma_client import open_client

    client = None
    try:
        client = open_client(folder)
        collection = client.get_collection(name, embedding_function=None)
        for start in range(0, collection.count(), _PAGE):
            page = collection.get(limit=_PAGE, offset=start, include=["metadatas", "documents"])
            for given, payload, document in zip(page["ids"], page["metadatas"], page["documents"], strict=True):
                # Chroma gives them in another order each time, and equal records are told by equal text.
                fields = dict(sorted((payload or {}).items()))
                if document is not None:
                    fields.setdefault("data", document)
                yield f"record {given}", str(given), fields
    except (ChromaError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: Chroma can't read it: {error}") from error
    finally:
        if client is not None:
            client.close()


def _export(path: Path) -> Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]:
    value = load_json(path)
    if isinstance(value, dict) and isinstance(value.get("results"), list):
        value = value["results"]
    for place, found in iter_objects(path, value, "what mem0's get_all gives"):
        if isinstance(found, InvalidLine):
            yield place, "", found
        elif not isinstance(found.get("id"), str | int) or isinstance(found["id"], bool):
            yield place, "", InvalidLine("id: missing; every memory of mem0 has one", to_json_text(found))
        else:
            yield place, point_record_id(found["id"]), _payload(found)


def _payload(found: dict[str, Any]) -> dict[str, Any]:
    """Return an exported memory as the vector store holds it."""
    inner = found.get("metadata")
    outer = {key: value for key, value in found.items() if key not in ("id", "memory", "metadata", "score")}
    if inner is not None and not isinstance(inner, dict):
        outer["metadata"] = inner
        inner = None
    given = {key: value for key, value in outer.items() if value is not None}
    return {**(inner or {}), **given, "data": found.get("memory", found.get("data"))}
