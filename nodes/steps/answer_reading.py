"""Reads the best facts together with the question, to tell whether they answer it (CONF-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recall_loop.memory.store.embed.answer_reader import read_answers
from recall_loop.memory.store.encoding.indexing import NAMELESS
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.state.types import Role
from recall_loop.text.words.passages import passage

READ_DEPTH = 3
# Characters of a fact that are read.
_READ_CHARACTERS = 400


def read_facts(ranked: Sequence[RankedEntry], run: RunContext) -> list[float]:
    """Return the probability in [0,1] that each of the first three facts answers the question.

    Of a long fact the passage with most of the question's words is read.
    """
    texts = (_attributed_text(item.entry["record"], run.request.question.author) for item in ranked[:READ_DEPTH])
    return read_answers(run.question.text, [passage(text, run.terms, _READ_CHARACTERS) for text in texts])


def _attributed_text(record: Mapping[str, Any], asker: str | None) -> str:
    """Return a record's text behind the name of whose it is, where that isn't the one who asks."""
    text = first_person_text(record)
    if record.get("role") == Role.ASSISTANT:
        return f"{Role.ASSISTANT.value}: {text}"
    owner = str(record.get("author") or record.get("subject") or "")
    named = owner and owner != asker and owner.casefold() not in NAMELESS
    return f"{owner}: {text}" if named and not text.casefold().startswith(owner.casefold()) else text
