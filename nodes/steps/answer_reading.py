"""Reads the best facts together with the question, to tell whether they answer it (CONF-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recall_loop.memory.store.embed.answer_reader import read_answers
from recall_loop.memory.store.encoding.indexing import NAMELESS
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.confidence.asked_values import asks_for_name, holds_asked_kind, told_by_words
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.state.types import Role
from recall_loop.text.words.passages import passage

READ_DEPTH = 3
# Characters of a fact that are read.
_READ_CHARACTERS = 400
_EVEN = 0.5


def read_facts(ranked: Sequence[RankedEntry], run: RunContext) -> list[float]:
    """Return the probability in [0,1] that each of the first three facts answers the question.

    Of a long fact the passage with most of the question's words is read. One that tells the asked time, number or
    property by the rules of its language, and not just some name, is at least as likely an answer as not.
    """
    best, question = ranked[:READ_DEPTH], run.question
    texts = (_attributed_text(item.entry["record"], run.request.question.author) for item in best)
    read = read_answers(question.text, [passage(text, run.terms, _READ_CHARACTERS) for text in texts])
    if asks_for_name(question) or not told_by_words(question):
        return read
    told = (holds_asked_kind(question, item.entry) for item in best)
    return [max(each, _EVEN) if tells else each for each, tells in zip(read, told, strict=True)]


def _attributed_text(record: Mapping[str, Any], asker: str | None) -> str:
    """Return a record's text behind the name of whose it is, where that isn't the one who asks."""
    text = first_person_text(record)
    if record.get("role") == Role.ASSISTANT:
        return f"{Role.ASSISTANT.value}: {text}"
    owner = str(record.get("author") or record.get("subject") or "")
    named = owner and owner != asker and owner.casefold() not in NAMELESS
    return f"{owner}: {text}" if named and not text.casefold().startswith(owner.casefold()) else text
