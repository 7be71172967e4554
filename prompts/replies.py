"""What each prompt asks a language model to reply with: one pydantic model a prompt.

The models are lenient where a slip does no harm: an unknown tool or strategy becomes None, a list that is too long
is cut. What has to be right for the reply to be of use (a judgement's `stop`, an answer's sentences) is required.
Scope, tenant and the request's own filters are not in them: those are never the model's to choose. The
docstrings of the models are sent to the language model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from recall_loop.state.types import ConfidenceLabel, Role, Strategy, ToolName

MAX_QUERIES = 6
MAX_MISSING = 5
MAX_SENTENCES = 8
MAX_CITES = 10
_LONGEST = 500
# What no query and no answer may hold: control characters and halves of characters.
_UNWRITABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_E = TypeVar("_E", bound=StrEnum)


def _text(value: Any) -> str:
    """Return text on one line; what isn't text says nothing."""
    return " ".join(_UNWRITABLE.sub(" ", value).split())[:_LONGEST] if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    """Return the texts of a list, cut to what is asked for."""
    listed = value if isinstance(value, list | tuple) else [value]
    return [text for text in map(_text, listed[: 10 * MAX_MISSING]) if text][:MAX_MISSING]


def _one_of(kind: type[_E]) -> Any:
    def known(value: Any) -> _E | None:
        text = value.strip().lower() if isinstance(value, str) else ""
        return next((member for member in kind if member.value == text), None)

    return BeforeValidator(known)


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value.strip()[:10]) if isinstance(value, str) else None
    except ValueError:
        return None


def _fuzzy(value: Any) -> int:
    return min(max(value, 0), 2) if isinstance(value, int) else 0


def _enum(kind: type[StrEnum], *more: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [*(member.value for member in kind), *more]})


ReplyText = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
ReplyTexts = Annotated[
    list[str],
    BeforeValidator(_texts),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_MISSING}),
]
ToolChoice = Annotated[ToolName | None, _one_of(ToolName), _enum(ToolName)]
StrategyChoice = Annotated[Strategy | None, _one_of(Strategy), _enum(Strategy)]
RoleChoice = Annotated[Role | None, _one_of(Role), _enum(Role, "")]
ReplyDate = Annotated[date | None, BeforeValidator(_day), WithJsonSchema({"type": "string"})]
FuzzyLevel = Annotated[int, BeforeValidator(_fuzzy), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2})]


# Small models repeat themselves in a list of six; with six named fields they don't. A list is read too.
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
    """Read a list as the six fields in their order; fields that are left out are empty."""
    listed = value if isinstance(value, list | tuple) else None
    if listed is not None:
        texts = [text for text in map(_text, listed[: 10 * MAX_QUERIES]) if text]
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
    """What is missing, and searches and parameters that look for it."""

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
    found = (re.search(r"\d{1,6}", str(item)) for item in listed[:MAX_CITES])
    return [int(match[0]) for match in found if match]


def _sentences(value: Any) -> Any:
    return value[:MAX_SENTENCES] if isinstance(value, list | tuple) else value


CitationNumbers = Annotated[
    list[int],
    BeforeValidator(_numbers),
    WithJsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
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
