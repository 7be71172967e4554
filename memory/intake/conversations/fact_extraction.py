"""Facts out of a conversation by a language model, each with the messages that say it (OPS-5).

Every message is read once: the facts and the note that their messages were read are written in one transaction. What
the model can't be asked for stays unread until the next time, and no message is lost by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recall_loop.llm.endpoint.call_limits import Limits, Usage
from recall_loop.llm.structured.output_schemas import reply_schema_tokens
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
from recall_loop.policy.evidence.fact_support import CitedContext, is_supported
from recall_loop.policy.facts.supersession import chronological, fact_value
from recall_loop.prompts.fact_replies import ExtractedFact, FactsReply
from recall_loop.prompts.templates import RenderedPrompt, render_prompt
from recall_loop.state.records.records import Fact, Message
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.keys import normalise
from recall_loop.text.words.token_budget import estimate_tokens, fit_to_budget
from recall_loop.text.words.xml_escaping import escape_text

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient
    from recall_loop.memory.store.store import MemoryStore

EXTRACTION_PROMPT = "extract_facts"
MAX_PROMPT_MESSAGES = 20
_CONTEXT_MESSAGES, _MAX_KNOWN_FACTS = 4, 20
_MAX_MESSAGE_CHARS = 2_000
_MAX_CONTEXT_CHARS = 300
_KNOWN_SHARE, _EARLIER_SHARE = 0.2, 0.2


@dataclass(slots=True)
class ExtractionResult:
    """What came of reading messages for facts.

    Attributes:
        created: ids of facts that are new.
        superseded: ids of older facts that new ones contradict.
        withdrawn: ids of facts that were drawn from words which have been changed since.
        unsupported: facts that the model named and its messages don't say; they were dropped.
        unread: messages that are still to be read.
        calls: calls of the model.
        tokens: tokens that they read and wrote.
        failure: why reading ended before all were read: a reason and its detail.
    """

    created: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    unsupported: int = 0
    unread: int = 0
    calls: int = 0
    tokens: int = 0
    failure: dict[str, str] | None = None


def extract_facts(
    store: MemoryStore,
    place: ConversationOwner,
    messages: Sequence[Message],
    door: ChatClient,
    *,
    limits: Limits,
    prompt_tokens: int,
    single_valued: Collection[str] = (),
) -> ExtractionResult:
    """Draw facts from those of a conversation's messages that weren't read yet, oldest first.

    Args:
        store: the store, open for writing, which holds `messages`.
        place: whose conversation it is; the facts are of the same owners.
        messages: its messages, oldest first; of those by user and assistant the unread ones are read.
        door: the language model.
        limits: what all calls together may cost.
        prompt_tokens: most tokens of one prompt, by estimate.
        single_valued: fact types that have one value at a time whatever the model says.

    Raises:
        StoreUnavailableError: the store fails; what was read before is kept.
        EmbedderError: the embedder fails; likewise.
    """
    spoken = [message for message in messages if message.role in CONVERSATION_ROLES]
    waiting = [at for at, message in enumerate(spoken) if not is_extracted(message)]
    told, used = ExtractionResult(), Usage()
    while waiting:
        prompt, places = _prompt(store, place, spoken, waiting, prompt_tokens)
        reply = door.ask(prompt, FactsReply, limits.less(used))
        used += reply.usage
        if reply.value is None:
            failure = reply.failure
            reason, detail = (failure.reason.value, failure.detail) if failure else ("no_reply", "")
            told.failure = {"reason": reason, "detail": detail}
            break
        batch = [spoken[at] for at in places]
        facts, unsupported = _facts(place, reply.value, batch, _context_texts(spoken, places[0]))
        told.unsupported += unsupported
        _write(store, place, batch, facts, single_valued, told)
        waiting = waiting[len(places) :]
    told.unread, told.calls, told.tokens = len(waiting), used.calls, used.tokens
    return told


# What the model is shown


def _prompt(
    store: MemoryStore, place: ConversationOwner, spoken: Sequence[Message], waiting: Sequence[int], tokens: int
) -> tuple[RenderedPrompt, list[int]]:
    """Return a prompt of about `tokens` tokens, and the places of the messages that are numbered in it."""
    bare = render_prompt(EXTRACTION_PROMPT, earlier="", known="", messages="")
    room = tokens - estimate_tokens(bare.system) - estimate_tokens(bare.user) - reply_schema_tokens(FactsReply)
    first = waiting[0]
    earlier = fit_to_budget(
        [_line(message, _MAX_CONTEXT_CHARS) for message in spoken[max(0, first - _CONTEXT_MESSAGES) : first]][::-1],
        int(_EARLIER_SHARE * room),
    )[::-1]
    known = fit_to_budget(_known_facts(store, place, spoken[first]), int(_KNOWN_SHARE * room))
    left = room - sum(estimate_tokens(line) for line in (*earlier, *known))
    places = list(waiting[:MAX_PROMPT_MESSAGES])
    lines = [f"{number}. {_line(spoken[at], _MAX_MESSAGE_CHARS)}" for number, at in enumerate(places, 1)]
    shown = fit_to_budget(lines, left) or lines[:1]  # a first message that is too long by itself is shown all the same
    prompt = render_prompt(
        EXTRACTION_PROMPT, earlier="\n".join(earlier), known="\n".join(known), messages="\n".join(shown)
    )
    return prompt, places[: len(shown)]


def _line(message: Message, most: int) -> str:
    day = message.created_at.date().isoformat() if message.created_at else ""
    who = " ".join(part for part in ((message.role or Role.USER).value, message.author, day) if part)
    text = escape_text(message.text)
    return f"[{escape_text(who)}] {text if len(text) <= most else text[:most] + '…'}"


def _known_facts(store: MemoryStore, place: ConversationOwner, message: Message) -> list[str]:
    """Return known facts that are near to what is read, so that the model calls things by the same names."""
    scope = Scope(tenant=place.tenant, agent_id=place.agent_id, user_id=place.user_id)
    params = SearchParams(content_types=(ContentType.FACT,), limit=_MAX_KNOWN_FACTS, time_suffixes=False)
    asked = message.text[:_MAX_MESSAGE_CHARS]
    found = search(store, asked, scope=scope, params=params)
    parts = ((hit.record.subject, hit.record.fact_type, hit.record.object) for hit in found.hits)
    lines = [escape_text(" | ".join(part or "" for part in named)) for named in parts if named[0] and named[1]]
    return list(dict.fromkeys(lines))


# What is made of its reply


def _context_texts(spoken: Sequence[Message], first: int) -> list[str]:
    return [message.text for message in spoken[max(0, first - _CONTEXT_MESSAGES) : first]]


def _facts(
    place: ConversationOwner, reply: FactsReply, batch: Sequence[Message], beside: Sequence[str]
) -> tuple[list[tuple[ExtractedFact, list[Message]]], int]:
    """Return the facts that their messages say, with these, and how many others there were."""
    found, dropped = [], 0
    for fact in reply.facts:
        cited = [batch[number - 1] for number in dict.fromkeys(fact.cites) if 1 <= number <= len(batch)]
        names = [message.author for message in batch if message.author]
        said = CitedContext(
            [message.text for message in cited], [*beside, *(message.text for message in batch), *names]
        )
        if cited and is_supported(fact.subject, fact.object, fact.text, said):
            found.append((fact, cited))
        else:
            dropped += 1
    return found, dropped


def _write(
    store: MemoryStore,
    place: ConversationOwner,
    batch: Sequence[Message],
    facts: Sequence[tuple[ExtractedFact, list[Message]]],
    single_valued: Collection[str],
    told: ExtractionResult,
) -> None:
    """Write facts, and that their messages were read, in one transaction.

    Asking takes long: what was erased or changed meanwhile is left as it is now, and no fact is drawn from it. A fact
    that cites it among others may say it too: it is dropped, and those others are read once more.
    """
    with store.exclusive():
        now = {record.id: record for record in store.get([one.id for one in batch], scope=Scope(tenant=place.tenant))}
        same = {message.id for message in batch if now.get(message.id) == message}
        whole = [(fact, cited) for fact, cited in facts if same.issuperset(one.id for one in cited)]
        done = same.difference(*({one.id for one in cited} for fact, cited in facts if (fact, cited) not in whole))
        made, single = _records(store, place, whole, {normalise(name) for name in single_valued})
        drawn = {message.id: [fact.id for fact in made if message.id in fact.source_ids] for message in batch}
        stale = {old for message in batch if message.id in done for old in stale_fact_ids(message)}
        withdrawn = _withdraw_facts(store, place, stale - {fact.id for fact in made}, done)
        along = [mark_extracted(message, drawn[message.id]) for message in batch if message.id in done]
        written = write_facts(
            store, made, tenant=place.tenant, single_valued=single_valued, single_ids=single, along=along
        )
    told.withdrawn += withdrawn
    told.created += [outcome.id for outcome in written.outcomes if outcome.id and outcome.status == "created"]
    told.superseded += written.superseded


def _single(fact: ExtractedFact, cited: Sequence[Message], types: Collection[str]) -> bool:
    """Tell whether one value holds at a time; what only the assistant said ends nothing that a user said."""
    if normalise(fact.fact_type) in types:
        return True
    return fact.single and any(message.role is Role.USER for message in cited)


def _records(
    store: MemoryStore,
    place: ConversationOwner,
    facts: Sequence[tuple[ExtractedFact, list[Message]]],
    types: Collection[str],
) -> tuple[list[Fact], set[str]]:
    """Return facts as records, joined with what is known of the very same ones, and which of them are single."""
    made: dict[str, Fact] = {}
    single: set[str] = set()
    for fact, cited in sorted(facts, key=lambda found: _moment(_last(found[1]))):
        alone = _single(fact, cited, types)
        record = _record(store, place, fact, cited, made, alone)
        made[record.id] = record
        single |= {record.id} if alone else set()
    return list(made.values()), single


def _last(cited: Sequence[Message]) -> Message:
    return max(cited, key=_moment)


def _moment(message: Message) -> tuple[bool, Any, int]:
    return (message.created_at is not None, message.created_at, message.position or 0)


def _record(
    store: MemoryStore,
    place: ConversationOwner,
    fact: ExtractedFact,
    cited: Sequence[Message],
    made: dict[str, Fact],
    single: bool,
) -> Fact:
    """Return a fact as a record whose id is the same whenever it is drawn again.

    What is said once more while it holds adds its messages to the same record. What is said again after it had been
    superseded, or after another value of a type that has one at a time, is a new record: it holds anew from then on.
    """
    last = _last(cited)
    sources = [message.id for message in cited]
    for name in _candidate_ids(place, fact):
        known = made.get(name) or next(iter(store.get([name], scope=Scope(tenant=place.tenant))), None)
        if not isinstance(known, Fact):
            break
        if set(sources) <= set(known.source_ids):
            return known
        if known.superseded_by is None and not (single and _has_later_value(store, place, known, made)):
            return known.model_copy(update={"source_ids": tuple(dict.fromkeys((*known.source_ids, *sources)))})
    return Fact(
        id=name,
        text=fact.text,
        subject=fact.subject,
        fact_type=fact.fact_type,
        object=fact.object,
        source_ids=tuple(sources),
        created_at=last.created_at,
        position=last.position,
        session=place.session,
        **place.owner_fields(),
    )


def _has_later_value(store: MemoryStore, place: ConversationOwner, known: Fact, made: dict[str, Fact]) -> bool:
    """Tell whether another value was said of the same thing after a fact, whether or not that ended it."""
    name = supersession_key(known)
    if name is None:
        return False
    beside = {one.id: one for one in store.facts_by_key(place.tenant, [name]).get(name, [])}
    beside |= {one.id: one for one in made.values() if supersession_key(one) == name}
    told = [one.id for one in chronological((beside | {known.id: known}).values())]
    after = told[told.index(known.id) + 1 :]
    return any(fact_value(beside[one]) != fact_value(known) for one in after)


def _candidate_ids(place: ConversationOwner, fact: ExtractedFact) -> Iterator[str]:
    """Yield the ids that a fact may have, one for each time that it began to hold."""
    parts = [normalise(part) for part in (fact.subject, fact.fact_type, fact.object)]
    times = 0
    while True:
        yield place.key("fact", *parts, str(times))
        times += 1


def _withdraw_facts(
    store: MemoryStore, place: ConversationOwner, stale: Collection[str], reread: Collection[str]
) -> list[str]:
    """Delete facts that only changed messages said; others lose those messages as their sources. Return the former."""
    gone: list[str] = []
    kept: list[Any] = []
    for fact in store.get(sorted(stale), scope=Scope(tenant=place.tenant)):
        left = tuple(source for source in fact.source_ids if source not in reread)
        if left:
            kept.append(fact.model_copy(update={"source_ids": left}))
        else:
            gone.append(fact.id)
    store.upsert(kept, tenant=place.tenant)
    store.delete(gone, tenant=place.tenant)
    return gone
