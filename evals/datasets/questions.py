"""Labelled questions, and when they are asked (OPS-4)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from recall_loop.state.types import BodyText, Identifier, Timestamp

_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")


def question_date(value: Any) -> Any:
    """Read `2023/12/18 (Mon) 04:17`; anything else is left to the RFC 3339 reader."""
    if not isinstance(value, str) or "/" not in value:
        return value
    plain = _WEEKDAY.sub(" ", value).strip()
    for form in ("%Y/%m/%d %H:%M", "%Y/%m/%d"):
        try:
            return datetime.strptime(plain, form)
        except ValueError:
            continue
    raise ValueError("a time such as 2023/12/18 (Mon) 04:17 or 2023-12-18T04:17:00Z")


class LabelledQuestion(BaseModel):
    """One labelled question. Fields of a line that aren't named here are left unread."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    id: Identifier
    collection: Identifier = Field(description="The pool that it is asked of.")
    question: BodyText
    category: str = "uncategorised"
    gold: tuple[Identifier, ...] = Field((), description="Ids of the documents that hold the answer.")
    answerable: bool = True
    reference_time: Annotated[Timestamp | None, BeforeValidator(question_date)] = Field(
        None, validation_alias="question_date", description="When it is asked (UTC)."
    )

    @property
    def scored(self) -> bool:
        """Whether it counts for retrieval metrics: answerable, with at least one gold id."""
        return self.answerable and bool(self.gold)
