"""Whatever a caller wants kept, as records: texts, messages of any chat framework, records, in any mixture (API-1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from recall_loop.memory.intake.conversations.addition_writes import (
    Placed,
    rejected_outcomes,
    taken_ids,
    write_placed,
)
from recall_loop.memory.parsing.chat_messages import SourceMessage, is_recall_block
from recall_loop.memory.parsing.held_messages import held_messages, thread_of
from recall_loop.memory.parsing.message_fields import (
    READ,
    message_record_fields,
    parse_known_message,
    with_text_as_given,
)
from recall_loop.memory.store.encoding.derivation import derive_id
from recall_loop.memory.store.tables.prepared_records import readable_id
from recall_loop.state.errors import InvalidInputError, RejectedRecordsError, Rejection, display_value, validate_model
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType, Identifier, Role

if TYPE_CHECKING:
    from recall_loop.memory.intake.conversations.fact_extraction import ExtractionResult
    from recall_loop.memory.store.record_writer import OnReject
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.store.tables.prepared_records import WriteOutcome

KEPT_ROLES = (Role.USER, Role.ASSISTANT, Role.TOOL)
# Fields that only records have: one of them tells that a mapping is a record.
_OF_RECORDS = frozenset(("text", "subject", "fact_type", "source_ids", "label", "valid_until", "superseded_by"))
# Fields that only messages have. A role tells it, too: what a record has beside it, a message has as well.
_OF_MESSAGES = frozenset(("role", "parts", "tool_calls", "lc", "data"))
# Fields of a record that a message in a mapping keeps: whose it is, and what it is filed under.
_KEPT = tuple(name for name in Record.model_fields if name not in {*_OF_RECORDS, *READ, "kind", "object"})
# Fields other than its role that say who has written a message.
_ROLE_WORDS = ("type", "kind", "source", "lc")
_OWNED = ("tenant", "agent_id", "user_id", "conversation_id", "session")
_RECALLED = "it was recalled from memory"
_ALLOWED = (
    "text, a message, a record, a mapping with the fields of one of them, or a list of these; or a state or a model's "
    "reply that holds messages"
)


class AdditionOwner(Scope):
    """Whose the added records are: what of it is given holds for each of them, `language` for those that state none."""

    session: Identifier | None = None
    language: LanguageCode | None = None

    def fields(self) -> dict[str, str]:
        """Return the fields that say of a record whose it is."""
        return {name: value for name in _OWNED if name != "tenant" and (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class SkippedMessage:
    """A message that isn't kept: its place in the call, from 0, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class AddResult:
    """The stored records.

    Attributes:
        ids: ids of the records that are now in the store, in order.
        outcomes: one for each record: `created`, `replaced`, `unchanged`, or `rejected` with on_reject="report";
            `index` is the place of its item in the call, from 0.
        skipped: messages not stored: without text, with a role not in `roles`, or recalled from memory.
        facts: what a model extracted, with `infer=True`; its `failure` says why it couldn't, messages are kept.
    """

    ids: tuple[str, ...]
    outcomes: tuple[WriteOutcome, ...]
    skipped: tuple[SkippedMessage, ...] = ()
    facts: ExtractionResult | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Differences between the stored and the given records, each with the record's id, such as a time left out."""
        return tuple(f"{one.id}: {one.warning}" for one in self.outcomes if one.warning)


def add_records(
    store: MemoryStore,
    content: object,
    owner: AdditionOwner,
    *,
    roles: Collection[Role | str] = KEPT_ROLES,
    actor: str | None = None,
    on_reject: OnReject = "raise",
) -> AddResult:
    """Write texts, messages and records, all in one call of `MemoryStore.upsert`; see `Memory.add`, also for errors."""
    report = on_reject == "report"
    records, skipped, rejected = _parse_additions(content, owner, roles, report=report)
    taken = taken_ids(store, records, owner.tenant)
    rejected += [reason for _, reason in taken]
    if rejected and not report:
        raise RejectedRecordsError(rejected)
    barred = {id(one) for one, _ in taken}
    written = write_placed(store, [one for one in records if id(one) not in barred], owner.tenant, actor, on_reject)
    outcomes = sorted([*written, *rejected_outcomes(rejected)], key=lambda one: one.index)
    ids = dict.fromkeys(one.id for one in written if one.id is not None and one.status != "rejected")
    return AddResult(tuple(ids), tuple(outcomes), tuple(skipped))


def _parse_additions(
    content: object, owner: AdditionOwner, roles: Collection[Role | str], *, report: bool
) -> tuple[list[Placed], list[SkippedMessage], list[Rejection]]:
    """Return the records to write, the messages that aren't kept, and why others can't be stored.

    To `report` on it, something that is no message is among these, and else raises.
    """
    wanted, items = _roles(roles), _items(content)
    session = _own_session([item for _, item in items], owner)
    given, skipped, rejected = list[Placed](), list[SkippedMessage](), list[Rejection]()
    for index, item in items:
        if not _is_message(item):
            given.append((index, item))
            continue
        try:
            kept, left_out = _message_fields(item, index, wanted, session)
        except InvalidInputError as error:
            if not report:
                raise
            rejected.append(_rejection(error, item, index))
            continue
        given += kept
        skipped += left_out
    records = list[Placed]()
    for index, one in given:
        record, wrong = _owned(one, index, owner)
        rejected += wrong
        records += [] if wrong else [(index, record)]
    if not records and not rejected:
        reasons = "; ".join(f"{one.index}: {one.reason}" for one in skipped)
        raise InvalidInputError("content", content, f"something to store ({reasons or _ALLOWED})")
    return records, skipped, rejected


def _message_fields(
    item: object, index: int, roles: frozenset[Role], session: Mapping[str, str]
) -> tuple[list[Placed], list[SkippedMessage]]:
    """Return what one item says as the fields of records, and what of it isn't kept."""
    kept, skipped = list[Placed](), list[SkippedMessage]()
    for part, message in enumerate(_messages(item, index)):
        reason = _RECALLED if is_recall_block(item) else _reason_to_skip(message, roles)
        if reason is not None:
            skipped.append(SkippedMessage(index, reason))
        else:
            fields = with_text_as_given(message_record_fields(message, part), item, f"content.{index}")
            kept.append((index, _with_kept(fields, item, session)))
    return kept, skipped


def _rejection(error: InvalidInputError, item: object, index: int) -> Rejection:
    """Return why an item that isn't a message is none; its id is one that can be read as a mapping's."""
    record_id = readable_id(item) if isinstance(item, Mapping) else None
    return Rejection(
        index, record_id, error.field.removeprefix(f"content.{index}").lstrip("."), error.value, error.allowed
    )


def _roles(roles: Collection[Role | str]) -> frozenset[Role]:
    names = ", ".join(Role)
    if isinstance(roles, str):
        raise InvalidInputError("roles", roles, f"a list of {names}")
    if unknown := [role for role in roles if role not in list(Role)]:
        raise InvalidInputError("roles", unknown[0], names)
    return frozenset(map(Role, roles))


def _items(content: object) -> list[Placed]:
    """Return what a caller adds, each after its place in the call; of what holds messages, these."""
    if isinstance(content, Record) or _is_record(content):
        return [(0, content)]
    given = thread_of(content, "content", _ALLOWED)
    if isinstance(content, Mapping | BaseModel):
        _check_unowned(content)
    items = list[Placed]()
    for index, item in enumerate(given):
        is_record = isinstance(item, Record) or _is_record(item)
        held = None if is_record else held_messages(item, f"content.{index}")
        items += [(index, one) for one in ([item] if held is None else held)]
    return items


def _is_record(item: object) -> bool:
    """Return whether a mapping is a record or a message, rather than what holds messages."""
    if not isinstance(item, Mapping):
        return False
    return not _OF_RECORDS.isdisjoint(item) or "kind" in item or held_messages(item, "content") is None


def _check_unowned(holder: Mapping[str, Any] | BaseModel) -> None:
    """Check that what holds messages doesn't say whose they are: that is the call's to say."""
    for name in _OWNED:
        told = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        if told is not None and held_messages(holder, "content") is not None:
            raise InvalidInputError(f"content.{name}", told, f"none beside messages: {name}= of the call says it")


def _is_message(item: object) -> bool:
    if isinstance(item, Record):
        return False
    if not isinstance(item, Mapping):
        return True
    if _OF_RECORDS & item.keys() or (item.get("kind") in (*ContentType,) and "parts" not in item):
        return False
    unlike = not item.keys().isdisjoint((*_KEPT, "object"))
    return bool(_OF_MESSAGES & item.keys()) or (not unlike and ("content" in item or "type" in item))


def _own_session(items: list[object], owner: AdditionOwner) -> dict[str, str]:
    """Return the session of several messages that name no conversation: they belong together, and to no others."""
    together = sum(_is_message(item) for item in items) > 1
    return {"session": derive_id()} if together and not (owner.conversation_id or owner.session) else {}


def _owned(item: object, index: int, owner: AdditionOwner) -> tuple[Any, list[Rejection]]:
    """Return a record as the owner's, in the call's language if it states none, and where it says it is another's."""
    if not isinstance(item, Record | Mapping):
        return item, []  # the store reports what is wrong with it
    fields = item if isinstance(item, Mapping) else {name: getattr(item, name) for name in item.model_fields_set}
    record_id, own = fields.get("id"), owner.fields()
    wrong = [
        Rejection(index, record_id, name, display_value(fields[name]), f"{value!r}, as the call says, or leave it out")
        for name, value in own.items()
        if (stated := fields.get(name)) is not None and not (isinstance(stated, str) and stated == value)
    ]
    if owner.language is not None and fields.get("language") is None:
        own["language"] = owner.language
    return {**item, **own} if isinstance(item, Mapping) else item.model_copy(update=own), wrong


def _messages(item: object, index: int) -> list[SourceMessage]:
    if not isinstance(item, Mapping):
        return parse_known_message(item, f"content.{index}")
    told = any(isinstance(item.get(name), str | int) and item[name] for name in _ROLE_WORDS)
    if "role" not in item and not told:
        item = {**item, "role": Role.USER.value}
    # One field of records tells that another may have been meant.
    return parse_known_message(item, f"content.{index}", () if item.keys().isdisjoint(_KEPT) else _KEPT)


def _with_kept(fields: dict[str, Any], item: object, session: Mapping[str, str]) -> dict[str, Any]:
    """Return a message's fields with those of a record that it states, and with the session if it has no other."""
    stated = item if isinstance(item, Mapping) else {}
    own = {name: value for name in _KEPT if (value := stated.get(name)) is not None}
    if not stated.get("content"):
        own.pop("blocks", None)  # they are what it says then
    if isinstance(own.get("attributes"), Mapping):
        own["attributes"] = {**fields.get("attributes", {}), **own["attributes"]}
    return {**({} if own.get("conversation_id") else session), **fields, **own}


def _reason_to_skip(message: SourceMessage, roles: frozenset[Role]) -> str | None:
    if message.role not in roles:
        return f"the role {message.role.value} isn't among roles="
    if not message.content.strip():
        return "it has tool calls but no text" if message.calls else "it has no text"
    return None


def addition_owner(fields: Mapping[str, Any]) -> AdditionOwner:
    """Return whose additions are; raise `InvalidInputError` where an id isn't allowed."""
    return validate_model(AdditionOwner, {name: value for name, value in fields.items() if value is not None})
