"""A thread's messages as records, and its last turn as a trajectory, each written once (OPS-5, TRAJ-1).

A message is identified by its thread and its id, or by its position and text where it has no id; running twice, or
again after a crash, writes nothing twice. What has left the thread stays in memory: trimming a context window is no
erasure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from recall_loop.memory.parsing.chat_messages import SourceMessage, parse_messages
from recall_loop.memory.parsing.foreign_json import to_datetime
from recall_loop.memory.parsing.message_fields import parse_known_message, stated_time
from recall_loop.memory.store.encoding.indexing import digest, position_after
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING, RunInfo, convert_messages
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.state.errors import validate_model
from recall_loop.state.records.records import Message
from recall_loop.state.records.trajectories import run_from_record, trajectory_record
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.types import MAX_TEXT_CHARS, Identifier, Role, is_to_come

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore


CONVERSATION_ROLES = (Role.USER, Role.ASSISTANT)
# Keys of a message's attributes: its own id in the thread, the facts that were drawn from it, and those that were
# drawn from an earlier text of it.
MESSAGE_ID_ATTRIBUTE, FACTS_ATTRIBUTE, STALE_FACTS_ATTRIBUTE = "message_id", "facts", "stale_facts"


class ConversationOwner(BaseModel):
    """Whose conversation it is. It comes from the program, never from messages or a model.

    `session` is a part of the conversation: neighbours' windows never join two sessions.
    """

    model_config = ConfigDict(frozen=True)

    tenant: Identifier = DEFAULT_TENANT
    agent_id: Identifier | None = None
    group_id: Identifier | None = None
    user_id: Identifier | None = None
    conversation_id: Identifier | None = None
    session: Identifier | None = None

    def owner_fields(self) -> dict[str, str | None]:
        """Return the fields that say of a record whose it is."""
        return self.model_dump(include={"agent_id", "group_id", "user_id", "conversation_id"})

    def key(self, kind: str, *parts: str) -> str:
        """Return a record's id, the same each time; equal parts in another conversation give another id."""
        return f"{kind}-{digest(self.agent_id, self.group_id, self.user_id, self.conversation_id, *parts)}"


@dataclass(frozen=True, slots=True)
class RecordedMessages:
    """The outcome of recording a thread's messages: all that are worth keeping, in order, as they are now in the store.

    `created` are the ids of new ones, `replaced` of those whose text has changed; `warnings` are deviations from the
    input.
    """

    records: tuple[Message, ...]
    created: tuple[str, ...]
    replaced: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def record_messages(
    store: MemoryStore,
    owner: ConversationOwner,
    messages: Iterable[object],
    *,
    roles: Collection[Role] = CONVERSATION_ROLES,
) -> RecordedMessages:
    """Write what is new or changed among the messages of a thread, oldest first.

    Messages may be LangChain's, or mappings with role and content. Those without text are left out. A new message gets
    the position after the last one that the store has of the session (none if that has none: then times order them),
    and the time that it names (as `timestamp` or `created_at`, also among LangChain's `additional_kwargs`); without
    such a time, or if it is more than a day ahead of the clock, the current time. What is no message raises
    `InvalidInputError`; after a `StoreUnavailableError` repeating the call is safe.
    """
    warnings: list[str] = []
    drafts = list(_drafts(owner, messages, frozenset(roles), datetime.now(UTC), warnings))
    with store.exclusive(owner.tenant):
        stored = store.get([draft["id"] for draft in drafts], scope=Scope(tenant=owner.tenant))
        known = {record.id: record for record in stored}
        session_scope = Scope(tenant=owner.tenant, user_id=owner.user_id, conversation_id=owner.conversation_id)
        merged = _merge_drafts(drafts, known, store.next_position(session_scope, owner.session))
        changed = {record.id: record for record, before in merged if record is not before}
        outcomes = store.upsert(changed.values(), tenant=owner.tenant)
    ids = {
        status: tuple(outcome.id for outcome in outcomes if outcome.id and outcome.status == status)
        for status in ("created", "replaced")
    }
    records = tuple({record.id: record for record, _ in merged}.values())
    return RecordedMessages(records, ids["created"], ids["replaced"], tuple(warnings))


def _drafts(
    owner: ConversationOwner, messages: Iterable[object], roles: Collection[Role], now: datetime, warnings: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of messages that are worth keeping; add to `warnings` what couldn't be taken as it was given."""
    for position, given in enumerate(messages):
        for part, message in enumerate(parse_known_message(given, f"messages.{position}")):
            if message.role not in roles or not message.content.strip():
                continue
            unnamed = ("text", str(position), message.role.value, message.name or "", message.content)
            created_at = _created_at(message, now, warnings)
            if len(message.content) > MAX_TEXT_CHARS:
                warnings.append(f"a message of {len(message.content):,} characters is cut at {MAX_TEXT_CHARS:,}")
            yield {
                "id": owner.key("message", *(("id", message.id) if message.id else unnamed), str(part)),
                "text": message.content[:MAX_TEXT_CHARS],
                "author": message.name,
                "role": message.role,
                "created_at": created_at,
                "session": owner.session,
                "attributes": {MESSAGE_ID_ATTRIBUTE: message.id} if message.id else {},
                **owner.owner_fields(),
            }


def _created_at(message: SourceMessage, now: datetime, warnings: list[str]) -> datetime:
    """Return when a message was written: as it says, else now; a time that can't be used adds a warning."""
    given = stated_time(message)
    if given is None:
        return now
    moment = to_datetime(given)
    if moment is None:
        warnings.append("a message's timestamp is invalid; the current time was used")
    elif is_to_come(moment, now):
        warnings.append("a message's timestamp is in the future; the current time was used")
        return now
    return moment or now


def _merge_drafts(
    drafts: Sequence[dict[str, Any]], known: dict[str, Any], position: int | None
) -> list[tuple[Message, Message | None]]:
    """Return each message as it is to be, with the store's record of it: the same object if nothing is new."""
    merged: list[tuple[Message, Message | None]] = []
    for draft in drafts:
        before = known.get(draft["id"])
        if before is None:
            record = validate_model(Message, {"position": position, **draft}, "messages")
            position = None if position is None else position_after(position)
        else:
            record = _merge_draft(before, draft)
        known[record.id] = record
        merged.append((record, before))
    return merged


def _merge_draft(before: Message, draft: dict[str, Any]) -> Message:
    """Return a known message with its new text, unread for facts, in its place; the same object if nothing is new."""
    new = {name: draft[name] for name in ("text", "author", "role")}
    if all(getattr(before, name) == value for name, value in new.items()):
        return before
    stale = [*stale_fact_ids(before), *_strings(before.attributes.get(FACTS_ATTRIBUTE))]
    attributes = {**draft["attributes"], **({STALE_FACTS_ATTRIBUTE: stale} if stale else {})}
    fields = {**before.model_dump(exclude_defaults=True), **new, "attributes": attributes}
    return validate_model(Message, {**fields, "updated_at": datetime.now(UTC)}, "messages")


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def is_extracted(record: Message) -> bool:
    """Return whether facts were extracted from the current text of a message."""
    return FACTS_ATTRIBUTE in record.attributes


def stale_fact_ids(record: Message) -> list[str]:
    """Return the ids of facts that were drawn from an earlier text of a message."""
    return _strings(record.attributes.get(STALE_FACTS_ATTRIBUTE))


def mark_extracted(record: Message, facts: Sequence[str]) -> Message:
    """Return a message with the note that these facts were drawn from it."""
    attributes = {name: value for name, value in record.attributes.items() if name != STALE_FACTS_ATTRIBUTE}
    return record.model_copy(update={"attributes": {**attributes, FACTS_ATTRIBUTE: list(facts)}})


LANGGRAPH_RUN_TYPE = "langgraph"


def record_turn(
    store: MemoryStore,
    owner: ConversationOwner,
    messages: Sequence[object],
    *,
    masking: Masking = DEFAULT_MASKING,
    now: datetime,
) -> str | None:
    """Write the thread's last turn, from the last user's message on, as a trajectory; return its id.

    A turn has the same id each time. The same turn again is left as it is, with the score that it may have by now; one
    that has grown since is rewritten and waits for a score. None if no user said anything. Raises as `record_messages`.
    """
    parsed = parse_messages(messages)
    starts = [at for at, message in enumerate(parsed) if message.role is Role.USER and message.content.strip()]
    if not starts:
        return None
    turn = parsed[starts[-1] :]
    first, last = turn[0], turn[-1]
    answered = last.role is Role.ASSISTANT and bool(last.content.strip()) and not last.calls
    status = "completed" if answered else None
    info = RunInfo(run_id=owner.conversation_id, run_type=LANGGRAPH_RUN_TYPE, run_status=status)
    run = convert_messages(turn, info, masking).model_copy(update={"scoring_pending": True})
    record_id = owner.key("run", *(("id", first.id) if first.id else ("text", str(len(starts)), first.content)))
    with store.exclusive(owner.tenant):
        known = next(iter(store.get([record_id], scope=Scope(tenant=owner.tenant))), None)
        if known is None or run_from_record(known).turns != run.turns:
            created = known.created_at if known is not None else first.timestamp or now
            fields: dict[str, Any] = {"created_at": created, "session": owner.session, **owner.owner_fields()}
            record = trajectory_record(run, id=record_id, text=searchable_text(run), **fields)
            store.upsert([record], tenant=owner.tenant)
    return record_id
