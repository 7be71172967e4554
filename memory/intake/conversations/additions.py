"""Whatever a caller wants kept, as records: texts, messages of any chat framework, records, in any mixture (API-1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recall_loop.memory.parsing.chat_messages import CONTENT, SourceMessage, is_recall_block
from recall_loop.memory.parsing.foreign_json import attribute
from recall_loop.memory.parsing.message_fields import (
    READ,
    message_record_fields,
    parse_known_message,
    with_text_as_given,
)
from recall_loop.memory.store.encoding.derivation import derive_id
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
_OF_USER, _OF_TALK = ("user_id", "another user"), ("conversation_id", "another conversation")
# By whether it is a message, of what else a record with the same id is another one.
_APART = {False: (_OF_USER,), True: (_OF_USER, _OF_TALK)}
_ABSENT = object()
_RECALLED = "it was recalled from memory"
_ALLOWED = "text, a message, a record, a mapping with the fields of one of them, or a list of these"


class AdditionOwner(Scope):
    """Whose the added records are: what of it is given holds for each of them, `language` for those that state none."""

    session: Identifier | None = None
    language: LanguageCode | None = None

    def fields(self) -> dict[str, str]:
        """Return the fields that say of a record whose it is."""
        names = ("agent_id", "user_id", "conversation_id", "session")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


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
        outcomes: one for each record: `created`, `replaced`, `unchanged`, or `rejected` with on_reject="report".
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
    records, skipped = _parse_additions(content, owner, roles)
    _check_ids(store, records, owner.tenant)
    outcomes = tuple(store.upsert(records, tenant=owner.tenant, actor=actor, on_reject=on_reject))
    ids = dict.fromkeys(one.id for one in outcomes if one.id is not None and one.status != "rejected")
    return AddResult(tuple(ids), outcomes, tuple(skipped))


def _check_ids(store: MemoryStore, records: Sequence[Record | Mapping[str, Any]], tenant: str) -> None:
    """Check that no record would replace one of another user, nor a message one of another conversation.

    Many a chat counts its messages, so that their ids are unique in one thread only.
    """
    # Anything else has no fields: the store reports it.
    told = [one if isinstance(one, Mapping) else getattr(one, "__dict__", {}) for one in records]
    stated = [given for one in told if isinstance(given := one.get("id"), str)]
    held = {one.id: one for one in store.get(stated, scope=Scope(tenant=tenant))} if stated else {}
    conflicts = [
        Rejection(place, known.id, "id", display_value(known.id), f"one that no record of {owner} has")
        for place, one in enumerate(told)
        if isinstance(given := one.get("id"), str) and (known := held.get(given)) is not None
        for name, owner in _APART[known.kind is ContentType.MESSAGE]
        if None not in (one.get(name), getattr(known, name)) and one[name] != getattr(known, name)
    ]
    if conflicts:
        raise RejectedRecordsError(conflicts)


def _parse_additions(
    content: object, owner: AdditionOwner, roles: Collection[Role | str]
) -> tuple[list[Any], list[SkippedMessage]]:
    """Return the records to write, and the messages that aren't kept."""
    wanted, items = _roles(roles), _items(content)
    session = _own_session(items, owner)
    given, skipped = list[tuple[int, object]](), list[SkippedMessage]()
    for index, item in enumerate(items):
        if not _is_message(item):
            given.append((index, item))
            continue
        for part, message in enumerate(_messages(item, index)):
            reason = _RECALLED if is_recall_block(item) else _reason_to_skip(message, wanted)
            if reason is not None:
                skipped.append(SkippedMessage(index, reason))
            else:
                fields = with_text_as_given(message_record_fields(message, part), item, f"content.{index}")
                given.append((index, _with_kept(fields, item, session)))
    owned = [_owned(one, index, owner) for index, one in given]
    if conflicts := [one for _, wrong in owned for one in wrong]:
        raise RejectedRecordsError(conflicts)
    if not owned:
        reasons = "; ".join(f"{one.index}: {one.reason}" for one in skipped)
        raise InvalidInputError("content", content, f"something to store ({reasons or _ALLOWED})")
    return [record for record, _ in owned], skipped


def _roles(roles: Collection[Role | str]) -> frozenset[Role]:
    names = ", ".join(Role)
    if isinstance(roles, str):
        raise InvalidInputError("roles", roles, f"a list of {names}")
    if unknown := [role for role in roles if role not in list(Role)]:
        raise InvalidInputError("roles", unknown[0], names)
    return frozenset(map(Role, roles))


def _items(content: object) -> list[object]:
    if isinstance(content, str | Mapping | Record) or is_one_message(content):
        return [content]
    if isinstance(content, bytes | bytearray) or not isinstance(content, Iterable):
        raise InvalidInputError("content", content, _ALLOWED)
    return list(content)


def is_one_message(item: object) -> bool:
    """Return whether it has a message's content, or is LangChain's `(role, text)`; a pair of texts is a list of two."""
    if isinstance(item, Mapping):
        return not item.keys().isdisjoint(CONTENT) and "messages" not in item
    if any(attribute(item, name, _ABSENT) is not _ABSENT for name in CONTENT):
        return True
    return isinstance(item, tuple) and len(item) == 2 and item[0] in (*Role, "human", "ai")


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
