"""Settings, read once from the environment by `build_graph`, the service and the command line only.

Precedence: request > runtime context > `Settings(...)` argument > `RECALL_LOOP_X` > bare `X` (for the names in
`BARE_NAMES`) > default.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, AliasGenerator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from recall_loop.state.attribute_filters import IndexedAttributes
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import RetentionRule
from recall_loop.state.settings.setting_errors import setting_error, setting_variable
from recall_loop.state.types import (
    DEFAULT_OPENAI_MODEL,
    DEFAULT_OPENAI_TIMEOUT,
    ConfidenceLabel,
    DeadlineSeconds,
    EmbedderName,
    ExplorationFloor,
    FiniteFloat,
    Identifier,
    Integer,
    MaxContextTokens,
    MaxFacts,
    MaxIterations,
    MinNewFacts,
    ModelName,
    Patience,
    SearchMode,
    Temperature,
    UnitFloat,
)

ENV_PREFIX = "RECALL_LOOP_"
_BARE_NAMES = """
CONF_MIN_RELEVANCE COVERAGE_ENOUGH EARLY_STOP_MIN_ITERATIONS FALLBACK_MAX_LENGTH FALLBACK_MAX_QUERIES LLM_MAX_CALLS
LLM_MAX_TOKENS LLM_TIMEOUT_SECONDS MAX_FACTS MAX_ITERATIONS NOVELTY_MIN_NEW_FACTS NOVELTY_MIN_SIMILARITY
NOVELTY_PATIENCE STOP_CONFIDENCE_REQUIRED
"""


def _variables(name: str) -> AliasChoices:
    """Return the environment variables of the setting `name`, the one with precedence first."""
    return AliasChoices(ENV_PREFIX + name.upper(), *{name.upper()}.intersection(_BARE_NAMES.split()))


class Settings(BaseSettings):
    """All settings with their defaults and ranges. A bad value raises `InvalidInputError` at start (STOP-4)."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        env_ignore_empty=True,
        alias_generator=AliasGenerator(validation_alias=_variables),
    )
    BARE_NAMES: ClassVar[tuple[str, ...]] = tuple(_BARE_NAMES.split())
    """Environment variables that are read without the prefix, too."""

    store_path: str | None = Field(
        None, description="Folder of the store, or its address in PostgreSQL; absent = in memory.", repr=False
    )
    chroma_url: str | None = Field(
        None, description="Address of a Chroma server that holds the vectors; absent = the store's folder."
    )
    chroma_tenant: str = Field("default_tenant", description="Chroma's own tenant on that server.")
    chroma_database: str = Field("default_database", description="Chroma's database on that server.")
    chroma_api_key: str | None = Field(None, description="Key of Chroma Cloud.", repr=False)
    chroma_collection: str | None = Field(
        None, description="Collection on that server from which a lost store folder is rebuilt."
    )
    history_days: Integer = Field(
        30, ge=0, le=36_500, description="Days to keep each change of a record as a version; 0 = none (API-3)."
    )
    retention: tuple[RetentionRule, ...] = Field(
        (), description="Records that sweeps erase: a JSON list of rules (docs/store.md); absent = none (LIVE-7)."
    )
    sweep_seconds: FiniteFloat = Field(
        300.0, ge=0, le=86_400, description="Seconds between sweeps of the service; 0 = only at its start."
    )
    writer_wait_seconds: FiniteFloat = Field(
        10.0, ge=0, le=86_400, description="Seconds to wait for another process that writes to the store's folder."
    )
    tenant: Identifier = Field("default", description="Tenant of requests that don't name one.")
    indexed_attributes: Annotated[IndexedAttributes | None, NoDecode] = Field(
        None,
        description="Comma-separated paths of attributes to index for filters, at most 32; [] = none, absent = those "
        "that the store already has.",
    )
    embedder: EmbedderName = Field(
        "minilm",
        description="`minilm` (bundled), `minilm-plain` (its original weights, for English), `multilingual` (ninety "
        "languages; needs the extra of that name), `onnx:FOLDER` (your own model), `openai` (an API), or "
        "LangChain's `provider:model`.",
    )
    minilm_weights: str | None = Field(
        None, description="File that replaces the default's conversation weights (docs/tuning.md)."
    )
    openai_model: str = Field(DEFAULT_OPENAI_MODEL, description="Embedding model of the API.")
    openai_base_url: str | None = Field(None, description="Base URL of an OpenAI-compatible API.")
    openai_api_key: str | None = Field(None, description="Key of that API.", repr=False)
    openai_timeout_seconds: FiniteFloat = Field(
        DEFAULT_OPENAI_TIMEOUT, gt=0, le=3600, description="Maximum seconds of one request for vectors of queries."
    )

    max_facts: MaxFacts = Field(30, description="Maximum facts to return.")
    max_iterations: MaxIterations = Field(10, description="Maximum search iterations.")
    max_context_tokens: MaxContextTokens = Field(2000, description="Maximum tokens of the context block.")
    context_floor: UnitFloat = Field(
        0.015, description="Facts less relevant than this are left out of the context block; 0 keeps all (LIVE-5)."
    )
    deadline_seconds: DeadlineSeconds | None = Field(None, description="Stop searching after this many seconds.")

    early_stop_min_iterations: ExplorationFloor = Field(
        2, description="Iterations before most stop reasons apply (STOP-3)."
    )
    novelty_min_new_facts: MinNewFacts = Field(1, description="Fewer new facts than this count as no gain.")
    novelty_patience: Patience = Field(2, description="Consecutive iterations without gain before stopping.")
    novelty_min_similarity: UnitFloat = Field(0.35, description="A fact below this similarity is never new (STOP-1).")
    stop_confidence_required: ConfidenceLabel = Field(
        ConfidenceLabel.HIGH, description="Confidence at which a language model may stop a run (STOP-2)."
    )
    coverage_enough: UnitFloat = Field(0.8, description="Coverage required to stop with `enough_facts` (STOP-2).")
    strong_first_coverage: UnitFloat = Field(1.0, description="Coverage that makes a first pass very strong (STOP-3).")
    strong_first_similarity: UnitFloat = Field(
        0.55, description="Best similarity that makes a first pass very strong (STOP-3)."
    )

    refine_min_similarity: UnitFloat = Field(0.5, description="Refine below this mean similarity (LOOP-5).")
    refine_min_confidence: UnitFloat = Field(0.5, description="Refine below this mean fact confidence (LOOP-5).")
    refine_relaxation: UnitFloat = Field(
        0.8,
        description="Share of `novelty_min_similarity` that a refinement requires while nothing reaches it (LOOP-6).",
    )
    refine_drop: UnitFloat = Field(0.5, description="Refine when results fall by more than this share (LOOP-5).")
    repeat_similarity: UnitFloat = Field(
        0.9, description="Queries whose terms overlap by at least this share are repeats (LOOP-4)."
    )
    fallback_max_queries: Integer = Field(12, ge=1, le=50, description="Maximum queries of one iteration (QUERY-2).")
    fallback_max_length: Integer = Field(120, ge=10, le=2000, description="Maximum characters of one query (QUERY-2).")

    related_terms_file: str | None = Field(
        None, description="Tab-separated file of related terms, merged with the built-in table (QUERY-1)."
    )
    search_mode: SearchMode = Field(SearchMode.AUTO, description="Retrievers that a search runs (SEARCH-1).")
    search_limit: Integer = Field(30, ge=1, le=1000, description="Results per query and content type.")
    tool_attempts: Integer = Field(3, ge=1, le=10, description="Maximum tries of a failing search call (STOP-6).")
    tool_backoff_seconds: FiniteFloat = Field(
        0.1, ge=0, le=60, description="Seconds before the second try; doubles each time."
    )

    rank_reply_weight: UnitFloat = Field(0.1, description="Bonus for the reply to a relevant question turn (RANK-3).")
    rank_reference_weight: UnitFloat = Field(
        0.05, description="Bonus for a titled record that the question or a relevant fact names (RANK-3)."
    )
    rank_crowding_weight: UnitFloat = Field(
        0.1, description="Share of its score that a record loses if two better ones have its title (RANK-3)."
    )
    rank_time_weight: UnitFloat = Field(
        0.175, description="Bonus for a record from, or about, the time named in the question (RANK-3)."
    )
    rank_teller_weight: UnitFloat = Field(
        0.03, description="Bonus for a turn by the speaker likely to have said the answer (RANK-3)."
    )
    rank_member_weight: UnitFloat = Field(
        0.2, description="Bonus for another member of the list that the question asks for (PIECES-1)."
    )
    rank_lacking_weight: UnitFloat = Field(
        0.1, description="Penalty for a record without the kind of answer that the question asks for (RANK-3)."
    )
    rank_novelty_weight: UnitFloat = Field(0.02, description="Bonus for later new facts and evidence (RANK-3).")
    rank_recency_weight: UnitFloat = Field(0.01, description="Bonus for recent records (RANK-3).")
    rank_recency_half_life_days: FiniteFloat = Field(
        90.0, gt=0, le=36_500, description="Age at which the recency bonus halves."
    )
    rank_diversity_weight: UnitFloat = Field(0.005, description="Bonus for matching several queries (RANK-3).")
    rank_evidence_weight: UnitFloat = Field(0.03, description="Bonus for several independent sources (RANK-4).")
    duplicate_similarity: UnitFloat = Field(
        0.9, description="Facts whose terms overlap by at least this share are near-duplicates (RANK-3)."
    )

    llm_model: ModelName | None = Field(
        None,
        description="Chat model that plans, judges and answers: a name, or LangChain's `provider:model`; absent = "
        "none (everything works without one).",
    )
    llm_base_url: str | None = Field(None, description="Base URL of an OpenAI-compatible chat API; absent = OpenAI's.")
    llm_api_key: str | None = Field(None, description="Key of that API.", repr=False)
    llm_temperature: Temperature | None = Field(None, description="Temperature; absent = the server's default.")
    llm_max_calls: Integer = Field(
        24, ge=0, le=1000, description="Maximum calls of the chat model in one request (LOOP-8)."
    )
    llm_max_tokens: Integer = Field(
        100_000, ge=0, le=100_000_000, description="Maximum tokens, read and written, of the chat model in one request."
    )
    llm_timeout_seconds: FiniteFloat = Field(
        30.0, gt=0, le=3600, description="Maximum seconds of one call of the chat model."
    )
    llm_total_seconds: FiniteFloat = Field(
        120.0, gt=0, le=86_400, description="Maximum seconds that one request spends on the chat model."
    )
    llm_prompt_tokens: Integer = Field(
        3000, ge=2000, le=1_000_000, description="Maximum tokens of one prompt: facts are shortened to fit."
    )
    llm_reply_tokens: Integer = Field(800, ge=100, le=100_000, description="Maximum tokens that one call may write.")
    llm_retries: Integer = Field(
        2, ge=0, le=10, description="Retries after a failed connection, a 429 or a 5xx; none after a timeout."
    )
    llm_backoff_seconds: FiniteFloat = Field(
        0.5, ge=0, le=60, description="Seconds before the first retry; doubles each time."
    )
    llm_cooldown_seconds: FiniteFloat = Field(
        30.0, ge=0, le=3600, description="Seconds for which a failed endpoint is not called."
    )
    llm_cache_entries: Integer = Field(
        0, ge=0, le=1_000_000, description="Chat-model replies to cache for identical prompts; 0 = none."
    )
    capture_runs: bool = Field(
        False, description="Store each finished run as a trajectory (TRAJ-9); needs a store open for writing."
    )
    write_answer: bool = Field(True, description="Write an answer if a chat model is set (LOOP-10).")

    learned_order: bool = Field(
        True, description="Reorder the best candidates of a main query by a model learned on conversations (RANK-2)."
    )
    calibration_file: str | None = Field(
        None, description="Confidence mapping: a file, `default` or `identity`; absent = `default` (CONF-4)."
    )
    conf_medium: UnitFloat | None = Field(
        None, description="Confidence score from which the label is medium; absent = the mapping's (CONF-1)."
    )
    conf_high: UnitFloat | None = Field(
        None, description="Confidence score from which the label is high; absent = the mapping's (CONF-1)."
    )
    conf_answerable: UnitFloat | None = Field(
        None, description="Probability of an answer below which the label is low; absent = the mapping's (CONF-3)."
    )
    conf_min_relevance: UnitFloat = Field(0.3, description="Below this relevance the label is capped at low (CONF-3).")

    trace_content: bool = Field(
        False, description="Include questions, queries, facts, prompts and answers in traces and logs (OPS-7)."
    )
    log_format: Literal["console", "json"] = Field("console", description="Format of the command line's log (OPS-3).")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Lowest level of the command line's log; a finished run is logged at `info`."
    )

    def __init__(self, **values: Any) -> None:
        """Read the environment; `values` override it.

        Raises:
            InvalidInputError: names the variable or field, its value and the range.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise setting_error(error, values, Settings, ENV_PREFIX) from error
        except SettingsError as error:  # the one setting that is a list
            name = setting_variable("retention", values, ENV_PREFIX, self.BARE_NAMES)
            raise InvalidInputError(name, os.environ.get(name), "a JSON list of rules") from error
        if self.conf_medium is not None and self.conf_high is not None and self.conf_medium > self.conf_high:
            name = setting_variable("conf_medium", values, ENV_PREFIX, self.BARE_NAMES)
            raise InvalidInputError(name, self.conf_medium, f"a number from 0 to conf_high ({self.conf_high:g})")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources; those of files, which take half of the time, only where a file is named."""
        named = ((dotenv_settings, "env_file"), (file_secret_settings, "secrets_dir"))
        return init_settings, env_settings, *(source for source, file in named if getattr(source, file))

    @classmethod
    def from_env(cls) -> Settings:
        """Return the settings of the environment as it is now.

        They are parsed once for each state of the variables that they are read from: as long as none of these is set,
        changed or removed, every call returns the same object.

        Raises:
            InvalidInputError: names the variable, its value and the range.
        """
        return _parsed(tuple((name, value) for name, value in os.environ.items() if _is_ours(name.upper())))


def checked_settings(given: Settings | None) -> Settings:
    """Return the settings that are given, or those of the environment.

    Something else, and a variable's value that isn't allowed, raise `InvalidInputError`.
    """
    if given is not None and not isinstance(given, Settings):
        raise InvalidInputError("settings", given, "a Settings object")
    return Settings.from_env() if given is None else given


def _is_ours(variable: str) -> bool:
    return variable.startswith(ENV_PREFIX) or variable in Settings.BARE_NAMES


@lru_cache(maxsize=1)
def _parsed(variables: tuple[tuple[str, str], ...]) -> Settings:
    """Return the settings of the environment, which holds `variables`."""
    return Settings()
