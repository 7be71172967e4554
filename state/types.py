"""Vocabulary shared by all schemas: enums, and bounded types with their descriptions.

A bounded type is defined once here and used by requests, runtime context and settings alike, so that an option has the
same range and description everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError


class ContentType(StrEnum):
    """The kind of a record; all kinds are in the same store."""

    FACT = "fact"
    ARCHIVAL = "archival"
    MESSAGE = "message"
    TRAJECTORY = "trajectory"


class Role(StrEnum):
    """Who spoke, as chat APIs name it."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class SpeechAct(StrEnum):
    """The speech act of a sentence: only statements are evidence (LIVE-1)."""

    STATEMENT = "statement"
    QUESTION = "question"
    REQUEST = "request"
    ACKNOWLEDGEMENT = "acknowledgement"
    NON_ANSWER = "non_answer"

    @property
    def bit(self) -> int:
        """The act's bit in a mask of several; written to stores, so that the order of the members is for good."""
        return 1 << list(SpeechAct).index(self)


class ScopeMode(StrEnum):
    """How far a search reaches from its agent (SEARCH-4)."""

    LOCAL = "local"
    CONSTELLATION = "constellation"


class SearchMode(StrEnum):
    """The retrievers that a search runs (SEARCH-1); `auto` picks from the query and what is available."""

    VECTOR = "vector"
    FTS = "fts"
    HYBRID = "hybrid"
    AUTO = "auto"


class ComplexityLevel(StrEnum):
    """How hard the task of a trajectory's run was, from the easiest up (TRAJ-2)."""

    TRIVIAL = "trivial"
    SIMPLE = "simple"
    MODERATE = "moderate"
    COMPLEX = "complex"
    EXPERT = "expert"


class OrderBy(StrEnum):
    """Order of search results."""

    RELEVANCE = "relevance"
    CREATED_AT = "created_at"


class Strategy(StrEnum):
    """Query strategies, in the order in which unused ones are tried (LOOP-7)."""

    DIRECT = "direct"
    SYNONYMS = "synonyms"
    BROADER = "broader"
    NARROWER = "narrower"
    PEOPLE = "people"
    ORGANIZATIONS = "organizations"
    TEMPORAL = "temporal"


class QuerySource(StrEnum):
    """The origin of a query (QUERY-2); `llm` is a language model (LOOP-3).

    `statement` and `member` look for further members of a list (PIECES-1): statements of those it is about, and words
    for things of the asked kind.
    """

    ENTITY = "entity"
    NOUN_PHRASE = "noun_phrase"
    SYNONYM = "synonym"
    KEYWORD = "keyword"
    PHRASE = "phrase"
    TEMPORAL = "temporal"
    FEEDBACK = "feedback"
    STATEMENT = "statement"
    MEMBER = "member"
    LLM = "llm"


class ToolName(StrEnum):
    """The searches that the loop may call (LOOP-1)."""

    FACTS = "search_facts"
    MESSAGES = "search_messages"
    ARCHIVAL = "search_archival"
    TRAJECTORIES = "search_trajectories"
    ALL = "search_all"


class Route(StrEnum):
    """Where a run goes after an iteration (LOOP-1); `done` once its result is there."""

    CONTINUE = "continue"
    REFINE = "refine"
    STOP = "stop"
    DONE = "done"


class StopReason(StrEnum):
    """Why a run ended: the first reason that holds, in this order (STOP-2)."""

    TOOL_FAILURE = "tool_failure"
    NOTHING_IN_SCOPE = "nothing_in_scope"
    COVERED = "covered"
    EXHAUSTED = "exhausted"
    LLM_CONFIDENT = "llm_confident"
    ENOUGH_FACTS = "enough_facts"
    NO_NOVELTY = "no_novelty"
    DEADLINE = "deadline"
    ITERATION_LIMIT = "iteration_limit"
    STEP_LIMIT = "step_limit"


class ConfidenceLabel(StrEnum):
    """The label that `compute_confidence` maps a score to (CONF-1)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def no_surrogates(text: str) -> str:
    """Reject text that can't be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"text in valid Unicode; there is a lone surrogate at character {error.start}") from error
    if "\x00" in text:
        raise ValueError(f"text without NUL characters; there is one at character {text.index(chr(0))}")
    return text


def not_blank(text: str) -> str:
    """Reject text that is empty or only white space."""
    if not text.strip():
        raise ValueError("text with at least one character that is not white space")
    return text


def no_boolean(value: Any) -> Any:
    """Reject true and false as numbers: Python counts them as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return value


def _timestamp_input(value: Any) -> Any:
    """Accept RFC 3339 strings and datetimes; a number is ambiguous (seconds? milliseconds?)."""
    if value is None or isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("an RFC 3339 date-time such as 2024-05-01T09:30:00Z")
    try:
        return datetime.fromisoformat(value.strip().replace("z", "Z"))
    except ValueError as error:
        raise ValueError("an RFC 3339 date-time such as 2024-05-01T09:30:00Z") from error


def _to_utc(value: datetime) -> datetime:
    """Return a time in UTC; one without a zone is taken as UTC."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a date-time between the years 1 and 9999 in UTC") from error


MAX_CLOCK_SKEW = timedelta(days=1)
"""Clocks differ; a time that is further ahead than this can't be when something was said (GUARD-5)."""


def is_to_come(moment: datetime | None, now: datetime) -> bool:
    """Return whether a time is more than a day ahead of `now`."""
    return moment is not None and moment > now + MAX_CLOCK_SKEW


def unique(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values without repetitions, in their order."""
    return tuple(dict.fromkeys(values))


MAX_TEXT_CHARS = 1_000_000

ContentTypes = Annotated[tuple[ContentType, ...], Field(min_length=1), AfterValidator(unique)]
Utf8Text = Annotated[str, AfterValidator(no_surrogates)]
Identifier = Annotated[
    str, Field(min_length=1, max_length=512), AfterValidator(no_surrogates), AfterValidator(not_blank)
]
BodyText = Annotated[
    str, Field(min_length=1, max_length=MAX_TEXT_CHARS), AfterValidator(no_surrogates), AfterValidator(not_blank)
]
Timestamp = Annotated[datetime, BeforeValidator(_timestamp_input), AfterValidator(_to_utc)]
# After the bounds: before them, it would hide them from JSON schemas.
_NO_BOOLEAN = BeforeValidator(no_boolean)
Integer = Annotated[int, _NO_BOOLEAN]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False), _NO_BOOLEAN]
UnitFloat = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False), _NO_BOOLEAN]

AgeDays = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False), _NO_BOOLEAN]

DEFAULT_OPENAI_MODEL = "text-embedding-3-small"
DEFAULT_OPENAI_TIMEOUT = 10.0
EMBEDDER_NAMES = (
    "one of minilm, minilm-plain, multilingual, openai, onnx:FOLDER, or provider:model such as"
    " openai:text-embedding-3-small"
)


def validate_embedder_name(name: str) -> str:
    """Return the name of an embedder; raise ValueError with what is allowed."""
    provider, colon, model = name.partition(":")
    if name in ("minilm", "minilm-plain", "multilingual", "openai") or (colon and provider.strip() and model.strip()):
        return name
    raise ValueError(EMBEDDER_NAMES)


EmbedderName = Annotated[str, AfterValidator(validate_embedder_name)]
ModelName = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(not_blank)]

MaxFacts = Annotated[int, Field(ge=1, le=1000, description="Maximum facts to return (1–1000)."), _NO_BOOLEAN]
FuzzyLevel = Annotated[
    int,
    Field(ge=0, le=2),
    BeforeValidator(lambda level: int(level) if isinstance(level, bool) else level),
    WithJsonSchema({"anyOf": [{"type": "integer", "enum": [0, 1, 2]}, {"type": "boolean"}]}),
    Field(description="Typo tolerance of the words: 0 none, 1 some (also `true`), 2 high. Not in mode `vector`."),
]
MaxIterations = Annotated[
    int, Field(ge=1, le=100, description="Maximum search iterations of one request (1–100)."), _NO_BOOLEAN
]
MaxContextTokens = Annotated[
    int,
    Field(ge=1, le=1_000_000, description="Maximum tokens of the ready-to-paste context block (1–1,000,000)."),
    _NO_BOOLEAN,
]
DeadlineSeconds = Annotated[
    float,
    Field(gt=0, le=86_400, allow_inf_nan=False, description="Stop searching after this many seconds."),
    _NO_BOOLEAN,
]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False), _NO_BOOLEAN]
ExplorationFloor = Annotated[int, Field(ge=1, le=100), _NO_BOOLEAN]
MinNewFacts = Annotated[int, Field(ge=1, le=1000), _NO_BOOLEAN]
Patience = Annotated[int, Field(ge=1, le=100), _NO_BOOLEAN]
MAX_POSITION = 2**63 - 1
Position = Annotated[int, Field(ge=0, le=MAX_POSITION), _NO_BOOLEAN]
