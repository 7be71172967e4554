"""`AsyncMemory`: the same as `Memory` for an event loop (API-1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from recall_loop.graph.memories.memory import Memory
from recall_loop.graph.request_parsing import RequestInput, parse_request
from recall_loop.graph.run import aretrieve, request_in_scope
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.memory.store.store import EmbedderInput, MemoryStore
from recall_loop.state.errors import StoreUnusableError
from recall_loop.state.records.records import Record
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings

_P = ParamSpec("_P")
_T = TypeVar("_T")
_EXPORTED_AT_ONCE = 100


def _in_thread(
    method: Callable[Concatenate[Memory, _P], _T],
) -> Callable[Concatenate[AsyncMemory, _P], Coroutine[Any, Any, _T]]:
    """Return a method of `Memory` for an event loop, with the same arguments: it runs in a thread."""

    @wraps(method)
    async def run(self: AsyncMemory, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, await self.memory(), *args, **options)

    run.__doc__ = f"As `Memory.{method.__name__}`."
    return run


class AsyncMemory:
    """`Memory` for an event loop: the same arguments, results and errors, with nothing blocking on the loop.

        async with AsyncMemory("./my-memory") as memory:
            await memory.add("I moved to Bergen in May.", user_id="ada")
            print((await memory.recall("Where do I live?", user_id="ada")).context)

    The store is opened when it is first used, or with `async with`, in a thread.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        store: MemoryStore | None = None,
        settings: Settings | None = None,
        llm: ChatModel | str | None = None,
        embedder: EmbedderInput | None = None,
    ) -> None:
        """As `Memory`; what can only be known by opening the store is raised when it is first used."""
        if path is not None:
            checked_place(path)
        self._open = partial(Memory, path, store=store, settings=settings, llm=llm, embedder=embedder)
        self._llm = llm
        self._memory: Memory | None = None
        self._closed = False
        self._lock = threading.Lock()

    def _opened(self) -> Memory:
        with self._lock:
            if self._memory is None:
                if self._closed:
                    raise StoreUnusableError("the memory is closed")
                self._memory = self._open()
            return self._memory

    def _close(self) -> None:
        with self._lock:  # an open that has begun finishes first
            self._closed = True
            if self._memory is not None:
                self._memory.close()

    async def memory(self) -> Memory:
        """Return the underlying memory, opened, for synchronous use."""
        return await asyncio.to_thread(self._opened) if self._memory is None else self._memory

    async def __aenter__(self) -> Self:
        await self.memory()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store that was opened here; a second call does nothing."""
        await asyncio.to_thread(self._close)

    add = _in_thread(Memory.add)
    """As `Memory.add`."""

    search = _in_thread(Memory.search)
    """As `Memory.search`."""

    get = _in_thread(Memory.get)
    """As `Memory.get`."""

    list = _in_thread(Memory.list)
    """As `Memory.list`."""

    update = _in_thread(Memory.update)
    """As `Memory.update`."""

    history = _in_thread(Memory.history)
    """As `Memory.history`."""

    forget = _in_thread(Memory.forget)
    """As `Memory.forget`."""

    delete = _in_thread(Memory.delete)
    """As `Memory.delete`."""

    async def recall(
        self,
        question: RequestInput,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        **fields: Any,
    ) -> RetrieveResult:
        """As `Memory.recall`."""
        memory = await self.memory()
        request = request_in_scope(
            parse_request(question, fields, "question"), user_id, agent_id, conversation_id, tenant
        )
        return await aretrieve(request, store=memory.store, settings=memory.settings, llm=self._llm)

    @overload
    async def export(
        self,
        path: str | Path,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> int: ...

    @overload
    async def export(
        self,
        path: None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> AsyncIterator[Record]: ...

    async def export(
        self,
        path: str | Path | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> int | AsyncIterator[Record]:
        """As `Memory.export`; without a path: `async for record in await memory.export()`."""
        memory = await self.memory()
        wanted: partial[Any] = partial(
            memory.export, user_id=user_id, agent_id=agent_id, conversation_id=conversation_id, tenant=tenant
        )
        if path is not None:
            return await asyncio.to_thread(partial(wanted, path))
        return _in_threads(await asyncio.to_thread(wanted))


async def _in_threads(records: Iterator[Record]) -> AsyncIterator[Record]:
    while part := await asyncio.to_thread(lambda: list(islice(records, _EXPORTED_AT_ONCE))):
        for record in part:
            yield record
