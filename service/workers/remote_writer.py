"""The store as a worker has it: read here, written by the process that owns it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.sqlite.prepared_records import WriteOutcome
from recall_loop.memory.store.store import UPSERT_CHUNK, MemoryStore
from recall_loop.service.core.ipc_protocol import OwnerAwayError, pack, raise_error, unpack
from recall_loop.state.cancellation import given_up
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.scope import DEFAULT_TENANT, Scope

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.state.settings.settings import Settings

_LOOK_SECONDS = 0.5
_LONGEST_SECONDS = 3600.0


class ForwardingStore(MemoryStore):
    """A store that is open for reading, and hands writes to its owner over a Unix socket.

    A write is acknowledged when the owner has acknowledged it. If the owner goes away meanwhile the call raises
    `OwnerAwayError`: the write may or may not have happened, and repeating it is safe.

    Attributes:
        owner: the owner's socket; None until `open_forwarding` has set it.
    """

    owner: Path | None = None

    @property
    def writable(self) -> bool:
        """Writes are taken, though not by this process."""
        return True

    def upsert(
        self, records: Iterable[Record | Mapping[str, Any]], *, tenant: str = DEFAULT_TENANT
    ) -> list[WriteOutcome]:
        """As `MemoryStore.upsert`, by the owner, 1,000 records at a time."""
        if isinstance(records, Record | Mapping | str | bytes):
            raise InvalidInputError("records", records, "a list of records")
        outcomes: list[WriteOutcome] = []
        source, first = iter(records), True
        while (chunk := list(islice(source, UPSERT_CHUNK))) or first:  # an empty call is checked there too
            first = False
            answer = self._ask({"op": "upsert", "tenant": tenant, "records": chunk})
            base = len(outcomes)
            outcomes += [WriteOutcome(**{**one, "index": base + one["index"]}) for one in answer["outcomes"]]
        return outcomes

    def delete(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """As `MemoryStore.delete`, by the owner."""
        if isinstance(ids, str | bytes):
            raise InvalidInputError("ids", ids, "a list of ids")
        return int(self._ask({"op": "delete", "tenant": tenant, "ids": list(ids)})["count"])

    def erase(self, scope: Scope) -> int:
        """As `MemoryStore.erase`, by the owner."""
        return int(self._ask({"op": "erase", "scope": scope.model_dump(mode="json")})["count"])

    def compact(self, *, progress: Any = None) -> None:
        """As `MemoryStore.compact`, by the owner; it tells no progress."""
        self._ask({"op": "compact"})

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.owner is None:
            raise OwnerAwayError("nobody writes to this store")
        try:
            with Client(str(self.owner), family="AF_UNIX") as connection:
                connection.send_bytes(pack(message))
                answer = _answer(connection)
        except (OSError, EOFError) as error:
            raise OwnerAwayError(
                "the process that writes went away: not acknowledged; repeating the call is safe"
            ) from error
        raise_error(answer)
        return answer


def _answer(connection: Connection) -> dict[str, Any]:
    """Wait for the owner's answer, as long as somebody waits for ours."""
    nobody_waits, end = given_up(), time.monotonic() + _LONGEST_SECONDS
    while not connection.poll(_LOOK_SECONDS):
        if (nobody_waits is not None and nobody_waits.is_set()) or time.monotonic() > end:
            raise OwnerAwayError("the write took too long: not acknowledged; repeating the call is safe")
    return unpack(connection.recv_bytes())


def open_forwarding(owner: Path, settings: Settings, embedder: Embedder) -> ForwardingStore:
    """Open the store that the settings name for reading, and forward writes to `owner`.

    Raises:
        StoreError: it can't be opened.
    """
    from recall_loop.memory.store.chroma.chroma_server import chroma_server

    path, url = str(settings.store_path), chroma_server(settings)
    store = ForwardingStore.open(path, embedder=embedder, create=False, read_only=True, url=url)
    if not isinstance(store, ForwardingStore):
        raise TypeError("a store opens as the class that was asked")
    store.owner = owner
    return store
