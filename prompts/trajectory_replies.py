"""The reply to `score_trajectory.md` (TRAJ-2).

Numbers are required and bounded: a reply without them is of no use, and none is made up. A tag or a level that doesn't
fit is dropped. The overall score isn't in the reply: it is computed from the four sub-scores. The docstring of the
model is sent to the language model.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from recall_loop.prompts.replies import enum_schema, member_or_none, one_line
from recall_loop.state.types import ComplexityLevel, UnitFloat

MAX_TAGS = 8
_LONGEST_TAG = 40
_LONGEST = 1000
_NO_WORD = re.compile(r"[\W_]+")


def normalise_tag(value: Any) -> str:
    """Return text as a tag: lower-case words joined by hyphens; "" for a value that is no text."""
    words = _NO_WORD.split(value.lower()) if isinstance(value, str) else []
    return "-".join(filter(None, words))[:_LONGEST_TAG].strip("-")


def _tags(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(filter(None, map(normalise_tag, listed))))[:MAX_TAGS]


ScoringText = Annotated[
    str, BeforeValidator(lambda value: one_line(value, _LONGEST)), WithJsonSchema({"type": "string"})
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
