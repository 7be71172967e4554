"""Schemas of a language model's replies: one pydantic model for each prompt.

The models are lenient where a slip does no harm: an unknown tool or strategy becomes None, a list that is too long is
cut, a fact that lacks a part is dropped. Whatever a reply is useless without (a judgement's `stop`, an answer's
sentences) is required. Scope, tenant and the request's filters are not in them: a model never chooses those. The
docstrings of the models are sent to the language model.

Of a trajectory's score (TRAJ-2) the numbers are required and bounded: a reply without them is of no use. The overall
score isn't in the reply: it is computed from the four sub-scores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from recall_loop.state.types import ComplexityLevel, ConfidenceLabel, Role, Strategy, ToolName, UnitFloat, not_blank

MAX_QUERIES = 6
MAX_MISSING = 5
MAX_SENTENCES = 8
MAX_CITES = 10
MAX_FACTS = 12
_LONGEST = 500
# Queries and answers may not contain control characters or lone surrogates.
_UNWRITABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_E = TypeVar("_E", bound=StrEnum)


def one_line(value: Any, longest: int = _LONGEST) -> str:
    """Return text on one line, cut to `longest` characters; "" for a value that is no text."""
    return " ".join(_UNWRITABLE.sub(" ", value).split())[:longest] if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [text for text in map(one_line, listed[: 10 * MAX_MISSING]) if text][:MAX_MISSING]


def member_or_none(kind: type[_E]) -> BeforeValidator:
    """Return a validator that reads a member of `kind` in any case; None for anything else."""

    def read(value: Any) -> _E | None:
        text = value.strip().lower() if isinstance(value, str) else ""
        return next((member for member in kind if member.value == text), None)

    return BeforeValidator(read)


def enum_schema(kind: type[StrEnum], *more: str) -> WithJsonSchema:
    """Return the JSON schema of the members of `kind` and `more`."""
    return WithJsonSchema({"type": "string", "enum": [*(member.value for member in kind), *more]})


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value.strip()[:10]) if isinstance(value, str) else None
    except ValueError:
        return None


def _fuzzy(value: Any) -> int:
    return min(max(value, 0), 2) if isinstance(value, int) else 0


ReplyText = Annotated[str, BeforeValidator(one_line), WithJsonSchema({"type": "string"})]
ReplyTexts = Annotated[
    list[str],
    BeforeValidator(_texts),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_MISSING}),
]
ToolChoice = Annotated[ToolName | None, member_or_none(ToolName), enum_schema(ToolName)]
StrategyChoice = Annotated[Strategy | None, member_or_none(Strategy), enum_schema(Strategy)]
RoleChoice = Annotated[Role | None, member_or_none(Role), enum_schema(Role, "")]
ReplyDate = Annotated[date | None, BeforeValidator(_day), WithJsonSchema({"type": "string"})]
FuzzyLevel = Annotated[int, BeforeValidator(_fuzzy), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2})]


# Small models repeat themselves in a list of six; with six named fields they don't. A list is accepted too.
class Queries(BaseModel):
    """Six search texts, each with a purpose of its own; empty where nothing fits."""

    model_config = ConfigDict(title="queries")

    whole: ReplyText = Field(description="The whole question as a search text.")
    first_part: ReplyText = Field(description="The first fact that has to be known.")
    next_part: ReplyText = Field(description="The fact that builds on it.")
    statement: ReplyText = Field(description="A short sentence as the memory itself may say the answer.")
    other_words: ReplyText = Field(description="What is asked, in other words.")
    names: ReplyText = Field(description="Only the names, places, dates and numbers that matter.")

    def texts(self) -> list[str]:
        """Return the distinct texts, in the order of the fields."""
        return list(dict.fromkeys(text for text in self.model_dump().values() if text))


def _queries(value: Any) -> Any:
    """Read a list as the six fields in their order; missing fields are empty."""
    if isinstance(value, list | tuple):
        texts = filter(None, map(one_line, value[: 10 * MAX_QUERIES]))
        value = dict(zip(Queries.model_fields, dict.fromkeys(texts), strict=False))
    if isinstance(value, Mapping):
        return {name: value.get(name, "") for name in Queries.model_fields}
    return value


LenientQueries = Annotated[Queries, BeforeValidator(_queries)]


class PlanReply(BaseModel):
    """The plan of one round: where to search, how, and for what."""

    model_config = ConfigDict(title="plan")

    tool: ToolChoice = None
    strategy: StrategyChoice = None
    queries: LenientQueries


class RefineReply(BaseModel):
    """The missing parts, and the searches and parameters that look for them."""

    model_config = ConfigDict(title="refine")

    missing: ReplyTexts = Field(default_factory=list)
    tool: ToolChoice = None
    strategy: StrategyChoice = None
    queries: LenientQueries
    wider: bool = False
    fuzzy: FuzzyLevel = 0
    role: RoleChoice = None
    start_date: ReplyDate = None
    end_date: ReplyDate = None


class EvaluateReply(BaseModel):
    """Whether what was found is enough."""

    model_config = ConfigDict(title="evaluate")

    uncovered: ReplyTexts = Field(default_factory=list)
    reason: ReplyText = ""
    confidence: Annotated[ConfidenceLabel, BeforeValidator(lambda value: str(value).strip().lower())]
    stop: bool


def _numbers(value: Any) -> list[int]:
    listed = value if isinstance(value, list | tuple) else [value]
    matches = (re.search(r"\d{1,6}", str(item)) for item in listed[:MAX_CITES])
    return [int(match[0]) for match in matches if match]


def _sentences(value: Any) -> Any:
    return value[:MAX_SENTENCES] if isinstance(value, list | tuple) else value


CitationNumbers = Annotated[
    list[int], BeforeValidator(_numbers), WithJsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 1})
]


class Sentence(BaseModel):
    """One sentence of an answer, with the numbers of the memories that say it."""

    model_config = ConfigDict(title="sentence")

    cites: CitationNumbers
    text: ReplyText


class AnswerReply(BaseModel):
    """An answer out of cited sentences."""

    model_config = ConfigDict(title="answer")

    found: bool = True
    sentences: Annotated[list[Sentence], BeforeValidator(_sentences)]


RequiredText = Annotated[ReplyText, AfterValidator(not_blank)]


class ExtractedFact(BaseModel):
    """One fact, with the numbers of the messages that say it."""

    model_config = ConfigDict(title="fact")

    subject: RequiredText = Field(description="The one person or thing that it is about.")
    fact_type: RequiredText = Field(description="Kind of fact, such as lives_in.")
    object: RequiredText = Field(description="The value alone.")
    text: RequiredText = Field(description="One short sentence that says it.")
    single: bool = Field(description="Whether the subject has one value of this type at a time.")
    cites: CitationNumbers


def _drop_invalid_facts(value: Any) -> Any:
    """Drop facts that lack a part; a value that is no list stays, and fails."""
    if not isinstance(value, list | tuple):
        return value
    facts = []
    for item in value[: 2 * MAX_FACTS]:
        try:
            facts.append(ExtractedFact.model_validate(item))
        except ValidationError:
            continue
    return facts[:MAX_FACTS]


class FactsReply(BaseModel):
    """The facts of a conversation that are worth remembering."""

    model_config = ConfigDict(title="facts")

    facts: Annotated[
        list[ExtractedFact],
        BeforeValidator(_drop_invalid_facts, json_schema_input_type=list[ExtractedFact]),
        Field(description="At most twelve facts; empty where there is nothing."),
    ]


MAX_TAGS = 8
_LONGEST_TAG = 40
_LONGEST_TEXT = 1000
_NO_WORD = re.compile(r"[\W_]+")


def normalise_tag(value: Any) -> str:
    """Return text as a tag: lower-case words joined by hyphens; "" for a value that is no text."""
    words = _NO_WORD.split(value.lower()) if isinstance(value, str) else []
    return "-".join(filter(None, words))[:_LONGEST_TAG].strip("-")


def _tags(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(filter(None, map(normalise_tag, listed))))[:MAX_TAGS]


ScoringText = Annotated[
    str, BeforeValidator(lambda value: one_line(value, _LONGEST_TEXT)), WithJsonSchema({"type": "string"})
]
Tag = Annotated[str, BeforeValidator(normalise_tag), WithJsonSchema({"type": "string"})]
Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(_tags),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS}),
]
ComplexityChoice = Annotated[ComplexityLevel | None, member_or_none(ComplexityLevel), enum_schema(ComplexityLevel)]


class TrajectoryScore(BaseModel):
    """How much can be learned from a run: four parts from 0 to 1, why, and what the run was about."""

    model_config = ConfigDict(title="trajectory_score", frozen=True)

    score_reasoning: ScoringText = Field("", description="One to three sentences: why these numbers.")
    interaction_depth: UnitFloat = Field(description="Turns, refinement and engagement, 0 to 1.")
    task_complexity: UnitFloat = Field(description="Novel and hard, or routine and trivial, 0 to 1.")
    tool_usage: UnitFloat = Field(description="How rich and apt the use of tools was, 0 to 1.")
    learning_value: UnitFloat = Field(description="How good an example it is for later runs, 0 to 1.")
    summary: ScoringText = Field("", description="What was asked and what was done, in one or two sentences.")
    tags: Tags = Field((), description="Two to six short tags.")
    task_category: Tag = Field("", description="Kind of task in one to three words.")
    complexity_level: ComplexityChoice = Field(None, description="How hard the task was.")
