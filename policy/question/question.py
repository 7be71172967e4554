"""Analysis of a request: its question, the names and times in it, and the referents of its pronouns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from recall_loop.policy.question.answer_kinds import AnswerKind, asked_kind, asks_who_is
from recall_loop.policy.question.asked_duties import asked_duty
from recall_loop.policy.question.asked_kinds import NO_KIND, AskedKind, asked_kind_of
from recall_loop.policy.question.asked_times import asks_what_happened, last_time_words
from recall_loop.policy.question.follow_ups import Dependence, dependence
from recall_loop.policy.question.lists import ListRequest, list_request
from recall_loop.policy.question.periods import event_times, period_filters
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import Role
from recall_loop.text.names.proper_names import find_entities, find_noun_phrases, unique_folded
from recall_loop.text.speech.speech_acts import is_about_questions
from recall_loop.text.time.dates import to_utc
from recall_loop.text.time.time_expressions import TimeExpression, parse_times
from recall_loop.text.words.languages import ENGLISH, naming_words
from recall_loop.text.words.passages import READ_CHARACTERS
from recall_loop.text.words.related_terms import RelatedTermsTable
from recall_loop.text.words.tokens import content_words, has_word, stem_set, stems, text_language, words

_FOCUS_CHARACTERS = 1000
_WINDOW_MESSAGES = 6
_MAX_REFERENTS = 3
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_PART = re.compile(
    r"\s*(?:[;?!]+\s+|,\s+and\s+|\band\b\s+(?=(?:who|what|when|where|why|how|which|did|does|is|was)\b))\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AnalysedQuestion:
    """The analysed request.

    Attributes:
        text: the question without the text around it; at most 1,000 characters.
        parts: its separate questions; one if it asks a single question.
        names: entities that it names; for a follow-up also the referents.
        referents: entities of the conversation window that its pronouns may refer to, newest first.
        phrases: noun phrases without names and times.
        times: time expressions, counted from the reference time.
        asked: kind of answer that it asks for, if its wording shows it.
        goal: the caller's goal, if any.
        topic: for what may be a follow-up, the noun phrases of the user's preceding message.
        depends: how far it depends on the messages before it.
        event_times: those of its times in which the event took place, not those that only bound it.
        period: filters for records made in these times or soon after, if any.
        about_questions: whether it asks what was asked or requested, or has only symbols: every message counts.
        table: related terms; None = the built-in ones.
        language: its language (ISO 639-1), stated by the request or else detected.
        stated_language: the language that the request states, or None.
        kind: the kind of thing that it asks for, if it asks for no date, number or person.
        listed: the list that it asks for, if any.
        asks_last: whether it asks for the last time of something: "when did I last run?".
    """

    text: str
    parts: tuple[str, ...]
    names: tuple[str, ...]
    referents: tuple[str, ...]
    phrases: tuple[str, ...]
    times: tuple[TimeExpression, ...]
    asked: AnswerKind | None
    goal: str | None
    topic: tuple[str, ...] = ()
    depends: Dependence = Dependence.NONE
    event_times: tuple[TimeExpression, ...] = ()
    period: Mapping[str, Any] | None = None
    about_questions: bool = False
    language: str = ENGLISH
    stated_language: str | None = None
    kind: AskedKind = NO_KIND
    listed: ListRequest | None = None
    asks_last: bool = False
    table: RelatedTermsTable | None = field(default=None, repr=False, compare=False)

    @cached_property
    def all_words(self) -> list[str]:
        """All its words in order, folded, stop words too."""
        return words(self.text)

    @cached_property
    def name_terms(self) -> frozenset[str]:
        """The stems of its names: stemmed in its language, as in a sentence, and as stand-alone words."""
        return stem_set(self.names) | stem_set(self.names, self.language)

    @cached_property
    def asks_several(self) -> bool:
        """Whether it has several answers, in any order: it asks for a list, or more than one question."""
        kinds = [asked_kind(piece, self.language) for piece in _PART.split(self.text)]
        return self.listed is not None or len(self.parts) > 1 or len(kinds) - kinds.count(None) > 1

    @cached_property
    def asks_only_about_times(self) -> bool:
        """Whether it asks for anything that happened at some time: "what did I do on Thursday?"."""
        if not self.event_times or self.names or self.asked or self.depends is Dependence.WHOLE:
            return False
        return asks_what_happened(self.all_words, self.phrases, self.language)

    @cached_property
    def time_terms(self) -> frozenset[str]:
        """The stems of its times."""
        return stem_set(time.text for time in self.times)


def analyse_question(
    request: RetrieveRequest, reference: datetime, table: RelatedTermsTable | None = None
) -> AnalysedQuestion:
    """Return the analysis of `request`.

    Args:
        request: its last user message is the question; the six messages before it are the conversation window.
        reference: the time from which relative times count.
        table: related terms; None = the built-in ones.
    """
    at = _question_index(request.messages)
    text = _focus(request.messages[at].content)
    before = request.messages[max(0, at - _WINDOW_MESSAGES) : at]
    window = tuple(_focus(message.content) for message in before)
    asked_before = next((_focus(message.content) for message in reversed(before) if message.role is Role.USER), "")
    analysed = _analyse(text, window, asked_before, request.goal and _focus(request.goal), reference, request.language)
    period = period_filters(analysed.event_times, request.filters, to_utc(reference))
    return replace(analysed, period=period, table=table)


@lru_cache(maxsize=256)
def _analyse(
    text: str,
    window: tuple[str, ...],
    asked_before: str,
    goal: str | None,
    reference: datetime,
    stated_language: str | None,
) -> AnalysedQuestion:
    times, language = parse_times(text, reference), stated_language or text_language(text)
    time_terms = stem_set(time.text for time in times)
    named = [name for name in find_entities(text) if not time_terms.issuperset(stems(name))]
    depends = dependence(text, named, language)
    referents = _referents(window) if depends is Dependence.WHOLE else ()
    names = tuple(unique_folded([*named, *referents]))
    phrases = find_noun_phrases(text) + (find_noun_phrases(goal) if goal else [])
    if not named and not phrases and window:
        phrases = find_noun_phrases(window[-1])
    parts = _parts(text)
    asked = next(filter(None, (asked_kind(part, language) for part in parts)), None)
    if asked is AnswerKind.PERSON and any(asks_who_is(text, name, language) for name in named):
        asked = None
    last = last_time_words(text, times, language)
    worded = [*(time.text for time in times), *naming_words(text, language), *last]
    taken = time_terms | stem_set(names) | stem_set(worded, language)
    kept = tuple(unique_folded(filter(None, (_without_terms(phrase, taken, language) for phrase in phrases))))
    duty = None if names else asked_duty(text, kept, language)
    return AnalysedQuestion(
        text=text,
        parts=parts,
        names=names,
        referents=referents,
        phrases=kept if duty is None else (duty.phrase,),
        times=times,
        event_times=event_times(text, times),
        asked=asked,
        kind=duty.kind if duty else NO_KIND if asked else asked_kind_of(text, language),
        language=language,
        stated_language=stated_language,
        listed=list_request(text, language, names),
        asks_last=bool(last),
        goal=goal,
        topic=() if depends is Dependence.NONE else tuple(find_noun_phrases(asked_before)),
        depends=depends,
        about_questions=is_about_questions(text) or not has_word(text),
    )


def _question_index(messages: Sequence[ChatMessage]) -> int:
    """Return the index of the last user message, else of the last message."""
    users = [index for index, message in enumerate(messages) if message.role is Role.USER]
    return users[-1] if users else len(messages) - 1


def _focus(text: str) -> str:
    """Return at most 1,000 characters of a text: all of it, else its question sentences, else its start and end.

    Of a text of more than 16,000 characters only the first and last 8,000 are read.
    """
    if len(text) > 2 * READ_CHARACTERS:
        text = f"{text[:READ_CHARACTERS]}\n{text[-READ_CHARACTERS:]}"
    text = " ".join(text.split())
    if len(text) <= _FOCUS_CHARACTERS:
        return text
    sentences = (sentence.strip() for sentence in _SENTENCE.findall(text))
    asking = " ".join(sentence for sentence in sentences if sentence.endswith("?"))
    if 0 < len(asking) <= _FOCUS_CHARACTERS:
        return asking
    half = _FOCUS_CHARACTERS // 2 - 1
    return (asking or text)[:half] + " " + (asking or text)[-half:]


def _parts(text: str) -> tuple[str, ...]:
    """Split a question into its separate questions; pieces of less than two content words are dropped."""
    pieces = [piece for piece in _PART.split(text) if len(content_words(piece)) >= 2]
    return tuple(pieces) if len(pieces) >= 2 else (text,)


def _without_terms(phrase: str, taken: frozenset[str], language: str) -> str:
    """Return the content words of a phrase whose stems aren't in `taken`, neither in its language nor by themselves."""
    kept = (word for word in content_words(phrase) if taken.isdisjoint(stems(word)))
    return " ".join(word for word in kept if taken.isdisjoint(stems(word, language)))


def _referents(window: Sequence[str]) -> tuple[str, ...]:
    """Return the entities of the window that pronouns may refer to, newest first."""
    entities = (entity for message in reversed(window) for entity in find_entities(message))
    return tuple(unique_folded(entities)[:_MAX_REFERENTS])
