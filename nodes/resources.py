"""What nodes need besides the state: the store and the effective settings of a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from langgraph.config import get_config
from langgraph.runtime import Runtime

from recall_loop.memory.store.embeddings import make_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.question import Question, analyse
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.settings import Settings
from recall_loop.text.related import Table, load_related

_CONTEXT_KNOBS = (
    "max_facts",
    "max_iterations",
    "max_context_tokens",
    "deadline_seconds",
    "early_stop_min_iterations",
    "novelty_min_new_facts",
    "novelty_patience",
    "novelty_min_similarity",
    "coverage_enough",
)


@dataclass(frozen=True)
class Run:
    """One request as every node sees it."""

    request: RetrieveRequest
    question: Question
    reference: datetime
    settings: Settings
    context: Context

    @property
    def scope(self) -> Scope:
        """The scope that the request may read."""
        return self.request.read_scope()


@dataclass
class Resources:
    """Store and settings bound by `build_graph`; stores named by path are opened once and kept.

    A store that is opened here is opened for reading only, so that it takes no writer lock.
    """

    store: MemoryStore | None
    settings: Settings
    _opened: dict[str, MemoryStore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def table(self) -> Table:
        """The related terms: the built-in ones, with the user's own where the settings name a file."""
        path = self.settings.related_terms_file
        return load_related(Path(path) if path else None)

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
                embedder = make_embedder(self.settings)
                self._opened[path or ""] = (
                    MemoryStore.open(path, embedder=embedder, create=False, read_only=True)
                    if path
                    else MemoryStore.in_memory(embedder=embedder)
                )
            return self._opened[path or ""]

    def settings_for(self, context: Context) -> Settings:
        """Return the settings with the context's knobs over them."""
        given = {name: getattr(context, name) for name in _CONTEXT_KNOBS if getattr(context, name) is not None}
        return self.settings.model_copy(update=given) if given else self.settings

    def run(self, state: AgentState, runtime: Runtime[Any]) -> Run:
        """Return the run that the state's request describes."""
        context = context_of(runtime)
        request = RetrieveRequest.model_validate(state["request"])
        settings = self.settings_for(context).model_copy(
            update={
                "max_facts": request.max_facts,
                "max_iterations": request.max_iterations,
                "max_context_tokens": request.max_context_tokens,
            }
        )
        reference = datetime.fromisoformat(state["reference_time"])
        return Run(request, analyse(request, reference, self.table), reference, settings, context)


def context_of(runtime: Runtime[Any]) -> Context:
    """Return the run's context, whatever the caller's graph carries."""
    configurable: Mapping[str, Any] = get_config().get("configurable") or {}
    given: object = runtime.context
    if isinstance(given, Mapping):  # LangGraph has validated our own by now: this one is a parent graph's
        given = {name: given[name] for name in Context.model_fields if given.get(name) is not None}
    return Context.resolve(given, configurable)


class Node(Protocol):
    """A node as LangGraph calls it; the node's own annotation says which keys it is handed."""

    def __call__(self, state: Any, *, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return a partial update of the state."""
        ...
