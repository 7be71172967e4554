"""Public names for type checkers; the package loads each from the module named here when it is first used."""

from .evals.datasets.datasets import load_dataset as load_dataset
from .evals.replay.eval_report import build_eval_report as build_eval_report
from .evals.runs.dataset_ingest import open_eval_store as open_eval_store
from .evals.runs.prompts import EvalOptions as EvalOptions, settings_with as settings_with
from .evals.runs.runner import run_evaluation as run_evaluation
from .graph.batch.batch_run import run_batch as run_batch, stream_batch as stream_batch
from .graph.builder import build_graph as build_graph
from .graph.loop_tools import add_tool as add_tool, retrieve_tool as retrieve_tool
from .graph.memories.async_memory import AsyncMemory as AsyncMemory
from .graph.memories.memory import Memory as Memory
from .graph.remember import remember as remember
from .graph.retriever import RecallLoopRetriever as RecallLoopRetriever
from .graph.run import (
    aretrieve as aretrieve,
    retrieve as retrieve,
    stream_retrieve as stream_retrieve,
)
from .memory.adapters.base_store import RecallLoopStore as RecallLoopStore
from .memory.adapters.tools import memory_tools as memory_tools, trajectory_tool as trajectory_tool
from .memory.intake.conversations.fact_writing import write_facts as write_facts
from .memory.intake.conversations.additions import AddResult as AddResult
from .memory.intake.files.batch_writes import WriteOptions as WriteOptions
from .memory.intake.files.entries import FileOwner as FileOwner
from .memory.intake.files.entries import read_records as read_records
from .memory.intake.files.ingest import IngestOptions as IngestOptions, ingest_file as ingest_file
from .memory.intake.imports.external_memory import DefaultOwner as DefaultOwner
from .memory.intake.imports.import_run import import_source as import_source
from .memory.intake.imports.langgraph_store import LangGraphStoreSource as LangGraphStoreSource
from .memory.intake.imports.letta import LettaSource as LettaSource
from .memory.intake.imports.mem0 import Mem0Source as Mem0Source
from .memory.search.engine import search as search, search_many as search_many
from .memory.search.present.result_display import parse_profile as parse_profile, truncate_text as truncate_text
from .memory.search.rerank.rerank import as_reranker as as_reranker
from .memory.store.embed.embedders import Embedder as Embedder
from .memory.store.embed.langchain_embedder import (
    LangChainEmbedder as LangChainEmbedder,
    OpenAIEmbedder as OpenAIEmbedder,
)
from .memory.store.embed.minilm import MiniLmEmbedder as MiniLmEmbedder
from .memory.store.forgetting import ForgetReport as ForgetReport, SweepReport as SweepReport
from .memory.store.store import MemoryStore as MemoryStore
from .memory.trajectories.capture.convert import convert_run as convert_run
from .memory.trajectories.contrast.contrast_search import search_trajectories as search_trajectories
from .memory.trajectories.indexing_text import searchable_text as searchable_text
from .memory.trajectories.scoring.outcome_scoring import score_by_rules as score_by_rules
from .memory.trajectories.scoring.pending_scores import score_pending as score_pending
from .policy.confidence.confidence_score import (
    compute_confidence as compute_confidence,
    compute_confidence_score as compute_confidence_score,
)
from .state.context import Context as Context
from .state.errors import (
    EmbedderError as EmbedderError,
    EmbedderMismatchError as EmbedderMismatchError,
    InvalidInputError as InvalidInputError,
    RecallError as RecallError,
    RecordNotFoundError as RecordNotFoundError,
    RejectedRecordsError as RejectedRecordsError,
    RecursionLimitError as RecursionLimitError,
    StoreError as StoreError,
    StoreLockedError as StoreLockedError,
    StoreReadOnlyError as StoreReadOnlyError,
    StoreUnavailableError as StoreUnavailableError,
    UnsupportedOptionError as UnsupportedOptionError,
    WorkerError as WorkerError,
)
from .state.records.records import (
    ArchivalEntry as ArchivalEntry,
    Fact as Fact,
    Message as Message,
    RecordVersion as RecordVersion,
    SearchHit as SearchHit,
    Trajectory as Trajectory,
)
from .state.records.trajectories import trajectory_record as trajectory_record
from .state.request import ChatMessage as ChatMessage, RetrieveRequest as RetrieveRequest
from .state.result import Evidence as Evidence, RetrieveResult as RetrieveResult
from .state.scope import Filters as Filters, RetentionRule as RetentionRule, Scope as Scope
from .state.search import SearchParams as SearchParams, TrajectorySearchParams as TrajectorySearchParams
from .state.settings.settings import Settings as Settings
from .state.types import ContentType as ContentType, SearchMode as SearchMode, SpeechAct as SpeechAct
from .text.words.tokens import query_terms as query_terms

__version__: str
