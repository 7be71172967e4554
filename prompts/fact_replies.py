"""What `extract_facts.md` asks a language model to reply with (OPS-5).

A fact that lacks a part is of no use and is dropped; the others stay. Whose facts they are isn't in it: scope is never
the model's to choose. The docstrings of the models are sent to the language model.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from recall_loop.prompts.replies import CitationNumbers, ReplyText
from recall_loop.state.types import not_blank

MAX_FACTS = 12


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
    """Drop facts that lack a part; what isn't a list of facts at all stays, and fails."""
    if not isinstance(value, list | tuple):
        return value
    found = []
    for item in value[: 2 * MAX_FACTS]:
        try:
            found.append(ExtractedFact.model_validate(item))
        except ValidationError:
            continue
    return found[:MAX_FACTS]


class FactsReply(BaseModel):
    """The facts of a conversation that are worth remembering."""

    model_config = ConfigDict(title="facts")

    facts: Annotated[
        list[ExtractedFact],
        BeforeValidator(_drop_invalid_facts, json_schema_input_type=list[ExtractedFact]),
        Field(description="At most twelve facts; empty where there is nothing."),
    ]
