"""Resources of a graph: stores, chat clients, settings, related terms, calibration."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from langgraph.config import get_config
from langgraph.runtime import Runtime

from recall_loop.llm.endpoint.providers import OPENAI, provider_of, settings_for_model
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.files.store_place import NoStoreError
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.nodes.runtime.opened_stores import OpenedStores
from recall_loop.nodes.runtime.run_context import (
    DEFAULT_RETRIEVAL_PARTS,
    RetrievalParts,
    RunContext,
)
from recall_loop.nodes.runtime.run_holder import current_holder
from recall_loop.policy.confidence.confidence_mapping import Calibration, identity_calibration
from recall_loop.policy.evidence.coverage import extract_facets
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context, is_plain_value
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.state_entries import Facet
from recall_loop.state.settings.settings import Settings
from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.related_terms import RelatedTermsTable, load_related_terms

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient


IDENTITY, DEFAULT = "identity", "default"
_LOG = logging.getLogger(__name__)
_SHIPPED = "default_calibration.json"
_MAX_BYTES = 1_000_000


def load_calibration(name: str | None) -> Calibration:
    """Return the mapping in a file; None or "default" = the shipped one, "identity" = none.

    Raises:
        InvalidInputError: the file can't be read, or has no mapping that this version knows.
    """
    if name == IDENTITY:
        return identity_calibration()
    return _shipped() if name in (None, DEFAULT) else _read(str(name))


@cache
def _shipped() -> Calibration:
    return _parsed(packaged_text("recall_loop.policy.confidence", _SHIPPED), _SHIPPED)


def _read(name: str) -> Calibration:
    path = Path(name)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidInputError("calibration_file", name, f"a file of at most {_MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        allowed = f"a readable file of `recall-loop calibrate`, {DEFAULT} or {IDENTITY}"
        raise InvalidInputError("calibration_file", name, allowed) from error
    return _parsed(text, name)


def _parsed(text: str, name: str) -> Calibration:
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError("calibration_file", name, "a JSON file of `recall-loop calibrate`") from error
    if not isinstance(raw, dict):
        raise InvalidInputError("calibration_file", name, "a JSON object as `recall-loop calibrate` writes it")
    return validate_model(Calibration, raw, f"calibration_file {name}")


def _close_off_loop(store: MemoryStore) -> None:
    """Close a store whose graph is gone; on an event loop in a thread, as it waits for files and other closings."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        store.close()
    else:
        # Not at once: a garbage collection may have interrupted the executor, for whose lock this would wait forever.
        loop.call_soon(loop.run_in_executor, None, store.close)


# The settings that a context may override; the store's path and the tenant are read where they are needed.
_CONTEXT_SETTINGS = (Context.model_fields.keys() & Settings.model_fields.keys()) - {"store_path", "tenant", "embedder"}
# Most clients for models that callers pass or name in their context.
_MAX_CHAT_CLIENTS = 32


@dataclass
class GraphResources:
    """The store and settings bound by `build_graph`; stores named by path are opened once and kept.

    A store is opened here for reading only, so that it takes no writer lock. It is opened for writing if runs are
    captured, or if the resources are `writable`, which also creates the store of the settings. Until somebody creates
    that store, its readers find nothing.
    """

    store: MemoryStore | None
    settings: Settings
    llm: ChatModel | str | None = None
    writable: bool = False
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS
    _chat_clients: LRUCache[object, ChatClient] = field(default_factory=lambda: LRUCache(_MAX_CHAT_CLIENTS))
    _opened: OpenedStores = field(default_factory=OpenedStores)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Check the caller's arguments.

        Raises:
            InvalidInputError: `store` is no store, `llm` no chat model of LangChain's, or `parts` no parts.
        """
        check_bindings(self.store, self.llm)
        if not isinstance(self.parts, RetrievalParts):
            raise InvalidInputError("parts", self.parts, "RetrievalParts")

    @cached_property
    def related_terms(self) -> RelatedTermsTable:
        """The related terms: the built-in ones, with the user's own where the settings name a file."""
        path = self.settings.related_terms_file
        return load_related_terms(Path(path) if path else None)

    @cached_property
    def calibration(self) -> Calibration:
        """The mapping from a run's signals to a probability; the shipped one unless the settings name another.

        Raises:
            InvalidInputError: the file can't be read, or has no mapping.
        """
        return load_calibration(self.settings.calibration_file)

    def store_for(self, context: Context, given: MemoryStore | None = None) -> MemoryStore:
        """Return the context's store, else the given or the bound one, else the settings', else an empty one in memory.

        Raises:
            StoreError: there is no store at the path, or it can't be read.
            InvalidInputError: the context names an embedder for the bound store, or an unknown embedder.
        """
        bound = self.store if given is None else given
        if bound is not None and context.store_path is None:
            if context.embedder is not None:
                raise InvalidInputError(
                    "embedder", context.embedder, "none in the context: the bound store has its own"
                )
            return bound
        return self._opened_at(context.store_path or self.settings.store_path or "", context.embedder)

    def _opened_at(self, path: str, embedder: str | None) -> MemoryStore:
        return self._opened.get((path, embedder), lambda: self._open(path, embedder))

    def _store_or_none_yet(self, context: Context, given: MemoryStore | None) -> tuple[MemoryStore, str | None]:
        """Return the store of a run, and a message for the result if it replaces one that doesn't exist yet."""
        try:
            return self.store_for(context, given), None
        except NoStoreError as error:
            if context.store_path not in (None, self.settings.store_path):
                raise
            missing = f"nothing is found until something is written: {error.told}"
        _LOG.warning(missing)
        return self._opened_at("", context.embedder), missing

    def _open(self, path: str, embedder: str | None) -> MemoryStore:
        if not path:
            return MemoryStore.in_memory_from_settings(self.settings, embedder=embedder)
        read_only = not (self.writable or self.settings.capture_runs)
        # There must already be a store at a caller's path.
        create = not read_only and path == self.settings.store_path
        store = MemoryStore.from_settings(self.settings, path, embedder=embedder, create=create, read_only=read_only)
        if not store.read_only:  # closed with its graph, or at the end of the process: nobody else can
            weakref.finalize(self, _close_off_loop, store)
        return store

    def settings_for(self, context: Context) -> Settings:
        """Return the settings, overridden by those of the context."""
        chosen = {name: getattr(context, name) for name in _CONTEXT_SETTINGS}
        given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        settings = settings_for_model(self.settings, context.llm_model, context.llm_base_url)
        if given.get("llm_base_url", settings.llm_base_url) != settings.llm_base_url:
            given["llm_api_key"] = None  # the operator's key isn't sent to a caller's address
        return settings.model_copy(update=given) if given else settings

    def chat_client_for(
        self, context: Context, settings: Settings, given: ChatModel | str | None = None
    ) -> ChatClient | None:
        """Return the client of the context's language model, else of the given or the bound one, else the settings'.

        None if there is none. `settings` are those of the context. Clients are kept: they know the capabilities of
        their endpoint.

        Raises:
            InvalidInputError: the context names an address without a model, or with a model that takes no address; or
                no model can be made by its name.
        """
        bound = self.llm if given is None else given
        model = bound if context.llm_model is None else None
        if context.llm_base_url and provider_of(settings.llm_model, context.llm_base_url) != OPENAI:
            # The provider's own class would send the environment's key to that address.
            allowed = "none with provider:model; a context names addresses of OpenAI's protocol only"
            raise InvalidInputError("llm_base_url", context.llm_base_url, allowed)
        if context.llm_base_url is not None and (model is not None or settings.llm_model is None):
            raise InvalidInputError("llm_base_url", context.llm_base_url, "a URL together with llm_model")
        if model is None and settings.llm_model is None:
            return None
        if isinstance(model, str):
            settings, model = settings_for_model(settings, model), None
        # A client keeps its model alive, so that no other model can have its id meanwhile.
        key = (settings.llm_model, settings.llm_base_url) if model is None else id(model)
        with self._lock:
            if key not in self._chat_clients:
                from recall_loop.llm.client import make_chat_client

                self._chat_clients[key] = make_chat_client(settings, model)
            return self._chat_clients[key]

    def run(self, state: AgentState, runtime: Runtime[Any]) -> RunContext:
        """Return the current run: the one that this call of the graph began, else one made from the state."""
        holder = current_holder()
        if holder.run is None:
            request = RetrieveRequest.model_validate(state["request"])
            reference = datetime.fromisoformat(state["reference_time"])
            holder.run = self.run_for(request, reference, resolve_context(runtime), state["facets"])
        return holder.run

    def run_for(
        self, request: RetrieveRequest, reference_time: datetime, context: Context, facets: list[Facet] | None = None
    ) -> RunContext:
        """Return the run of a complete request; `facets` are those of the state, if it has any.

        Raises:
            InvalidInputError: the context names an address of a language model, but no model is named.
            StoreError: there is no store at the context's path, or the one at the settings' path can't be read.
        """
        inputs = current_holder().inputs
        settings = self.settings_for(context)
        question = analyse_question(request, reference_time, self.related_terms)
        store, missing = self._store_or_none_yet(context, inputs.store if inputs else None)
        return RunContext(
            request,
            question,
            reference_time,
            settings.model_copy(
                update={
                    "max_facts": request.max_facts,
                    "max_iterations": request.max_iterations,
                    "max_context_tokens": request.max_context_tokens,
                }
            ),
            extract_facets(question) if facets is None else facets,
            store,
            self.chat_client_for(context, settings, inputs.llm if inputs else None),
            self.parts,
            missing,
        )


def resolve_context(runtime: Runtime[Any]) -> Context:
    """Return the run's context, whatever the caller's graph carries."""
    given: object = runtime.context
    if isinstance(given, Mapping):  # a parent graph's: LangGraph has already validated our own
        given = {name: given[name] for name in Context.model_fields if given.get(name) is not None}
    elif is_plain_value(given):  # also a parent graph's
        given = None
    return Context.resolve(given, get_config().get("configurable"))
