"""The turns of a conversation: recall, reply, then write what both said."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.cli.talk.fact_notes import RECALLED, NotedFact, is_repeated_reply, is_statement, note_facts
from recall_loop.graph.memories.memory import Memory
from recall_loop.graph.run import follow, stream_retrieve
from recall_loop.memory.intake.conversations.additions import AddResult
from recall_loop.memory.intake.conversations.fact_extraction import ExtractionResult
from recall_loop.memory.store.encoding.derivation import derive_id
from recall_loop.state.errors import validate_model
from recall_loop.state.records.records import Record
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.scope import Scope
from recall_loop.state.types import ConfidenceLabel, Identifier, Role, SpeechAct, Timestamp, Utf8Text
from recall_loop.text.speech.speech_acts import asks_to_forget, speech_acts

Clock = Callable[[], datetime]
NOTED, UNDERSTOOD, NOTHING = "Noted.", "All right.", "Nothing in memory about that."
NOT_ERASED = "Nothing was erased by that: /forget ID erases a record, and /memory shows the ids."
_WINDOW = 12  # earlier messages of the conversation, to resolve "it" and "she"
_ASKING = frozenset({SpeechAct.QUESTION, SpeechAct.REQUEST})


@dataclass(frozen=True)
class WrittenMessage:
    """A message as it was written: `status` is created, replaced or unchanged."""

    id: str
    role: Role
    status: str
    acts: tuple[SpeechAct, ...]


@dataclass(frozen=True)
class Turn:
    """One turn, from 1 in this run of the program: the text, the recalled facts, the reply, and the written messages.

    `acts` are the speech acts of its sentences, `events` the progress events of the recall, `extracted` the facts that
    a model drew from it; None where it wasn't asked to.
    """

    number: int
    conversation_id: str
    at: datetime
    text: str
    acts: tuple[SpeechAct, ...]
    result: RetrieveResult
    facts: tuple[NotedFact, ...]
    events: tuple[ProgressEvent, ...]
    reply: str
    written: tuple[WrittenMessage, ...]
    extracted: ExtractionResult | None

    @property
    def asks(self) -> bool:
        """Whether it asks or requests anything, and so is to be answered."""
        return not _ASKING.isdisjoint(self.acts)


class ConversationOptions(BaseModel):
    """Who talks in whose memory, and when; a user or agent that isn't named narrows no recall."""

    model_config = ConfigDict(frozen=True)

    tenant: Identifier
    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    author: Utf8Text | None = Field(None, description="Author of the user's messages.")
    conversation_id: Identifier | None = Field(None, description="Conversation to continue; None = a new one.")
    reference_time: Timestamp | None = Field(None, description="Time at which it starts; None = now.")
    infer: bool = Field(False, description="Whether the chat model extracts facts from each turn.")


def clock_from(start: datetime | None) -> Clock:
    """Return a clock that starts at the given time and then goes on as time does; None = the real time."""
    if start is None:
        return lambda: datetime.now(UTC)
    begun = time.monotonic()
    return lambda: start + timedelta(seconds=time.monotonic() - begun)


class Conversation:
    """A conversation with a memory.

    Recall reaches all conversations of the speaker. A conversation that is in memory already goes on where it ended.
    """

    def __init__(self, memory: Memory, options: ConversationOptions) -> None:
        self.memory = memory
        self.conversation_id = options.conversation_id or _new_id()
        self.last: Turn | None = None
        self._options, self._turns = options, 0
        self._scope = options.model_dump(include={"tenant", "user_id", "agent_id"})  # the fields that narrow a read
        self._clock = clock_from(options.reference_time)
        self._window: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_WINDOW)
        if options.conversation_id is not None:
            self._window.extend(self._earlier())

    def now(self) -> datetime:
        """Return the conversation's time."""
        return self._clock()

    def count(self) -> int:
        """Return how many records recall reaches."""
        return self.memory.store.count(Scope(**self._scope))

    def say(self, text: str) -> Turn:
        """Recall for the text, reply, and write both."""
        at, acts = self._clock(), _acts(text, Role.USER)
        forgets = asks_to_forget(text) and SpeechAct.QUESTION not in acts
        result, events = self._recall(text, at, asks=not forgets and not _ASKING.isdisjoint(acts))
        reply = NOT_ERASED if forgets else _reply(result, acts)
        added = self._write(text, reply, at)
        self._turns += 1
        facts = note_facts(result, text, self.memory.settings)
        written = _written(added, (text, reply))
        self.last = Turn(
            self._turns, self.conversation_id, at, text, acts, result, facts, events, reply, written, added.facts
        )
        return self.last

    def begin_conversation(self) -> str:
        """Start a new conversation and return its id; earlier messages stay in memory."""
        self.conversation_id = _new_id()
        self._window.clear()
        return self.conversation_id

    def newest(self, limit: int) -> tuple[Record, ...]:
        """Return the newest records that recall reaches."""
        return self.memory.list(**self._scope, limit=limit).records

    def forget(self, record_id: str) -> bool:
        """Delete a record that recall reaches; return whether there was one. The conversation forgets it too."""
        deleted = self.memory.delete(record_id, **self._scope)
        if deleted:
            kept = [entry for entry in self._window if entry[0] != record_id]
            self._window = deque(kept, maxlen=_WINDOW)
        return deleted

    def _earlier(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the last messages of the conversation as memory has them, oldest first."""
        scope = validate_model(Scope, {**self._scope, "conversation_id": self.conversation_id})
        page = self.memory.store.newest(scope, content_types=["message"], limit=_WINDOW)
        return [(record.id, _chat_message(record)) for record in reversed(page.records)]

    def _recall(self, text: str, at: datetime, *, asks: bool) -> tuple[RetrieveResult, tuple[ProgressEvent, ...]]:
        window = [fields for _, fields in self._window]
        said = {"role": Role.USER, "author": self._options.author, "content": text, "timestamp": at}
        fields: dict[str, Any] = {"messages": [*window, said], "reference_time": at, "debug": True}
        if not asks:
            fields["write_answer"] = False  # there is nothing to answer
        request = validate_model(RetrieveRequest, fields | self._scope)
        events: list[ProgressEvent] = []
        steps = stream_retrieve(request, store=self.memory.store, settings=self.memory.settings)
        return follow(steps, events.append), tuple(events)

    def _write(self, text: str, reply: str, at: datetime) -> AddResult:
        """Write both messages in one call: neither is kept without the other."""
        said = {"role": Role.USER.value, "content": text, "author": self._options.author, "timestamp": at}
        replied = {"role": Role.ASSISTANT.value, "content": reply, "timestamp": max(self._clock(), at)}
        added = self.memory.add(
            [said, replied],
            **self._scope,
            conversation_id=self.conversation_id,
            infer=self._options.infer,
        )
        self._window.extend(zip(added.ids, ({**said}, {**replied}), strict=True))
        return added


def _new_id() -> str:
    return f"chat-{derive_id()}"


def _acts(text: str, role: Role) -> tuple[SpeechAct, ...]:
    return tuple(sorted(speech_acts(text, role)))


def _chat_message(record: Record) -> dict[str, Any]:
    role = getattr(record, "role", None) or Role.USER
    return {"role": role, "author": record.author, "content": record.text, "timestamp": record.created_at}


def _written(added: AddResult, texts: Sequence[str]) -> tuple[WrittenMessage, ...]:
    status = {outcome.id: outcome.status for outcome in added.outcomes}
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(
        WrittenMessage(record_id, role, status[record_id], _acts(text, role))
        for record_id, role, text in zip(added.ids, roles, texts, strict=True)
    )


def _reply(result: RetrieveResult, acts: Sequence[SpeechAct]) -> str:
    """Return the model's answer; without one the best fact as it stands, or that there is none."""
    if _ASKING.isdisjoint(acts):
        return NOTED if SpeechAct.STATEMENT in acts else UNDERSTOOD
    if result.answer:
        return result.answer
    # A reply that only repeats facts is not a source: they may have been corrected since.
    best = next((fact for fact in result.facts if is_statement(fact) and not is_repeated_reply(fact)), None)
    if best is None or result.confidence.label is ConfidenceLabel.LOW:
        return NOTHING
    return f"{RECALLED}{' '.join(best.text.split())}"
