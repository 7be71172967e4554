"""Recall Loop: a memory-retrieval agent that searches until it has enough new evidence.

The public names, under SemVer. Each is loaded when it is first used, so that importing the package,
or a schema from it, loads neither Chroma nor LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_loop.graph.batch.batch_run import run_batch, stream_batch
    from recall_loop.graph.builder import build_graph
    from recall_loop.graph.remember import remember
    from recall_loop.graph.retrieve_tool import retrieve_tool
    from recall_loop.graph.run import aretrieve, retrieve, stream_retrieve
    from recall_loop.memory.adapters.base_store import RecallLoopStore
    from recall_loop.memory.adapters.tools import memory_tools
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.context import Context
    from recall_loop.state.errors import (
        EmbedderError,
        EmbedderMismatchError,
        InvalidInputError,
        RecallError,
        RecursionLimitError,
        StoreError,
        StoreLockedError,
        StoreReadOnlyError,
        StoreUnavailableError,
        UnsupportedOptionError,
        WorkerError,
    )
    from recall_loop.state.records.records import ArchivalEntry, Fact, Message, SearchHit, Trajectory
    from recall_loop.state.request import ChatMessage, RetrieveRequest
    from recall_loop.state.result import Evidence, RetrieveResult
    from recall_loop.state.scope import Filters, Scope
    from recall_loop.state.settings.settings import Settings

    __version__: str

_NAMES = {
    "recall_loop.graph.batch.batch_run": ("run_batch", "stream_batch"),
    "recall_loop.graph.builder": ("build_graph",),
    "recall_loop.graph.remember": ("remember",),
    "recall_loop.graph.retrieve_tool": ("retrieve_tool",),
    "recall_loop.graph.run": ("aretrieve", "retrieve", "stream_retrieve"),
    "recall_loop.memory.adapters.base_store": ("RecallLoopStore",),
    "recall_loop.memory.adapters.tools": ("memory_tools",),
    "recall_loop.memory.store.store": ("MemoryStore",),
    "recall_loop.state.context": ("Context",),
    "recall_loop.state.errors": (
        "EmbedderError",
        "EmbedderMismatchError",
        "InvalidInputError",
        "RecallError",
        "RecursionLimitError",
        "StoreError",
        "StoreLockedError",
        "StoreReadOnlyError",
        "StoreUnavailableError",
        "UnsupportedOptionError",
        "WorkerError",
    ),
    "recall_loop.state.records.records": ("ArchivalEntry", "Fact", "Message", "SearchHit", "Trajectory"),
    "recall_loop.state.request": ("ChatMessage", "RetrieveRequest"),
    "recall_loop.state.result": ("Evidence", "RetrieveResult"),
    "recall_loop.state.scope": ("Filters", "Scope"),
    "recall_loop.state.settings.settings": ("Settings",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "ArchivalEntry",
    "ChatMessage",
    "Context",
    "EmbedderError",
    "EmbedderMismatchError",
    "Evidence",
    "Fact",
    "Filters",
    "InvalidInputError",
    "MemoryStore",
    "Message",
    "RecallError",
    "RecallLoopStore",
    "RecursionLimitError",
    "RetrieveRequest",
    "RetrieveResult",
    "Scope",
    "SearchHit",
    "Settings",
    "StoreError",
    "StoreLockedError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "Trajectory",
    "UnsupportedOptionError",
    "WorkerError",
    "__version__",
    "aretrieve",
    "build_graph",
    "memory_tools",
    "remember",
    "retrieve",
    "retrieve_tool",
    "run_batch",
    "stream_batch",
    "stream_retrieve",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home, once (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("recall-loop")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
