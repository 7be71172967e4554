"""What `score_trajectory.md` asks a language model to reply with (TRAJ-2).

Numbers are required and bounded: a reply without them is of no use, and none is made up for it. A tag or a level that
doesn't fit is dropped. The overall score isn't asked for: it follows from the four parts. The docstring of the model
is sent to the language model.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from recall_loop.state.types import ComplexityLevel, UnitFloat

MAX_TAGS = 8
_LONGEST_TAG = 40
_LONGEST = 1000
_NO_WORD = re.compile(r"[\W_]+")


def _text(value: Any) -> str:
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""


def normalise_tag(value: Any) -> str:
    """Return text as a tag: lower-case words joined by hyphens; "" for what is no text."""
    words = _NO_WORD.split(value.lower()) if isinstance(value, str) else []
    return "-".join(word for word in words if word)[:_LONGEST_TAG].strip("-")


def _tags(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(tag for tag in map(normalise_tag, listed) if tag))[:MAX_TAGS]


def _level(value: Any) -> ComplexityLevel | None:
    text = value.strip().lower() if isinstance(value, str) else ""
    return next((level for level in ComplexityLevel if level.value == text), None)


ScoringText = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
Tag = Annotated[str, BeforeValidator(normalise_tag), WithJsonSchema({"type": "string"})]
Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(_tags),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS}),
]
ComplexityChoice = Annotated[
    ComplexityLevel | None,
    BeforeValidator(_level),
    WithJsonSchema({"type": "string", "enum": [level.value for level in ComplexityLevel]}),
]


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
