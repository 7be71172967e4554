"""One life written down: messages, facts and notes with their times, and the questions of its end (LIVE-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from recall_loop.evals.living.grammar import OLD, ExactFact, Grammar, Kind, Values, changed_values, draw_values, fill
from recall_loop.evals.living.life import (
    ASKED_AT,
    FIRST_DAY,
    OTHER_USER,
    USER,
    Around,
    Form,
    Life,
    LifeQuestion,
    Part,
    Scenario,
)
from recall_loop.state.records.records import ArchivalEntry, Block, Fact, Message, Record
from recall_loop.state.types import Role

_DAYS_BETWEEN = 9
_MINUTES_BETWEEN = 3
_REPEATS = 3
_EXPIRED_BEFORE = timedelta(days=1)


@dataclass
class LifeWriter:
    """A life that is being written; its messages carry `author`, and `opened` statements begin with filler words."""

    id: str
    grammar: Grammar
    part: Part
    draw: Random
    author: str | None = None
    opened: bool = False
    _sessions: list[list[Record]] = field(default_factory=list)
    _questions: list[LifeQuestion] = field(default_factory=list)
    _erased: list[str] = field(default_factory=list)
    _count: int = 0

    def session(self) -> None:
        """Begin a session, some days after the one before."""
        self._sessions.append([])

    def finish(self, group: str, *, alone: bool, around: Around = Around.MESSAGES) -> Life:
        """Return the life."""
        sessions = tuple(tuple(session) for session in self._sessions if session)
        asked, erased = tuple(self._questions), tuple(self._erased)
        return Life(self.id, group, self.grammar.language, alone, sessions, asked, around, erased)

    def ask(self, question: str, scenario: Scenario, kind: str, **labels: object) -> None:
        """Have a question asked in the end."""
        name = f"{self.id}:q{len(self._questions)}"
        self._questions.append(LifeQuestion(name, question, scenario, kind, **labels))  # type: ignore[arg-type]

    def say(self, text: str, role: Role = Role.USER, user: str = USER) -> str:
        """Have a message said, and return its id."""
        author = self.author if role is Role.USER and user == USER else None
        return self._write(Message, text=text, role=role, user_id=user, author=author)

    def chat(self) -> None:
        """Have something said that has nothing to do with any matter."""
        self.say(self.draw.choice(self.grammar.talk[self.part].small_talk))

    def tell(self, sentence: str, noted: str, form: Form = Form.PLAIN, user: str = USER) -> str:
        """Have a thing said in some form, and return the id of the record that holds it."""
        talk = self.grammar.talk[self.part]
        if form is Form.FACT:
            return self._write(Fact, text=noted, subject="user", user_id=user)
        if form is Form.NOTE:
            body = self._within(talk.long, noted)
            return self._write(ArchivalEntry, text=body, user_id=user)
        if form is Form.TOOL:
            block = Block(type="tool_result", text=noted)
            return self._write(Message, text=noted, role=Role.TOOL, user_id=user, blocks=(block,))
        if form is Form.LONG:
            text = self._within(talk.long, sentence)
        elif form is Form.WITH_QUESTION:
            text = sentence + _BETWEEN.get(self.grammar.language, " ") + self.draw.choice(talk.questions)
        else:
            text = self._within(talk.openings, sentence) if self.opened else sentence
        said = self.say(text, user=user)
        if self.draw.random() < 0.5:
            self.say(self.draw.choice(talk.noted), Role.ASSISTANT, user)
        return said

    def not_known(self, question: str) -> None:
        """Have a question asked that the assistant can't answer."""
        self.say(question)
        self.say(self.draw.choice(self.grammar.talk[self.part].unknown), Role.ASSISTANT)

    def forget(self, name: str, *, expired: bool) -> None:
        """Have the last session's record of this id erased, or let it expire before the questions."""
        if not expired:
            self._erased.append(name)
            return
        last = self._sessions[-1]
        at = next(place for place, record in enumerate(last) if record.id == name)
        last[at] = last[at].model_copy(update={"expires_at": ASKED_AT - _EXPIRED_BEFORE})

    def write_fact(self, fact: ExactFact, values: Values) -> str:
        """Have a fact recorded, and return its id."""
        filled = {name: fill(getattr(fact, name), values) for name in ("text", "subject", "object")}
        return self._write(Fact, fact_type=fact.type, user_id=USER, **filled)

    def _within(self, sentences: Sequence[str], told: str) -> str:
        return fill(self.draw.choice(sentences), {"told": (told,)})

    def _write(self, kind: type[Record], **fields: object) -> str:
        if not self._sessions:
            self.session()
        number = len(self._sessions)
        self._count += 1
        place = f"{self.id}:s{number}"
        spoken = {"conversation_id": place, "session": place} if kind is Message else {}
        made = timedelta(days=number * _DAYS_BETWEEN, minutes=self._count * _MINUTES_BETWEEN)
        record = kind(id=f"{self.id}:{self._count}", created_at=FIRST_DAY + made, **spoken, **fields)
        self._sessions[-1].append(record)
        return record.id


_BETWEEN = {"zh": ""}


@dataclass
class Matter:
    """A thing of some kind in a life: the words of its gaps, and the wordings of its statements and questions."""

    kind: Kind
    writer: LifeWriter
    values: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw the words."""
        self.values = self.values or draw_values(self._choices, self.writer.draw)

    @property
    def _choices(self) -> dict[str, tuple[str, ...]]:
        return self.writer.grammar.choices(self.kind)

    def any(self, sentences: Sequence[str], values: Values | None = None) -> str:
        """Return one of some sentences, filled."""
        return fill(self.writer.draw.choice(sentences), values or self.values)

    def tell(self, form: Form = Form.PLAIN, user: str = USER, values: Values | None = None) -> str:
        """Have it said."""
        told = self.any(self.kind.told, values)
        noted = fill(self.kind.noted, values or self.values) if self.kind.noted else told
        return self.writer.tell(told, noted, form, user)

    def once(self, form: Form = Form.PLAIN) -> None:
        """Said once."""
        self._ask(Scenario.ONCE, self.tell(form), form=form)

    def echo(self, *, later: bool, same_words: bool) -> None:
        """Asked and not known, then said: in a later session or at once; asked again in the same words or others."""
        asked = self.any(self.kind.asked)
        self.writer.not_known(asked)
        if later:
            self.writer.session()
        gold = self.tell()
        others = [each for each in self.kind.asked if fill(each, self.values) != asked]
        again = asked if same_words or not others else self.any(others)
        self.writer.ask(again, Scenario.ECHO, self.kind.name, gold=(gold,))

    def ask_unanswered(self, question: str, *, asked_before: bool) -> None:
        """Other things are said; the question may have been asked before, and is never answered."""
        if asked_before:
            self.writer.not_known(question)
            self.writer.session()
        self.tell()
        self.writer.ask(question, Scenario.UNSAID if asked_before else Scenario.NEVER, self.kind.name)

    def corrected(self) -> None:
        """Said, and said again with another value in a later session."""
        older = self.tell()
        self.writer.session()
        values = changed_values(self.kind, self._choices, self.values, self.writer.draw)
        wording = self.writer.draw.choice(self.kind.corrected)
        sentence = fill(wording, values)
        newer = self.writer.tell(sentence, sentence)
        self._ask(Scenario.CORRECTED, newer, older=(older,))
        if self.kind.before:
            gold = (older, newer) if f"{{{OLD}" in wording else (older,)  # a correction may say both
            self.writer.ask(self.any(self.kind.before, values), Scenario.PAST, self.kind.name, gold=gold)

    def repeated(self) -> None:
        """Said several times, in the same words and in others, each time in another session."""
        told = []
        for number in range(_REPEATS):
            if number:
                self.writer.session()
            sentence = fill(self.kind.told[number // 2 % len(self.kind.told)], self.values)
            told.append(self.writer.tell(sentence, sentence))
        self._ask(Scenario.REPEATED, *told, repeats=len(told))

    def forgotten(self, *, expired: bool) -> None:
        """Said among small talk, and then erased or expired."""
        self.writer.chat()
        told = self.tell()
        self.writer.chat()
        self.writer.forget(told, expired=expired)
        self.writer.ask(self.any(self.kind.asked), Scenario.FORGOTTEN, self.kind.name, older=(told,))

    def users(self) -> None:
        """Said by two users, with different values; each of them asks."""
        other = changed_values(self.kind, self._choices, self.values, self.writer.draw)
        gold = {USER: self.tell()}
        self.writer.session()
        gold[OTHER_USER] = self.tell(user=OTHER_USER, values=other)
        for user, said in gold.items():
            self._ask(Scenario.USERS, said, user_id=user)

    def _ask(self, scenario: Scenario, *gold: str, **labels: object) -> None:
        self.writer.ask(self.any(self.kind.asked), scenario, self.kind.name, gold=gold, **labels)
