"""What a request asks: its question, what it names, its times, and what its pronouns stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from recall_loop.policy.question.periods import event_times, period_filters
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import Role
from recall_loop.text.names.phrases import find_entities, find_noun_phrases, unique_folded
from recall_loop.text.time.dates import to_utc
from recall_loop.text.time.time_expressions import TimeExpression, parse_times
from recall_loop.text.words.related_terms import RelatedTermsTable
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import content_words, stems, words

_FOCUS_CHARACTERS = 1000
_WINDOW_MESSAGES = 6
_MOST_REFERENTS = 3
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_PART = re.compile(
    r"\s*(?:[;?!]+\s+|,\s+and\s+|\band\b\s+(?=(?:who|what|when|where|why|how|which|did|does|is|was)\b))\s*",
    re.IGNORECASE,
)
_PRONOUNS = word_set("""he she they it him her them his hers their theirs its this that these those there then one""")
_ANSWER_KINDS = (
    ("number", re.compile(r"\bhow\s+(?:many|much|old|long|often|far|tall|big)\b", re.I)),
    (
        "date",
        re.compile(r"\b(?:when|what\s+(?:date|day|year|month|time)|which\s+(?:date|day|year|month))\b", re.I),
    ),
    ("person", re.compile(r"\b(?:who|whom|whose)\b", re.I)),
)


@dataclass(frozen=True)
class AnalysedQuestion:
    """The analysed request.

    Attributes:
        text: what is asked, without what only surrounds it; at most 1,000 characters.
        parts: its separate questions; one for a question in one piece.
        names: entities that it names; for a pronoun-heavy follow-up also the referents.
        referents: entities of the window that its pronouns may stand for, newest first.
        phrases: noun phrases without names and times.
        times: time expressions, counted from the reference time.
        placed: those of them in which what is asked took place, not those that only bound it.
        period: filters for what was made in these or soon after, if any.
        asked: kind of answer that is asked for: date, number, person or None.
        goal: the caller's goal, if any.
        topic: for a follow-up the noun phrases of the message of the user before it.
        table: related terms; None = the built-in ones.
    """

    text: str
    parts: tuple[str, ...]
    names: tuple[str, ...]
    referents: tuple[str, ...]
    phrases: tuple[str, ...]
    times: tuple[TimeExpression, ...]
    asked: str | None
    goal: str | None
    topic: tuple[str, ...] = ()
    event_times: tuple[TimeExpression, ...] = ()
    period: Mapping[str, Any] | None = None
    table: RelatedTermsTable | None = field(default=None, repr=False, compare=False)


def analyse_question(
    request: RetrieveRequest, reference: datetime, table: RelatedTermsTable | None = None
) -> AnalysedQuestion:
    """Return the analysis of `request`; relative times count from `reference`.

    `table` holds the related terms; None = the built-in ones.
    """
    at = _question_index(request.messages)
    text = _focus(request.messages[at].content)
    before = request.messages[max(0, at - _WINDOW_MESSAGES) : at]
    window = tuple(message.content for message in before)
    asked = next((message.content for message in reversed(before) if message.role is Role.USER), "")
    found = _analyse(text, window, asked, request.goal, reference)
    return replace(found, period=period_filters(found.event_times, request.filters, to_utc(reference)), table=table)


@lru_cache(maxsize=256)
def _analyse(
    text: str, window: tuple[str, ...], asked_before: str, goal: str | None, reference: datetime
) -> AnalysedQuestion:
    times = tuple(parse_times(text, reference))
    named = _without(find_entities(text), _time_terms(times))
    referents = tuple(_referents(text, named, window))
    names = tuple(unique_folded([*named, *referents]))
    taken = _time_terms(times) | {term for name in names for term in stems(name)}
    phrases = find_noun_phrases(text) + (find_noun_phrases(_focus(goal)) if goal else [])
    if not named and not phrases and window:
        phrases = find_noun_phrases(_focus(window[-1]))
    return AnalysedQuestion(
        text=text,
        parts=_parts(text),
        names=names,
        referents=referents,
        phrases=tuple(unique_folded(filter(None, (_strip(phrase, taken) for phrase in phrases)))),
        times=times,
        event_times=event_times(text, times),
        asked=next((kind for kind, pattern in _ANSWER_KINDS if pattern.search(text)), None),
        goal=goal,
        topic=tuple(find_noun_phrases(_focus(asked_before))) if _follows_up(text, named) else (),
    )


def _question_index(messages: Sequence[ChatMessage]) -> int:
    """Return the place of the last user message, else of the last message."""
    users = [index for index, message in enumerate(messages) if message.role is Role.USER]
    return users[-1] if users else len(messages) - 1


def _focus(text: str) -> str:
    """Return the asking part of a long text: its question sentences, else its beginning and end."""
    text = " ".join(text.split())
    if len(text) <= _FOCUS_CHARACTERS:
        return text
    asking = " ".join(found[0].strip() for found in _SENTENCE.finditer(text) if found[0].rstrip().endswith("?"))
    if 0 < len(asking) <= _FOCUS_CHARACTERS:
        return asking
    half = _FOCUS_CHARACTERS // 2 - 1
    return (asking or text)[:half] + " " + (asking or text)[-half:]


def _parts(text: str) -> tuple[str, ...]:
    """Split a question into its separate questions; pieces of less than two content words stay together."""
    pieces = [piece for piece in _PART.split(text) if len(content_words(piece)) >= 2]
    return tuple(pieces) if len(pieces) >= 2 else (text,)


def _time_terms(times: Sequence[TimeExpression]) -> set[str]:
    return {term for time in times for term in stems(time.text)}


def _without(phrases: Sequence[str], taken: set[str]) -> list[str]:
    """Return the phrases that have a stem which isn't taken."""
    return [phrase for phrase in phrases if set(stems(phrase)) - taken]


def _strip(phrase: str, taken: set[str]) -> str:
    """Return a phrase without the words whose stems are taken."""
    return " ".join(word for word in content_words(phrase) if not set(stems(word)) & taken)


def _referents(text: str, named: Sequence[str], window: Sequence[str]) -> list[str]:
    """Return what pronouns may stand for: the entities of the window, newest first.

    Only where the text has a pronoun and names nobody, or says almost nothing by itself.
    """
    if not _follows_up(text, named):
        return []
    found = (entity for message in reversed(window) for entity in find_entities(_focus(message)))
    return unique_folded(found)[:_MOST_REFERENTS]


def _follows_up(text: str, named: Sequence[str]) -> bool:
    """Tell whether a question only makes sense after what was said before."""
    return not named and (bool(_PRONOUNS & set(words(text))) or len(content_words(text)) <= 1)
