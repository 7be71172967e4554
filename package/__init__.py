"""Recall Loop: a memory-retrieval agent that searches until it has enough new evidence.

The public names, under SemVer. Each is loaded when it is first used, so that importing the package, or a schema from
it, loads neither Chroma nor LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.replay.eval_report import build_eval_report
    from recall_loop.evals.runs.dataset_ingest import open_eval_store
    from recall_loop.evals.runs.prompts import EvalOptions, settings_with
    from recall_loop.evals.runs.runner import run_evaluation
    from recall_loop.graph.batch.batch_run import run_batch, stream_batch
    from recall_loop.graph.builder import build_graph
    from recall_loop.graph.remember import remember
    from recall_loop.graph.run import aretrieve, retrieve, retrieve_tool, stream_retrieve
    from recall_loop.memory.adapters.base_store import RecallLoopStore
    from recall_loop.memory.adapters.tools import memory_tools, trajectory_tool
    from recall_loop.memory.intake.conversations.fact_writing import write_facts
    from recall_loop.memory.intake.files.batch_writes import WriteOptions
    from recall_loop.memory.intake.files.formats import read_records
    from recall_loop.memory.intake.files.ingest import IngestOptions, ingest_file
    from recall_loop.memory.intake.imports.external_memory import DefaultOwner
    from recall_loop.memory.intake.imports.import_run import import_source
    from recall_loop.memory.intake.imports.langgraph_store import LangGraphStoreSource
    from recall_loop.memory.intake.imports.letta import LettaSource
    from recall_loop.memory.intake.imports.mem0 import Mem0Source
    from recall_loop.memory.search.engine import search, search_many
    from recall_loop.memory.search.present.truncation import parse_profile, truncate_text
    from recall_loop.memory.search.rerank.custom_rerankers import as_reranker
    from recall_loop.memory.store.embed.embedders import Embedder, OpenAIEmbedder
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.trajectories.capture.convert import convert_run
    from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
    from recall_loop.memory.trajectories.indexing_text import searchable_text
    from recall_loop.memory.trajectories.scoring.outcome_scoring import score_by_rules
    from recall_loop.memory.trajectories.scoring.pending_scores import score_pending
    from recall_loop.policy.confidence.confidence_score import compute_confidence, compute_confidence_score
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
    from recall_loop.state.records.trajectories import trajectory_record
    from recall_loop.state.request import ChatMessage, RetrieveRequest
    from recall_loop.state.result import Evidence, RetrieveResult
    from recall_loop.state.scope import Filters, Scope
    from recall_loop.state.search import SearchParams, TrajectorySearchParams
    from recall_loop.state.settings.settings import Settings
    from recall_loop.state.types import ContentType, SearchMode
    from recall_loop.text.words.tokens import query_terms

    __version__: str

_NAMES = {
    "recall_loop.evals.datasets.datasets": ("load_dataset",),
    "recall_loop.evals.replay.eval_report": ("build_eval_report",),
    "recall_loop.evals.runs.dataset_ingest": ("open_eval_store",),
    "recall_loop.evals.runs.prompts": (
        "EvalOptions",
        "settings_with",
    ),
    "recall_loop.evals.runs.runner": ("run_evaluation",),
    "recall_loop.graph.batch.batch_run": (
        "run_batch",
        "stream_batch",
    ),
    "recall_loop.graph.builder": ("build_graph",),
    "recall_loop.graph.remember": ("remember",),
    "recall_loop.graph.run": (
        "aretrieve",
        "retrieve",
        "retrieve_tool",
        "stream_retrieve",
    ),
    "recall_loop.memory.adapters.base_store": ("RecallLoopStore",),
    "recall_loop.memory.adapters.tools": (
        "memory_tools",
        "trajectory_tool",
    ),
    "recall_loop.memory.intake.conversations.fact_writing": ("write_facts",),
    "recall_loop.memory.intake.files.batch_writes": ("WriteOptions",),
    "recall_loop.memory.intake.files.formats": ("read_records",),
    "recall_loop.memory.intake.files.ingest": (
        "IngestOptions",
        "ingest_file",
    ),
    "recall_loop.memory.intake.imports.external_memory": ("DefaultOwner",),
    "recall_loop.memory.intake.imports.import_run": ("import_source",),
    "recall_loop.memory.intake.imports.langgraph_store": ("LangGraphStoreSource",),
    "recall_loop.memory.intake.imports.letta": ("LettaSource",),
    "recall_loop.memory.intake.imports.mem0": ("Mem0Source",),
    "recall_loop.memory.search.engine": (
        "search",
        "search_many",
    ),
    "recall_loop.memory.search.present.truncation": (
        "parse_profile",
        "truncate_text",
    ),
    "recall_loop.memory.search.rerank.custom_rerankers": ("as_reranker",),
    "recall_loop.memory.store.embed.embedders": (
        "Embedder",
        "OpenAIEmbedder",
    ),
    "recall_loop.memory.store.embed.minilm": ("MiniLmEmbedder",),
    "recall_loop.memory.store.store": ("MemoryStore",),
    "recall_loop.memory.trajectories.capture.convert": ("convert_run",),
    "recall_loop.memory.trajectories.contrast.contrast_search": ("search_trajectories",),
    "recall_loop.memory.trajectories.indexing_text": ("searchable_text",),
    "recall_loop.memory.trajectories.scoring.outcome_scoring": ("score_by_rules",),
    "recall_loop.memory.trajectories.scoring.pending_scores": ("score_pending",),
    "recall_loop.policy.confidence.confidence_score": (
        "compute_confidence",
        "compute_confidence_score",
    ),
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
    "recall_loop.state.records.records": (
        "ArchivalEntry",
        "Fact",
        "Message",
        "SearchHit",
        "Trajectory",
    ),
    "recall_loop.state.records.trajectories": ("trajectory_record",),
    "recall_loop.state.request": (
        "ChatMessage",
        "RetrieveRequest",
    ),
    "recall_loop.state.result": (
        "Evidence",
        "RetrieveResult",
    ),
    "recall_loop.state.scope": (
        "Filters",
        "Scope",
    ),
    "recall_loop.state.search": (
        "SearchParams",
        "TrajectorySearchParams",
    ),
    "recall_loop.state.settings.settings": ("Settings",),
    "recall_loop.state.types": (
        "ContentType",
        "SearchMode",
    ),
    "recall_loop.text.words.tokens": ("query_terms",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

# Runs and memory.
__all__ = ["ChatMessage", "Context", "Evidence", "Filters", "MemoryStore", "RecallLoopStore", "RetrieveRequest"]
__all__ += ["RetrieveResult", "Scope", "Settings", "__version__", "aretrieve", "build_graph", "memory_tools"]
__all__ += ["remember", "retrieve", "retrieve_tool", "run_batch", "stream_batch", "stream_retrieve"]
# Records and intake.
__all__ += ["ArchivalEntry", "ContentType", "DefaultOwner", "Fact", "IngestOptions", "LangGraphStoreSource"]
__all__ += ["LettaSource", "Mem0Source", "Message", "Trajectory", "WriteOptions", "import_source", "ingest_file"]
__all__ += ["read_records", "write_facts"]
# Search.
__all__ += ["Embedder", "MiniLmEmbedder", "OpenAIEmbedder", "SearchHit", "SearchMode", "SearchParams", "as_reranker"]
__all__ += ["parse_profile", "query_terms", "search", "search_many", "truncate_text"]
# Trajectories.
__all__ += ["TrajectorySearchParams", "convert_run", "score_by_rules", "score_pending", "search_trajectories"]
__all__ += ["searchable_text", "trajectory_record", "trajectory_tool"]
# Evaluation.
__all__ += ["EvalOptions", "build_eval_report", "compute_confidence", "compute_confidence_score", "load_dataset"]
__all__ += ["open_eval_store", "run_evaluation", "settings_with"]
# Errors.
__all__ += ["EmbedderError", "EmbedderMismatchError", "InvalidInputError", "RecallError", "RecursionLimitError"]
__all__ += ["StoreError", "StoreLockedError", "StoreReadOnlyError", "StoreUnavailableError", "UnsupportedOptionError"]
__all__ += ["WorkerError"]


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
