"""A scripted life: the statements of its sessions, and the questions at its end (LIVE-8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from recall_loop.state.records.records import Record

ASKED_AT = datetime(2025, 7, 1, 9, 0, tzinfo=UTC)
"""When every question is asked: after all that is said."""
FIRST_DAY = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
"""The earliest day of a life; what lies around it begins earlier, and ends before `ASKED_AT`."""
USER, OTHER_USER = "user-1", "user-2"


class Scenario(StrEnum):
    """The state of the thing that a question asks about.

    `once`: said once. `echo`: asked before, not known then, and said since. `unsaid`: asked before, and never said.
    `never`: neither. `corrected`: said, and then corrected; the present is asked for. `past`: the same, and the past is
    asked for. `repeated`: said several times. `forgotten`: said, and then erased or expired. `users`: said by two
    users, and one of them asks. `fact`: a record of kind fact, asked for in its own words.
    """

    ONCE = "once"
    ECHO = "echo"
    UNSAID = "unsaid"
    NEVER = "never"
    CORRECTED = "corrected"
    PAST = "past"
    REPEATED = "repeated"
    FORGOTTEN = "forgotten"
    USERS = "users"
    FACT = "fact"


class Form(StrEnum):
    """How a thing is said: by itself, in a longer message, with a question behind it, or as another kind of record."""

    PLAIN = "plain"
    LONG = "long"
    WITH_QUESTION = "with_question"
    FACT = "fact"
    NOTE = "note"
    TOOL = "tool"


class Part(StrEnum):
    """The half of all kinds, sentences and words: `dev` to tune on, `held` to measure what was tuned."""

    DEV = "dev"
    HELD = "held"


class Around(StrEnum):
    """What lies around a life in its tenant."""

    MESSAGES = "messages"
    FACTS = "facts"


@dataclass(frozen=True)
class LifeQuestion:
    """A question that is asked at the end of a life, of a user's records or (None) of the whole tenant.

    `gold` are ids of the records that each hold the answer: one of them is enough; none where it was never said.
    `older` are those that held it before a correction, or until they were forgotten, and `repeats` is how often it was
    said.
    """

    id: str
    question: str
    scenario: Scenario
    kind: str
    form: Form = Form.PLAIN
    gold: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    repeats: int = 0
    user_id: str | None = None

    @property
    def answerable(self) -> bool:
        """Whether the answer was said."""
        return bool(self.gold)


@dataclass(frozen=True)
class Life:
    """One scripted life: records in order of time, those of a session written together, and questions.

    Lives that share sentences have the same `group`, which must not be split between fitting and measuring. With one
    matter only it is `alone`, so that at size 0 nothing else is in memory. `erased` records are erased before the
    questions.
    """

    id: str
    group: str
    language: str
    alone: bool
    sessions: tuple[tuple[Record, ...], ...]
    questions: tuple[LifeQuestion, ...]
    around: Around = Around.MESSAGES
    erased: tuple[str, ...] = ()

    @property
    def record_ids(self) -> list[str]:
        """Ids of all records."""
        return [record.id for session in self.sessions for record in session]


@dataclass(frozen=True)
class LifeAnswer:
    """The result of one question in a memory with `size` unrelated records around the life.

    `ids` are those of the sources of the facts, best first, without duplicates; `superseded` are marked as corrected
    since, `counts` say how often each was said, and `context_ids` are what the context block cites, in its order.
    `facts` have id, score, similarity and alignment, best first.
    """

    life: Life
    question: LifeQuestion
    size: int
    ids: list[str]
    label: str
    score: float
    confidence: Mapping[str, object]
    superseded: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)
    context_ids: tuple[str, ...] = ()
    facts: tuple[tuple[str, float, float, tuple[float, ...]], ...] = ()
    latency_ms: float = 0.0

    @property
    def rank(self) -> int | None:
        """The rank of the first record that holds the answer, from 1."""
        return self._rank(self.question.gold)

    @property
    def older_rank(self) -> int | None:
        """The rank of the first record that held it before."""
        return self._rank(self.question.older)

    def within(self, most: int) -> bool:
        """Whether the answer is among the first `most`."""
        return self.rank is not None and self.rank <= most

    def _rank(self, wanted: tuple[str, ...]) -> int | None:
        return next((rank for rank, name in enumerate(self.ids, 1) if name in wanted), None)
