"""RecallLoopRetriever: memory as a LangChain retriever, by a search or by the whole loop (GRAPH-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from recall_loop.graph.run import aretrieve, check_searched, retrieve
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.state.errors import UnsupportedOptionError, invalid_input_from, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, ScopeMode

DEFAULT_DOCUMENTS = SearchParams(limit=10, limit_per_type=False)
_SCOPE = ("tenant", "agent_id", "user_id", "conversation_id")
# Search options that the loop accepts, `limit` as its `max_facts`; it chooses the others itself.
_SHARED = ("filters", "content_types", "language", "reference_time", "fuzzy", "debug")
_LOOP_OPTIONS = frozenset({*_SHARED, "limit"})
_LOOP_ONLY = ("goal", "max_iterations")
_RECORD_FIELDS = (
    "user_id",
    "agent_id",
    "group_id",
    "conversation_id",
    "session",
    "author",
    "role",
    "label",
    "tags",
    "language",
    "created_at",
    "updated_at",
    "superseded_by",
    "valid_until",
    "attributes",
)


class RecallLoopRetriever(BaseRetriever):
    """A memory as a LangChain retriever, sync and async.

    A document has the record's id and text, with `id`, `kind`, `similarity`, `score` (0 to 1) and the record's other
    fields as metadata: `user_id`, `agent_id`, `conversation_id`, `author`, `role`, `label`, `tags`, `created_at` (RFC
    3339) and others. With `mode="recall"` it also has `confidence` (`low`, `medium` or `high`), `confidence_score` and
    `stop_reason` of the whole result.

    Args:
        store: the memory.
        mode: "search" = one search; "recall" = the loop.
        params: options of the search, or a mapping of them; absent = the ten best of all content types together. The
            loop takes `filters`, `content_types`, `language`, `limit` (its `max_facts`), `reference_time`, `fuzzy` and
            `debug`. With `debug`, a document has its scores as `debug`.
        tenant: whose memory is read.
        agent_id: agent whose memory is read; None = all.
        user_id: user whose memory is read; None = all.
        conversation_id: only this conversation; None = all.
        scope: local = one agent; constellation = its group.
        goal: what the caller wants to achieve, beside the question; the loop's.
        max_iterations: most rounds of the loop, 1 to 100; None = that of the settings.
        settings: settings of the loop; None = those of the environment.
        llm: chat model of the loop, which plans and judges, or its name as "provider:model"; None = that of the
            settings, if any. No answer is written, as documents have no place for it.

    Raises:
        InvalidInputError: a field is out of its range, or unknown.
        UnsupportedOptionError: an option of a search that the loop doesn't take, or the other way round.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: Any = Field(repr=False)
    mode: Literal["search", "recall"] = "search"
    params: SearchParams = DEFAULT_DOCUMENTS
    tenant: str = DEFAULT_TENANT
    agent_id: str | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    scope: ScopeMode = ScopeMode.LOCAL
    goal: str | None = None
    max_iterations: int | None = None
    settings: Settings | None = Field(None, repr=False)
    llm: ChatModel | str | None = Field(None, repr=False)
    _scope: Scope = PrivateAttr()

    def __init__(self, store: MemoryStore, **fields: Any) -> None:
        given = fields.get("params")
        if isinstance(given, Mapping):
            fields["params"] = validate_model(SearchParams, given, "params")
        check_bindings(store, fields.get("llm"))
        values: dict[str, Any] = {"store": store, **fields}
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise invalid_input_from(error, schema=type(self).model_json_schema()) from error
        self._scope = validate_model(Scope, {name: getattr(self, name) for name in _SCOPE} | {"mode": self.scope})
        self._check_options()
        if self.mode == "recall":
            validate_model(RetrieveRequest, self._request("?"))

    def _check_options(self) -> None:
        self.params.check_supported()
        if self.mode == "search":
            for name in _LOOP_ONLY:
                if (value := getattr(self, name)) is not None:
                    raise UnsupportedOptionError(name, value, "absent with mode=search; mode=recall takes it")
            return
        if self.params is DEFAULT_DOCUMENTS:
            return
        for name in sorted(self.params.model_fields_set - _LOOP_OPTIONS):
            allowed = f"absent with mode=recall, which takes {', '.join(sorted(_LOOP_OPTIONS))}"
            raise UnsupportedOptionError(f"params.{name}", getattr(self.params, name), allowed)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if self.mode == "search":
            return self._search(query)
        result = retrieve(self._request(query), store=self.store, settings=self.settings, llm=self.llm)
        return self._recalled(result)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.mode == "search":
            return await asyncio.to_thread(self._search, query)
        result = await aretrieve(self._request(query), store=self.store, settings=self.settings, llm=self.llm)
        return await asyncio.to_thread(self._recalled, result)

    def _search(self, query: str) -> list[Document]:
        return [
            _document(hit.record, hit.record, hit.record.kind, hit.debug, similarity=hit.similarity, score=hit.score)
            for hit in search(self.store, query, scope=self._scope, params=self.params, fallback=False).hits
        ]

    def _request(self, query: str) -> dict[str, Any]:
        fields = {name: getattr(self.params, name) for name in _SHARED} | {"max_facts": self.params.limit}
        fields |= {name: getattr(self, name) for name in (*_SCOPE, *_LOOP_ONLY)}
        given = {name: value for name, value in fields.items() if value is not None}
        return {"messages": [{"content": query}], "scope": self.scope, "write_answer": False, **given}

    def _recalled(self, result: RetrieveResult) -> list[Document]:
        ids = [fact.id for fact in check_searched(result).facts]
        records = {record.id: record for record in self.store.get(ids, scope=self._scope)} if ids else {}
        whole = {
            "confidence": result.confidence.label.value,
            "confidence_score": result.confidence.score,
            "stop_reason": result.stop.reason.value,
        }
        return [
            _document(
                fact,
                records.get(fact.id, fact),
                fact.content_type,
                fact.debug,
                similarity=fact.similarity,
                score=fact.score,
                **whole,
            )
            for fact in result.facts
        ]


def _document(
    found: Any, record: Any, kind: ContentType, debug: Mapping[str, Any] | None, **figures: object
) -> Document:
    """Return a fact with its scores and the set fields of its record, as plain JSON."""
    if debug is not None:
        figures["debug"] = debug
    values = record.model_dump(mode="json", include=set(_RECORD_FIELDS), exclude_none=True)
    fields = {name: value for name, value in values.items() if value not in ([], {})}
    return Document(
        id=found.id, page_content=found.text, metadata={"id": found.id, "kind": kind.value, **fields, **figures}
    )
