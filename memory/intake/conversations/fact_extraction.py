"""Facts out of a conversation by a language model, each with the messages that say it (OPS-5).

Every message is read once: the facts and the note that their messages were read are written in one transaction. What
the model can't be asked for stays unread until the next time, and no message is lost by it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from recall_loop.llm.endpoint.circuit_breaker import Limits, Usage
from recall_loop.llm.structured.output_methods import reply_schema
from recall_loop.memory.intake.conversations.conversation import (
    CONVERSATION_ROLES,
    ConversationOwner,
    is_extracted,
    mark_extracted,
    stale_fact_ids,
)
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.encoding.indexing import supersession_key
from recall_loop.policy.facts.supersession import CitedContext, chronological, fact_value, is_supported
from recall_loop.prompts.replies import ExtractedFact, FactsReply
from recall_loop.prompts.templates import RenderedPrompt, render_prompt
from recall_loop.state.display import truncate
from recall_loop.state.errors import EmbedderError
from recall_loop.state.records.records import Fact, Message, Record
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.folding import normalise
from recall_loop.text.words.snippets import escape_text, estimate_tokens, fit_to_budget

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient
    from recall_loop.memory.store.store import MemoryStore

EXTRACTION_PROMPT = "extract_facts"
MAX_PROMPT_MESSAGES = 20
_CONTEXT_MESSAGES, _MAX_KNOWN_FACTS = 4, 20
_MAX_MESSAGE_CHARS = 2_000
_MAX_CONTEXT_CHARS = 300
_KNOWN_SHARE, _EARLIER_SHARE = 0.2, 0.2
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ExtractionResult:
    """The outcome of reading messages for facts: ids of new ones, and of older ones that they contradict.

    `withdrawn` are ids of facts that were drawn from text which has changed since; `unsupported` counts those that the
    model named and its messages don't say: they were dropped. `tokens` are those that its calls read and wrote.
    `failure` says why reading ended while messages were `unread`: a reason and its detail.
    """

    created: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    unsupported: int = 0
    unread: int = 0
    calls: int = 0
    tokens: int = 0
    failure: dict[str, str] | None = None

    def __add__(self, other: ExtractionResult) -> ExtractionResult:
        """Return the outcome of both; of two failures the first."""
        names = [one.name for one in fields(self) if one.name != "failure"]
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return ExtractionResult(**sums, failure=self.failure or other.failure)


def extract_facts(
    store: MemoryStore,
    owner: ConversationOwner,
    messages: Sequence[Message],
    client: ChatClient,
    settings: Settings,
    single_valued: Collection[str] = (),
) -> ExtractionResult:
    """Draw facts from those of a conversation's messages that weren't read yet, oldest first.

    Only messages by user and assistant are read. `single_valued` are fact types that have one value at a time whatever
    the model says; `settings` bound all calls together, and each prompt.

    Where the model or the embedder fails, the result and the log say so; the messages wait for the next time. What was
    read before the store fails (`StoreUnavailableError`) is kept.
    """
    spoken = [message for message in messages if message.role in CONVERSATION_ROLES]
    unread = [position for position, message in enumerate(spoken) if not is_extracted(message)]
    extractor, result, used = _FactExtractor(store, owner, single_valued), ExtractionResult(), Usage()
    limits = Limits.from_settings(settings)
    try:
        while unread:
            context = spoken[max(0, unread[0] - _CONTEXT_MESSAGES) : unread[0]]
            candidates = [spoken[position] for position in unread[:MAX_PROMPT_MESSAGES]]
            prompt, count = extractor.prompt(context, candidates, settings.llm_prompt_tokens)
            reply = client.ask(prompt, FactsReply, limits.less(used))
            used += reply.usage
            if reply.value is None:
                failure = reply.failure
                reason, detail = (failure.reason.value, failure.detail) if failure else ("no_reply", "")
                result.failure = {"reason": reason, "detail": detail}
                break
            batch = candidates[:count]
            facts = _supported_facts(reply.value, batch, context)
            result.unsupported += len(reply.value.facts) - len(facts)
            extractor.write(batch, facts, result)
            unread = unread[count:]
    except EmbedderError as error:
        result.failure = {"reason": "embedder", "detail": error.told}
    result.unread, result.calls, result.tokens = len(unread), used.calls, used.tokens
    if result.failure is not None:
        _log.warning("facts not extracted: %(reason)s", result.failure, extra={"failure": result.failure["reason"]})
    return result


_CitedFact = tuple[ExtractedFact, list[Message]]


def _supported_facts(reply: FactsReply, batch: Sequence[Message], context: Sequence[Message]) -> list[_CitedFact]:
    """Return the facts that the messages they cite say, with these messages."""
    names = [message.author for message in batch if message.author]
    beside = [*(message.text for message in (*context, *batch)), *names]
    supported = []
    for fact in reply.facts:
        cited = [batch[number - 1] for number in dict.fromkeys(fact.cites) if 1 <= number <= len(batch)]
        said = CitedContext([message.text for message in cited], beside)
        if cited and is_supported(fact.subject, fact.object, fact.text, said):
            supported.append((fact, cited))
    return supported


def _line(message: Message, max_chars: int) -> str:
    day = message.created_at.date().isoformat() if message.created_at else ""
    speaker = " ".join(part for part in ((message.role or Role.USER).value, message.author, day) if part)
    return f"[{escape_text(speaker)}] {truncate(escape_text(message.text), max_chars)}"


def _time_key(message: Message) -> tuple[bool, Any, int]:
    return (message.created_at is not None, message.created_at, message.position or 0)


@dataclass(frozen=True)
class _FactExtractor:
    """Prompts for a conversation's facts, and writes them to its store."""

    store: MemoryStore
    owner: ConversationOwner
    single_valued: Collection[str]

    def prompt(
        self, context: Sequence[Message], candidates: Sequence[Message], tokens: int
    ) -> tuple[RenderedPrompt, int]:
        """Return a prompt of about `tokens` tokens, and how many of the candidates are numbered in it."""
        bare = render_prompt(EXTRACTION_PROMPT, earlier="", known="", messages="")
        room = tokens - estimate_tokens(bare.system) - estimate_tokens(bare.user) - reply_schema(FactsReply).tokens
        latest_first = [_line(message, _MAX_CONTEXT_CHARS) for message in reversed(context)]
        earlier = fit_to_budget(latest_first, int(_EARLIER_SHARE * room))[::-1]
        known = fit_to_budget(self._known_facts(candidates[0]), int(_KNOWN_SHARE * room))
        left = room - sum(estimate_tokens(line) for line in (*earlier, *known))
        lines = [f"{number}. {_line(message, _MAX_MESSAGE_CHARS)}" for number, message in enumerate(candidates, 1)]
        shown = fit_to_budget(lines, left) or lines[:1]  # a first message that is too long is shown anyway
        prompt = render_prompt(
            EXTRACTION_PROMPT, earlier="\n".join(earlier), known="\n".join(known), messages="\n".join(shown)
        )
        return prompt, len(shown)

    def _known_facts(self, message: Message) -> list[str]:
        """Return known facts near to a message, so that the model calls things by the same names."""
        response = search(
            self.store,
            message.text[:_MAX_MESSAGE_CHARS],
            scope=Scope(tenant=self.owner.tenant, agent_id=self.owner.agent_id, user_id=self.owner.user_id),
            params=SearchParams(content_types=(ContentType.FACT,), limit=_MAX_KNOWN_FACTS, time_suffixes=False),
            fallback=False,  # the facts have to be embedded too: better before the model is asked
        )
        parts = ((hit.record.subject, hit.record.fact_type, hit.record.object) for hit in response.hits)
        lines = [escape_text(" | ".join(part or "" for part in named)) for named in parts if named[0] and named[1]]
        return list(dict.fromkeys(lines))

    def write(self, batch: Sequence[Message], facts: Sequence[_CitedFact], result: ExtractionResult) -> None:
        """Write facts, and that their messages were read, in one transaction.

        Asking takes long: what was erased or changed meanwhile is left as it is now, and no fact is drawn from it. A
        fact that cites it among others may depend on it: it is dropped, and those others are read once more.
        """
        with self.store.exclusive(self.owner.tenant):
            now = self._stored(message.id for message in batch)
            same = {message.id for message in batch if now.get(message.id) == message}
            kept = [(fact, cited) for fact, cited in facts if same.issuperset(one.id for one in cited)]
            dropped = [cited for fact, cited in facts if (fact, cited) not in kept]
            read = same.difference(*({one.id for one in cited} for cited in dropped))
            records, single = self._records(kept)
            drawn = {message.id: [fact.id for fact in records if message.id in fact.source_ids] for message in batch}
            stale = {old for message in batch if message.id in read for old in stale_fact_ids(message)}
            result.withdrawn += self._withdraw_facts(stale - {fact.id for fact in records}, read)
            written = write_facts(
                self.store,
                records,
                tenant=self.owner.tenant,
                single_ids=single,
                along=[mark_extracted(message, drawn[message.id]) for message in batch if message.id in read],
            )
        result.created += [outcome.id for outcome in written.outcomes if outcome.id and outcome.status == "created"]
        result.superseded += written.superseded

    def _stored(self, ids: Iterable[str]) -> dict[str, Record]:
        return {record.id: record for record in self.store.get(ids, scope=Scope(tenant=self.owner.tenant))}

    def _records(self, facts: Sequence[_CitedFact]) -> tuple[list[Fact], set[str]]:
        """Return facts as records, joined with known ones that are the same, and the ids of single-valued ones."""
        types = {normalise(name) for name in self.single_valued}
        records: dict[str, Fact] = {}
        single: set[str] = set()
        for fact, cited in sorted(facts, key=lambda pair: max(map(_time_key, pair[1]))):
            # A statement made only by the assistant doesn't supersede a user's.
            said_single = fact.single and any(message.role is Role.USER for message in cited)
            is_single = said_single or normalise(fact.fact_type) in types
            record = self._record(fact, cited, records, is_single)
            records[record.id] = record
            single |= {record.id} if is_single else set()
        return list(records.values()), single

    def _record(self, fact: ExtractedFact, cited: Sequence[Message], new: dict[str, Fact], is_single: bool) -> Fact:
        """Return a fact as a record whose id is the same whenever it is drawn again.

        What is said once more while it holds adds its messages to the same record. What is said again after it had
        been superseded, or after another value of a type that has one at a time, is a new record: it holds again from
        then on.
        """
        last = max(cited, key=_time_key)
        sources = [message.id for message in cited]
        parts = [normalise(part) for part in (fact.subject, fact.fact_type, fact.object)]
        for record_id in (self.owner.key("fact", *parts, str(times)) for times in count()):
            known = new.get(record_id) or self._stored([record_id]).get(record_id)
            if not isinstance(known, Fact):
                break
            if set(sources) <= set(known.source_ids):
                return known
            if known.superseded_by is None and not (is_single and self._has_later_value(known, new)):
                return known.model_copy(update={"source_ids": tuple(dict.fromkeys((*known.source_ids, *sources)))})
        return Fact(
            id=record_id,
            text=fact.text,
            subject=fact.subject,
            fact_type=fact.fact_type,
            object=fact.object,
            source_ids=tuple(sources),
            created_at=last.created_at,
            position=last.position,
            language=last.language,
            session=self.owner.session,
            **self.owner.owner_fields(),
        )

    def _has_later_value(self, known: Fact, new: dict[str, Fact]) -> bool:
        """Return whether another value was stated for the same thing after a fact, whether or not it ended the fact."""
        key = supersession_key(known)
        if key is None:
            return False
        facts = {fact.id: fact for fact in self.store.facts_by_key(self.owner.tenant, [key]).get(key, [])}
        facts |= {fact.id: fact for fact in new.values() if supersession_key(fact) == key} | {known.id: known}
        ordered = chronological(facts.values(), datetime.now(UTC))
        later = ordered[[fact.id for fact in ordered].index(known.id) + 1 :]
        return any(fact_value(fact) != fact_value(known) for fact in later)

    def _withdraw_facts(self, stale: Collection[str], reread: Collection[str]) -> list[str]:
        """Delete facts that only changed messages said; others lose these as sources. Return the deleted ids."""
        deleted: list[str] = []
        kept: list[Record] = []
        for fact in self.store.get(sorted(stale), scope=Scope(tenant=self.owner.tenant)):
            sources = tuple(source for source in fact.source_ids if source not in reread)
            if sources:
                kept.append(fact.model_copy(update={"source_ids": sources}))
            else:
                deleted.append(fact.id)
        self.store.upsert(kept, tenant=self.owner.tenant)
        self.store.delete(deleted, tenant=self.owner.tenant)
        return deleted
