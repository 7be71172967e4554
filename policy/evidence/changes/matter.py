"""What a question is about, and the moment that it asks about, as far as they decide what holds (LIVE-4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.wording import asks_about_past, is_in_past_tense
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.text.time.time_expressions import TimeExpression
from recall_loop.text.words.tokens import words

_PERIODS = ("year", "month", "range")
_YEAR = timedelta(days=365)


@dataclass(frozen=True)
class Matter:
    """What a question is about, as far as it decides which of two statements holds now.

    Attributes:
        terms: its content words (`question_terms`).
        asks_kind: whether it asks for a kind of answer: a time, a number, a name, a property.
        is_evidence: tells whether an entry may be evidence: what only asks the same again isn't.
        holds_kind: tells whether an entry has what that kind of question asks for.
        rarity: how rare a word is.
        read: returns the probability in [0,1] that an entry answers the question, as the two are read together.
        names: the stems of its names, if it asks for no time, number or property: what shares nothing else with a
            statement tells something else of whoever has the name.
    """

    terms: frozenset[str]
    asks_kind: bool
    is_evidence: Callable[[PoolEntry], bool]
    holds_kind: Callable[[PoolEntry], bool]
    rarity: Rarity
    read: Callable[[RankedEntry], float]
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AskedMoment:
    """Whether a question is about the past, and the end of the time that it names, if it names a past one.

    `now` is the clock's time: what is dated later than that by more than a day corrects nothing (GUARD-5).
    """

    past: bool
    until: datetime | None
    now: datetime


def asked_moment(question: AnalysedQuestion, reference: datetime, now: datetime) -> AskedMoment:
    """Return which moment a question asks about; `reference` is its now, `now` the clock's."""
    past = asks_about_past(question.text)
    told = past or is_in_past_tense(question.text)
    any_time = question.asks_only_about_times  # "what did I do on Thursday?"
    known = (time for time in question.event_times if any_time or time.kind in _PERIODS)
    times = [time for time in known if time.end <= reference]
    ends = [time.end for time in times if told or not _is_rather_to_come(time, reference)]
    return AskedMoment(past, max(ends, default=None), now)


def _is_rather_to_come(time: TimeExpression, reference: datetime) -> bool:
    """Tell whether a month without a year is nearer ahead than behind: "where do we go in August?", asked in July."""
    named = [word for word in words(time.text) if word != "in"]
    if time.kind != "month" or len(named) != 1 or not named[0].isalpha():
        return False
    return time.start + _YEAR - reference < reference - time.end
