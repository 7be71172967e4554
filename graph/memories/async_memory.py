"""`AsyncMemory`: the same as `Memory` for an event loop (API-1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from langchain_core.language_models import BaseChatModel

from recall_loop.graph.memories.memory import FiltersInput, Hits, Memory, Versions
from recall_loop.graph.memories.opening_place import check_place
from recall_loop.graph.memories.questions import QuestionInput, request_of
from recall_loop.graph.run import aretrieve
from recall_loop.memory.intake.conversations.additions import KEPT_ROLES, AddResult
from recall_loop.memory.store.forgetting import ForgetReport
from recall_loop.memory.store.record_writer import OnReject
from recall_loop.memory.store.sqlite.record_queries import RecordPage
from recall_loop.memory.store.store import EmbedderInput, MemoryStore
from recall_loop.memory.store.store_reading import ContentTypeNames
from recall_loop.state.records.records import Record
from recall_loop.state.result import RetrieveResult
from recall_loop.state.scope import RetentionRule
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import Role, ScopeMode

_P = ParamSpec("_P")
_T = TypeVar("_T")
_EXPORTED_AT_ONCE = 100


class AsyncMemory:
    """`Memory` for an event loop: the same arguments, results and errors, and nothing that blocks runs on the loop.

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
        llm: BaseChatModel | str | None = None,
        embedder: EmbedderInput | None = None,
    ) -> None:
        """As `Memory`; what can only be known by opening the store is raised when it is first used."""
        check_place(path)
        self._open = partial(Memory, path, store=store, settings=settings, llm=llm, embedder=embedder)
        self._llm = llm
        self._memory: Memory | None = None
        self._closed = False
        self._lock = threading.Lock()

    def _opened(self) -> Memory:
        with self._lock:
            if self._memory is None:
                self._memory = self._open()
            return self._memory

    async def memory(self) -> Memory:
        """Return the memory below, opened, for what has to be done without waiting."""
        return await asyncio.to_thread(self._opened) if self._memory is None else self._memory

    async def _run(self, method: Callable[_P, _T], *args: _P.args, **options: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, *args, **options)

    async def __aenter__(self) -> Self:
        """Open the memory, and return it."""
        await self.memory()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory."""
        await self.close()

    async def close(self) -> None:
        """Close the store that was opened here; a second call does nothing."""
        if self._memory is not None:
            await self._run(self._memory.close)

    async def add(
        self,
        content: object,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
        infer: bool = False,
        roles: Collection[Role | str] = KEPT_ROLES,
        actor: str | None = None,
        on_reject: OnReject = "raise",
    ) -> AddResult:
        """As `Memory.add`."""
        memory = await self.memory()
        return await self._run(
            memory.add,
            content,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
            session=session,
            infer=infer,
            roles=roles,
            actor=actor,
            on_reject=on_reject,
        )

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        scope: ScopeMode | str = ScopeMode.LOCAL,
        limit: int = 10,
        filters: FiltersInput | None = None,
        **options: Any,
    ) -> Hits:
        """As `Memory.search`."""
        memory = await self.memory()
        return await self._run(
            memory.search,
            query,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
            scope=scope,
            limit=limit,
            filters=filters,
            **options,
        )

    async def recall(
        self,
        question: QuestionInput,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        **fields: Any,
    ) -> RetrieveResult:
        """As `Memory.recall`."""
        memory = await self.memory()
        return await aretrieve(
            request_of(question, fields),
            store=memory.store,
            settings=memory.settings,
            llm=self._llm,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
        )

    async def get(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> Record | None:
        """As `Memory.get`."""
        memory = await self.memory()
        return await self._run(
            memory.get, record_id, user_id=user_id, agent_id=agent_id, conversation_id=conversation_id, tenant=tenant
        )

    async def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        filters: FiltersInput | None = None,
        content_types: ContentTypeNames | None = None,
        limit: int = 100,
        after: str = "",
    ) -> RecordPage:
        """As `Memory.list`."""
        memory = await self.memory()
        return await self._run(
            memory.list,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
            filters=filters,
            content_types=content_types,
            limit=limit,
            after=after,
        )

    async def update(
        self, record_id: str, *, tenant: str | None = None, actor: str | None = None, **changes: Any
    ) -> Record:
        """As `Memory.update`."""
        memory = await self.memory()
        return await self._run(memory.update, record_id, tenant=tenant, actor=actor, **changes)

    async def history(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> Versions:
        """As `Memory.history`."""
        memory = await self.memory()
        return await self._run(
            memory.history,
            record_id,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
        )

    async def forget(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        filters: FiltersInput | None = None,
        rule: RetentionRule | Mapping[str, Any] | None = None,
        content_types: ContentTypeNames | None = None,
        dry_run: bool = False,
    ) -> ForgetReport:
        """As `Memory.forget`."""
        memory = await self.memory()
        return await self._run(
            memory.forget,
            user_id=user_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tenant=tenant,
            filters=filters,
            rule=rule,
            content_types=content_types,
            dry_run=dry_run,
        )

    async def delete(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> bool:
        """As `Memory.delete`."""
        memory = await self.memory()
        return await self._run(
            memory.delete, record_id, user_id=user_id, agent_id=agent_id, conversation_id=conversation_id, tenant=tenant
        )

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
