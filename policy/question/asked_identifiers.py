"""Whether a record mentions the identifiers in the question: a note about E1042 doesn't explain E2001 (CONF-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import SpeechAct
from recall_loop.text.names.identifiers import Identifier, find_identifiers
from recall_loop.text.speech.speech_acts import find_speech_acts

_FIELDS = ("text", "subject", "object", "label", "author", "session", "conversation_id", "agent_name")


@lru_cache(maxsize=256)
def _asked(text: str) -> tuple[Identifier, ...]:
    """Return the identifiers in the questions of a text, or in all of it if it asks nothing."""
    acts = find_speech_acts(text)
    asking = "".join(text[each.start : each.end] for each in acts if each.act is not SpeechAct.STATEMENT)
    return find_identifiers(asking or text)


def has_asked_identifier(question: AnalysedQuestion, record: Mapping[str, Any]) -> bool:
    """Tell whether a record mentions an identifier of the question that can't be a mere amount."""
    asked = [each for each in _asked(question.text) if not each.may_count]
    return bool(asked) and _has_any(asked, _searched_text(record))


def lacks_identifier(question: AnalysedQuestion, entry: PoolEntry, *, known: bool) -> bool:
    """Tell whether a record is ruled out because it lacks the identifiers in the question.

    A record without them is ruled out if it has another identifier of the same kind, or if no record that was found has
    any of them. Otherwise it may continue a record that has one, and needn't repeat it.

    Args:
        question: the question.
        entry: the record.
        known: whether any record that was found has one of the question's identifiers.
    """
    asked = _asked(question.text)
    if not asked or _has_any(asked, text := _searched_text(entry["record"])):
        return False
    if any(each.others is not None and each.others.search(text) for each in asked):
        return True
    return not known and not all(each.may_count for each in asked) and not _has_any(asked, entry["window"])


def _has_any(asked: Sequence[Identifier], text: str) -> bool:
    return any(each.spelt.search(text) for each in asked)


def _searched_text(record: Mapping[str, Any]) -> str:
    return "\n".join(filter(None, map(record.get, _FIELDS)))
