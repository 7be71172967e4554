"""The reading half of `Memory`: search, recall, single records and pages, history, export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from pydantic import BaseModel

from recall_loop.memory.intake.files.record_lines import export_line
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.files.store_files import atomic_file
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.store_reading import ContentTypeNames, check_id
from recall_loop.memory.store.tables.record_queries import RecordPage
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record, RecordVersion, SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import Limit, SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ScopeMode

if TYPE_CHECKING:
    from recall_loop.graph.request_parsing import RequestInput
    from recall_loop.llm.endpoint.wrapped_models import ChatModel
    from recall_loop.state.result import RetrieveResult

FiltersInput = Filters | Mapping[str, Any]
Hits = list[SearchHit]
Versions = list[RecordVersion]


class MemoryReading:
    """The reading methods of `Memory`, each narrowed by a flat scope.

    Attributes:
        store: the store below, for everything that isn't here.
        settings: the settings of all calls.
    """

    def __init__(self, store: MemoryStore, settings: Settings, llm: ChatModel | str | None) -> None:
        self.store, self.settings, self._llm = store, settings, llm

    def search(
        self,
        /,
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
        """Search once, and return the hits, best first.

        Args:
            query: what to look for; may end in a time, such as `< 3 days`.
            user_id: only records of this user.
            agent_id: only records of this agent.
            conversation_id: only records of this conversation.
            tenant: the tenant.
            scope: `local`, or `constellation`: the agents of the agent's group too.
            limit: most hits, 1 to 1,000; of each content type unless `limit_per_type=False`.
            filters: conditions that every hit meets: `Filters`, or its fields.
            options: further fields of `SearchParams`, such as `content_types`, `mode`, `fuzzy`, `order_by`.

        Raises:
            InvalidInputError: an argument isn't allowed.
            StoreError: the store can't be read.
            EmbedderError: the embedder fails and the mode needs it; `recall` and `recall_loop.search` go on by words.
        """
        reach = self._scope(user_id, agent_id, conversation_id, tenant, scope)
        params = validate_model(
            SearchParams, {**options, "limit": limit, "filters": chosen_filters(filters) or Filters()}
        )
        return list(search(self.store, query, scope=reach, params=params, fallback=False).hits)

    def recall(
        self,
        question: RequestInput,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        **fields: Any,
    ) -> RetrieveResult:
        """Search in rounds until there is enough new evidence, and return it ranked, with confidence and context.

        Args:
            question: a question as text or as a message, the messages of a conversation whose last is the question, or
                a `RetrieveRequest` or its fields.
            user_id: only records of this user.
            agent_id: only records of this agent.
            conversation_id: only records of this conversation.
            tenant: the tenant.
            fields: further fields of `RetrieveRequest`, such as `goal`, `filters`, `max_facts`, `reference_time`.

        Raises:
            InvalidInputError: an argument isn't allowed, or the request names another scope.
            StoreError: the store can't be read.
        """
        from recall_loop.graph.request_parsing import parse_request  # writing and searching alone don't need LangGraph
        from recall_loop.graph.run import request_in_scope, retrieve

        request = request_in_scope(
            parse_request(question, fields, "question"), user_id, agent_id, conversation_id, tenant
        )
        return retrieve(request, store=self.store, settings=self.settings, llm=self._llm)

    def get(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> Record | None:
        """Return a record; None if the given scope has none with this id.

        Raises:
            InvalidInputError: an argument is no text.
            StoreError: the store can't be read.
        """
        return self._held(record_id, self._scope(user_id, agent_id, conversation_id, tenant))

    def _held(self, record_id: str, reach: Scope) -> Record | None:
        check_id(record_id)
        return next(iter(self.store.get([record_id], scope=reach)), None)

    def list(
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
        """Return a page of records, newest first, those of unknown time last.

        Args:
            user_id: only records of this user.
            agent_id: only records of this agent.
            conversation_id: only records of this conversation.
            tenant: the tenant.
            filters: conditions that every record meets: `Filters`, or its fields.
            content_types: only these kinds; None = all.
            limit: maximum records, 1 to 1,000.
            after: `after` of the page before; "" = the first page.

        Raises:
            InvalidInputError: an argument isn't allowed.
        """
        limit = validate_model(_ListLimit, {"limit": limit}).limit
        reach = self._scope(user_id, agent_id, conversation_id, tenant)
        return self.store.newest(reach, chosen_filters(filters), content_types, after=after, limit=limit)

    def history(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> Versions:
        """Return the changes of a record, oldest first, as far back as the setting `history_days` says.

        None for a record that was never changed, or isn't there in the given scope; nor from when it wasn't.
        """
        reach = self._scope(user_id, agent_id, conversation_id, tenant)
        if self._held(record_id, reach) is None:
            return []
        return self.store.history(record_id, scope=reach)

    @overload
    def export(
        self,
        path: str | Path,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> int: ...

    @overload
    def export(
        self,
        path: None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> Iterator[Record]: ...

    def export(
        self,
        path: str | Path | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> int | Iterator[Record]:
        """Return the records in the order in which they were written, or write them to a new file and count them.

        The file has a line of JSON for each, which `recall-loop ingest` and `ingest_file` read.

        Raises:
            InvalidInputError: the file exists, or its folder doesn't.
            OSError: it can't be written.
        """
        records = self.store.scan(self._scope(user_id, agent_id, conversation_id, tenant))
        if path is None:
            return records
        target = checked_file(path)
        if target.exists() or not target.parent.is_dir():
            raise InvalidInputError("path", str(path), "a file that doesn't exist yet, in a folder that does")
        count = 0
        with atomic_file(target) as file:
            for record in records:
                file.write(export_line(record) + "\n")
                count += 1
        return count

    def _scope(
        self,
        user_id: str | None,
        agent_id: str | None,
        conversation_id: str | None,
        tenant: str | None,
        mode: ScopeMode | str = ScopeMode.LOCAL,
    ) -> Scope:
        names = {"user_id": user_id, "agent_id": agent_id, "conversation_id": conversation_id}
        return validate_model(
            Scope, {**names, "tenant": self.settings.tenant if tenant is None else tenant, "mode": mode}
        )


class _ListLimit(BaseModel):
    limit: Limit


def chosen_filters(filters: FiltersInput | None) -> Filters | None:
    """Return validated filters; raise `InvalidInputError` where they aren't `Filters` or allowed fields of it."""
    if filters is not None and not isinstance(filters, Filters | Mapping):
        raise InvalidInputError("filters", filters, "Filters, or a mapping with its fields")
    return None if filters is None else validate_model(Filters, filters, "filters")
