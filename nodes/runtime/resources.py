"""What nodes need besides the state: the store, the language model and the effective settings of a run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from langgraph.config import get_config
from langgraph.runtime import Runtime

from recall_loop.memory.store.chroma.chroma_server import server_from_settings
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.calibration_loader import load_calibration
from recall_loop.nodes.runtime.retrieval_parts import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.nodes.runtime.run_cache import RunCache
from recall_loop.policy.confidence.confidence_mapping import Calibration
from recall_loop.policy.question.question import AnalysedQuestion, analyse_question
from recall_loop.state.agent_state import AgentState
from recall_loop.state.cancellation import raise_if_cancelled
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.text.words.keys import query_terms
from recall_loop.text.words.related_terms import RelatedTermsTable, load_related_terms

if TYPE_CHECKING:  # loaded where a language model is used
    from recall_loop.llm.client import ChatClient

_CONTEXT_SETTINGS = (
    "max_facts",
    "max_iterations",
    "max_context_tokens",
    "deadline_seconds",
    "early_stop_min_iterations",
    "novelty_min_new_facts",
    "novelty_patience",
    "novelty_min_similarity",
    "coverage_enough",
    "llm_model",
    "llm_base_url",
    "write_answer",
)
# Runs that are kept at once, each until it ends; one that broke off goes when as many others have come.
_MAX_CACHED_RUNS = 16
# Models that callers name in their context; the oldest goes.
_MAX_CHAT_CLIENTS = 32


@dataclass(frozen=True)
class RunContext:
    """One request as every node sees it."""

    request: RetrieveRequest
    question: AnalysedQuestion
    reference_time: datetime
    settings: Settings
    context: Context
    chat_client: ChatClient | None = None
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS

    @property
    def wants_answer(self) -> bool:
        """Whether an answer is to be written."""
        asked = self.request.write_answer
        return self.chat_client is not None and (self.settings.write_answer if asked is None else asked)

    @cached_property
    def scope(self) -> Scope:
        """The scope that the request may read."""
        return self.request.read_scope()

    @cached_property
    def terms(self) -> frozenset[str]:
        """The stems of the question, which snippets shall show."""
        return query_terms(self.question.text)

    @cached_property
    def memo(self) -> RunCache:
        """What the nodes have worked out already."""
        return RunCache(self.question, self.settings, self.reference_time)


class _CachedRun(NamedTuple):
    """A run, and all that it was made from."""

    request: dict[str, Any]
    reference_time: str
    context: object
    configured: dict[str, Any]
    run: RunContext


@dataclass
class GraphResources:
    """Store and settings bound by `build_graph`; stores named by path are opened once and kept.

    A store that is opened here is opened for reading only, so that it takes no writer lock; for writing where runs
    are to be captured, or where it is `writable`: then the settings' own is
    made if there is none.
    """

    store: MemoryStore | None
    settings: Settings
    llm: BaseChatModel | None = None
    writable: bool = False
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS
    _chat_clients: dict[tuple[str | None, str | None], ChatClient] = field(default_factory=dict)
    _opened: dict[str, MemoryStore] = field(default_factory=dict)
    _runs: dict[int, _CachedRun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def table(self) -> RelatedTermsTable:
        """The related terms: the built-in ones, with the user's own where the settings name a file."""
        path = self.settings.related_terms_file
        return load_related_terms(Path(path) if path else None)

    @cached_property
    def calibration(self) -> Calibration:
        """The mapping from what a run measured to a probability; the shipped one unless the settings name another.

        Raises:
            InvalidInputError: the file can't be read, or holds no mapping.
        """
        return load_calibration(self.settings.calibration_file)

    def store_for(self, context: Context) -> MemoryStore:
        """Return the context's store, else the bound one, else the settings', else an empty one in memory.

        Raises:
            StoreError: the path holds no store, or one that can't be read.
        """
        if self.store is not None and context.store_path is None:
            return self.store
        path = context.store_path or self.settings.store_path
        with self._lock:
            if (path or "") not in self._opened:
                self._opened[path or ""] = self._open(path)
            return self._opened[path or ""]

    def _open(self, path: str | None) -> MemoryStore:
        embedder = make_embedder(self.settings)
        if not path:
            return MemoryStore.in_memory(embedder=embedder)
        store = MemoryStore.open(
            path,
            embedder=embedder,
            create=self.writable and path == self.settings.store_path,  # a caller's path must hold one already
            read_only=not (self.writable or self.settings.capture_runs),
            url=server_from_settings(self.settings),
        )
        if not store.read_only:  # nobody else can close it: with its graph, or at the end of the process
            weakref.finalize(self, store.close)
        return store

    def settings_for(self, context: Context) -> Settings:
        """Return the settings with the context's knobs over them."""
        given: dict[str, Any] = {
            name: getattr(context, name) for name in _CONTEXT_SETTINGS if getattr(context, name) is not None
        }
        if given.get("llm_base_url", self.settings.llm_base_url) != self.settings.llm_base_url:
            given["llm_api_key"] = None  # the operator's key isn't sent to an address that a caller names
        return self.settings.model_copy(update=given) if given else self.settings

    def chat_client_for(self, context: Context) -> ChatClient | None:
        """Return the door to the context's language model, else to the one handed in, else the settings'.

        None where there is none. Doors are made once: they know what their endpoint can do.

        Raises:
            InvalidInputError: the context names an address and nobody a model.
        """
        settings = self.settings_for(context)
        own = self.llm is not None and context.llm_model is None
        if context.llm_base_url is not None and (own or settings.llm_model is None):
            raise InvalidInputError("llm_base_url", context.llm_base_url, "a URL together with llm_model")
        if not own and settings.llm_model is None:
            return None
        key = (None, None) if own else (settings.llm_model, settings.llm_base_url)
        with self._lock:
            if key not in self._chat_clients:
                from recall_loop.llm.chat_models import make_chat_client

                self._chat_clients[key] = make_chat_client(settings, self.llm if own else None)
                while len(self._chat_clients) > _MAX_CHAT_CLIENTS:
                    del self._chat_clients[next(iter(self._chat_clients))]
            return self._chat_clients[key]

    def run(self, state: AgentState, runtime: Runtime[Any]) -> RunContext:
        """Return the run that the state's request describes, the same one for all nodes of a run.

        Raises:
            RunCancelledError: whoever started it has taken it back.
        """
        raise_if_cancelled()
        request, context = state["request"], runtime.context
        made_from = (request, state["reference_time"], context, _configured())
        known = self._runs.get(id(request))
        # By identity: both are handed on as they are, and neither is changed. A foreign context may change.
        if known and known.request is request and known.context is context and known[:4] == made_from:
            return known.run
        run = self._run(state, resolve_context(runtime))
        if context is None or isinstance(context, Context):
            with self._lock:
                self._runs[id(request)] = _CachedRun(*made_from, run)
                while len(self._runs) > _MAX_CACHED_RUNS:
                    del self._runs[next(iter(self._runs))]
        return run

    def discard_run(self, state: AgentState) -> None:
        """Drop what is kept of a run that has ended."""
        with self._lock:
            self._runs.pop(id(state["request"]), None)

    def _run(self, state: AgentState, context: Context) -> RunContext:
        request = RetrieveRequest.model_validate(state["request"])
        settings = self.settings_for(context).model_copy(
            update={
                "max_facts": request.max_facts,
                "max_iterations": request.max_iterations,
                "max_context_tokens": request.max_context_tokens,
            }
        )
        reference = datetime.fromisoformat(state["reference_time"])
        question = analyse_question(request, reference, self.table)
        return RunContext(request, question, reference, settings, context, self.chat_client_for(context), self.parts)


def _configured() -> dict[str, Any]:
    """Return what the run's configuration says about the context."""
    configurable: Mapping[str, Any] = get_config().get("configurable") or {}
    return {name: configurable[name] for name in Context.model_fields if name in configurable}


def resolve_context(runtime: Runtime[Any]) -> Context:
    """Return the run's context, whatever the caller's graph carries."""
    given: object = runtime.context
    if isinstance(given, Mapping):  # LangGraph has validated our own by now: this one is a parent graph's
        given = {name: given[name] for name in Context.model_fields if given.get(name) is not None}
    return Context.resolve(given, _configured())


class GraphNode(Protocol):
    """A node as LangGraph calls it; the node's own annotation says which keys it is handed."""

    def __call__(self, state: Any, *, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return a partial update of the state."""
        ...
