"""A thread's messages as records, written once however often they are handed in (OPS-5).

A message is known by its thread and its id, or by its place and its words where it has none; running twice, or again
after a crash, writes nothing twice. What has left the thread stays in memory: trimming a context window is no erasure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from recall_loop.memory.parsing.chat_messages import SourceMessage, parse_message
from recall_loop.memory.parsing.values import to_datetime
from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Message
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.types import Role

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

CONVERSATION_ROLES = (Role.USER, Role.ASSISTANT)
# In a message's attributes: its own id in the thread, the facts that were drawn from it, and from what it said before.
MESSAGE_ID_ATTRIBUTE, FACTS_ATTRIBUTE, STALE_FACTS_ATTRIBUTE = "message_id", "facts", "stale_facts"
_MOST_TEXT = 1_000_000
# Clocks differ, but what claims to be from later than this would outlast every correction.
_MAX_CLOCK_SKEW = timedelta(days=1)


@dataclass(frozen=True)
class ConversationOwner:
    """Whose conversation it is. It comes from the program, never from messages or a model.

    Attributes:
        tenant: the tenant.
        conversation_id: the conversation, such as a LangGraph thread's id.
        session: part of the conversation; neighbours' windows never join two sessions.
    """

    conversation_id: str
    tenant: str = DEFAULT_TENANT
    agent_id: str | None = None
    group_id: str | None = None
    user_id: str | None = None
    session: str | None = None

    def owner_fields(self) -> dict[str, str | None]:
        """Return the fields that a record of this place has."""
        names = ("agent_id", "group_id", "user_id", "conversation_id")
        return {name: getattr(self, name) for name in names}

    def key(self, kind: str, *parts: str) -> str:
        """Return a record's id in this place, the same each time; of the same parts elsewhere it is another."""
        return f"{kind}-{digest(self.agent_id, self.group_id, self.user_id, self.conversation_id, *parts)}"


@dataclass(frozen=True, slots=True)
class RecordedMessages:
    """What became of a thread's messages.

    Attributes:
        records: all that are worth keeping, in the thread's order, as they now stand in the store.
        created: ids of those that were new.
        replaced: ids of those whose words had changed.
        warnings: what couldn't be taken as it was given, in words.
    """

    records: tuple[Message, ...]
    created: tuple[str, ...]
    replaced: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def record_messages(
    store: MemoryStore,
    place: ConversationOwner,
    messages: Iterable[object],
    *,
    roles: Collection[Role] = CONVERSATION_ROLES,
    now: datetime | None = None,
) -> RecordedMessages:
    """Write what is new or changed among the messages of a thread, oldest first.

    Messages may be LangChain's, or mappings with role and content. Those without text are left out. A message that is
    new gets the place after the last one that the store has of the session (none, where that has none: then times
    order them), and the time that it names (as `timestamp` or `created_at`, also among LangChain's
    `additional_kwargs`); else, and where that is more than a day ahead of the clock, that of now.

    Raises:
        InvalidInputError: something is no message, or a part of `place` is not allowed.
        StoreUnavailableError: the store fails; repeating the call is safe.
        StoreReadOnlyError: the store is open for reading only.
    """
    drafts = _drafts(place, messages, frozenset(roles), now or datetime.now(UTC))
    warnings = [warning for draft in drafts for warning in draft.warnings]
    with store.exclusive():
        scope = validate_model(Scope, {"tenant": place.tenant}, "place")
        known = {record.id: record for record in store.get([draft.id for draft in drafts], scope=scope)}
        session_scope = Scope(tenant=place.tenant, user_id=place.user_id, conversation_id=place.conversation_id)
        ready = _merge_drafts(drafts, known, store.next_position(session_scope, place.session))
        written = {record.id: record for record, before in ready if record is not before}
        outcomes = store.upsert(written.values(), tenant=place.tenant)
    refused = [outcome for outcome in outcomes if outcome.error]
    if refused:
        raise InvalidInputError("messages", refused[0].id, refused[0].error or "")
    created = tuple(outcome.id for outcome in outcomes if outcome.id and outcome.status == "created")
    replaced = tuple(outcome.id for outcome in outcomes if outcome.id and outcome.status == "replaced")
    return RecordedMessages(
        tuple({record.id: record for record, _ in ready}.values()), created, replaced, tuple(warnings)
    )


@dataclass(frozen=True, slots=True)
class _MessageDraft:
    id: str
    fields: dict[str, Any]
    warnings: tuple[str, ...] = ()


def _drafts(
    place: ConversationOwner, messages: Iterable[object], roles: Collection[Role], now: datetime
) -> list[_MessageDraft]:
    found = []
    for at, given in enumerate(messages):
        for part, heard in enumerate(parse_message(given, f"messages.{at}")):
            if heard.role in roles and heard.content.strip():
                found.append(_draft(place, heard, at, part, now))
    return found


def _draft(place: ConversationOwner, heard: SourceMessage, at: int, part: int, now: datetime) -> _MessageDraft:
    """Return a message's fields; without an id of its own it is known by place and words."""
    named = ("id", heard.id) if heard.id else ("text", str(at), heard.role.value, heard.name or "", heard.content)
    moment, warning = _moment(heard, now)
    cut = len(heard.content) > _MOST_TEXT
    warnings = [warning] if warning else []
    warnings += [f"a message of {len(heard.content):,} characters is cut at {_MOST_TEXT:,}"] if cut else []
    fields = {
        "text": heard.content[:_MOST_TEXT],
        "author": heard.name,
        "role": heard.role,
        "created_at": moment or now,
        "session": place.session,
        "attributes": {MESSAGE_ID_ATTRIBUTE: heard.id} if heard.id else {},
        **place.owner_fields(),
    }
    return _MessageDraft(place.key("message", *named, str(part)), fields, tuple(warnings))


def _moment(heard: SourceMessage, now: datetime) -> tuple[datetime | None, str | None]:
    """Return when a message was written, where it says so; and a warning where that is no time."""
    more = heard.extra.get("additional_kwargs")
    given = heard.timestamp or (more.get("timestamp") if isinstance(more, dict) else None)
    found = to_datetime(given) if given is not None else None
    if found is not None and found > now + _MAX_CLOCK_SKEW:
        return None, "a message's timestamp is in the future; the clock's was taken"
    return found, "a message's timestamp is no time; the clock's was taken" if given is not None and not found else None


def _merge_drafts(
    drafts: Sequence[_MessageDraft], known: dict[str, Any], after: int | None
) -> list[tuple[Message, Message | None]]:
    """Return each message as it is to be, with what the store has of it: the very same where nothing is new."""
    ready: list[tuple[Message, Message | None]] = []
    for draft in drafts:
        before = known.get(draft.id)
        if before is None:
            record = validate_model(Message, {"id": draft.id, "position": after, **draft.fields}, "messages")
            after = None if after is None else after + 1
        else:
            record = _merge_draft(before, draft)
        known[draft.id] = record
        ready.append((record, before))
    return ready


def _merge_draft(before: Message, draft: _MessageDraft) -> Message:
    """Return a known message with its new words, as unread for facts; the same object where its words are the same.

    When and where it was said stays as it was.
    """
    names = ("text", "author", "role")
    if all(getattr(before, name) == draft.fields[name] for name in names):
        return before
    old = before.attributes
    drawn = [*_ids(old.get(STALE_FACTS_ATTRIBUTE)), *_ids(old.get(FACTS_ATTRIBUTE))]
    attributes = {**draft.fields["attributes"], **({STALE_FACTS_ATTRIBUTE: drawn} if drawn else {})}
    fields = {**before.model_dump(exclude_defaults=True), **{name: draft.fields[name] for name in names}}
    return validate_model(Message, {**fields, "attributes": attributes, "updated_at": datetime.now(UTC)}, "messages")


def _ids(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def is_extracted(record: Message) -> bool:
    """Tell whether facts were drawn from a message as it stands."""
    return FACTS_ATTRIBUTE in record.attributes


def stale_fact_ids(record: Message) -> list[str]:
    """Return the ids of facts that were drawn from what a message said before it was changed."""
    return _ids(record.attributes.get(STALE_FACTS_ATTRIBUTE))


def mark_extracted(record: Message, facts: Sequence[str]) -> Message:
    """Return a message with the note that these facts were drawn from it."""
    kept = {
        name: value for name, value in record.attributes.items() if name not in (FACTS_ATTRIBUTE, STALE_FACTS_ATTRIBUTE)
    }
    return record.model_copy(update={"attributes": {**kept, FACTS_ATTRIBUTE: list(facts)}})
