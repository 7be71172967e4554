"""mem0: its local vector store (Qdrant's or Chroma's), or what `get_all` gave, written to a file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.imports.external_memory import (
    DefaultOwner,
    ImportItem,
    SourceError,
    iter_objects,
    load_json,
    to_json_text,
)
from recall_loop.memory.intake.imports.external_sqlite import (
    column_names,
    copy_database,
    is_sqlite,
    iter_rows,
    open_readonly,
    read_point,
)
from recall_loop.memory.intake.imports.mem0_fields import Mem0History, memory_item, point_record_id
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.state.errors import InvalidInputError

DEFAULT_COLLECTION = "mem0"
# Collections that hold no memories: entity names, and mem0's own migration notes.
_INTERNAL_COLLECTIONS = ("mem0migrations",)
_ENTITIES = "_entities"
_QDRANT, _CHROMA = "meta.json", "chroma.sqlite3"
_PAGE = 1000


# Location, id and payload of each memory; an `InvalidLine` instead of a payload that can't be read.
_Memories = Iterator[tuple[str, str, dict[str, Any] | InvalidLine]]


class Mem0Source:
    """One collection of mem0.

    Args:
        path: the folder of the vector store, or a file with an export.
        owner: owner of memories that name none.
        collection: its name. Absent = `mem0`, or the only one that there is.
        history: mem0's history file.
        expired: also take memories whose expiration date is over.

    Raises:
        SourceError: there is no store of mem0, or it can't be read.
        InvalidInputError: there is no such collection.
    """

    def __init__(
        self,
        path: str | Path,
        owner: DefaultOwner,
        *,
        collection: str | None = None,
        history: str | Path | None = None,
        expired: bool = False,
    ) -> None:
        self.path = checked_file(path)
        self._owner = owner
        self._expired = expired
        self._history = Mem0History(checked_file(history, "history")) if history else None
        self.description, self._memories = _open(self.path, collection)

    def items(self) -> Iterator[ImportItem]:
        """Yield the memories, then the messages of the history file."""
        for location, memory_id, payload in self._memories():
            if isinstance(payload, InvalidLine):
                yield ImportItem(location, payload.raw, reason=payload.reason)
                continue
            events = self._history.events_of(memory_id) if self._history else []
            yield memory_item(location, memory_id, payload, self._owner, events, expired=self._expired)
        if self._history:
            yield from self._history.messages(self._owner)


def _open(path: Path, collection: str | None) -> tuple[str, Callable[[], _Memories]]:
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
            f"{path}: not a local mem0 vector store, the folder with {_QDRANT} (Qdrant) or {_CHROMA} (Chroma), "
            "named by vector_store.config.path"
        )
    if is_sqlite(path):
        raise SourceError(f"{path}: an SQLite file; name the folder of the vector store, and a history file as such")
    if collection is not None:
        raise InvalidInputError("collection", collection, "none for an export")
    return "mem0, export", lambda: _export(path)


def _choose_collection(path: Path, wanted: str | None, names: list[str]) -> str:
    memories = [name for name in names if name not in _INTERNAL_COLLECTIONS and not name.endswith(_ENTITIES)]
    if wanted is not None and wanted in names:
        return wanted
    if wanted is None and DEFAULT_COLLECTION in memories:
        return DEFAULT_COLLECTION
    if wanted is None and len(memories) == 1:
        return memories[0]
    raise InvalidInputError("collection", wanted, f"one of {path}: {', '.join(sorted(names)) or 'there is none'}")


def _qdrant_collections(path: Path) -> list[str]:
    try:
        names = list(json.loads((path / _QDRANT).read_text(encoding="utf-8"))["collections"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError(f"{path / _QDRANT}: not Qdrant's list of collections") from error
    # A name becomes a folder's: a crafted list must not lead outside.
    return [name for name in names if isinstance(name, str) and name == Path(name).name and name not in ("", "..")]


def _qdrant(file: Path) -> _Memories:
    with open_readonly(file) as connection:
        if not column_names(connection, "points"):
            raise SourceError(f"{file}: has no Qdrant points")
        for number, row in iter_rows(connection, "points", ["point"]):
            data = row.get("point")
            try:
                point_id, payload = read_point(data if isinstance(data, bytes) else b"")
            except ValueError as error:
                raw = repr(data[:200]) if isinstance(data, bytes) else to_json_text(data)
                yield f"point {number}", "", InvalidLine(str(error), raw)
            else:
                yield f"point {point_id}", point_record_id(point_id), payload


def _chroma_collections(path: Path) -> list[str]:
    with open_readonly(path / _CHROMA) as connection:
        if not column_names(connection, "collections"):
            raise SourceError(f"{path / _CHROMA}: has no Chroma collections")
        return [str(row["name"]) for _, row in iter_rows(connection, "collections", ["name"])]


def _chroma(path: Path, name: str) -> _Memories:
    """Read a copy of the database, through Chroma: opening a store of an older version changes its files."""
    with tempfile.TemporaryDirectory(prefix="recall-loop-import-") as folder:
        copy_database(path / _CHROMA, Path(folder) / _CHROMA)
        yield from _chroma_rows(path, Path(folder), name)


def _chroma_rows(path: Path, folder: Path, name: str) -> _Memories:
    from chromadb.errors import ChromaError

    from recall_loop.memory.store.chroma.chroma_clients import open_client

    client = None
    try:
        client = open_client(folder)
        collection = client.get_collection(name, embedding_function=None)
        for start in range(0, collection.count(), _PAGE):
            page = collection.get(limit=_PAGE, offset=start, include=["metadatas", "documents"])
            for record_id, payload, document in zip(page["ids"], page["metadatas"], page["documents"], strict=True):
                # Chroma gives fields in another order each time; equal records are recognised by equal text.
                fields = dict(sorted((payload or {}).items()))
                if document is not None:
                    fields.setdefault("data", document)
                yield f"record {record_id}", str(record_id), fields
    except (ChromaError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: Chroma can't read it: {error}") from error
    finally:
        if client is not None:
            client.close()


def _export(path: Path) -> _Memories:
    value = load_json(path)
    if isinstance(value, dict) and isinstance(value.get("results"), list):
        value = value["results"]
    for location, memory in iter_objects(path, value, "the output of mem0's get_all"):
        if isinstance(memory, InvalidLine):
            yield location, "", memory
        elif not isinstance(memory.get("id"), str | int) or isinstance(memory["id"], bool):
            yield location, "", InvalidLine("id: missing; every memory of mem0 has one", to_json_text(memory))
        else:
            yield location, point_record_id(memory["id"]), _payload(memory)


def _payload(memory: dict[str, Any]) -> dict[str, Any]:
    """Return an exported memory as the vector store holds it."""
    metadata = memory.get("metadata")
    inner = metadata if isinstance(metadata, dict) else {}
    outer = {key: value for key, value in memory.items() if key not in ("id", "memory", "metadata", "score")}
    if not isinstance(metadata, dict):
        outer["metadata"] = metadata
    given = {key: value for key, value in outer.items() if value is not None}
    return {**inner, **given, "data": memory.get("memory", memory.get("data"))}
