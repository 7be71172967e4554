"""`Memory`: add, search, recall and the rest of a memory's life behind one object (API-1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from recall_loop.graph.memories.memory_reading import FiltersInput, MemoryReading, chosen_filters
from recall_loop.memory.intake.conversations.additions import KEPT_ROLES, AddResult, add_records, addition_owner
from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.memory.store.forgetting import ForgetReport
from recall_loop.memory.store.record_writer import OnReject
from recall_loop.memory.store.store import EmbedderInput, MemoryStore
from recall_loop.memory.store.store_reading import ContentTypeNames
from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.state.errors import InvalidInputError, RecordNotFoundError, display_value, validate_model
from recall_loop.state.records.records import Record
from recall_loop.state.scope import RetentionRule
from recall_loop.state.settings.settings import Settings, checked_settings
from recall_loop.state.types import ContentType, Role

if TYPE_CHECKING:
    from recall_loop.graph.memories.fact_reading import FactReader
    from recall_loop.llm.endpoint.wrapped_models import ChatModel


_WHAT_TO_FORGET = (
    "a user_id, agent_id or conversation_id, filters, a rule or content_types, at least one of them; all of a "
    "tenant is erased with `store.erase`"
)


class Memory(MemoryReading):
    """A memory: add texts, messages and records, and recall what matters for a question.

        with Memory("./my-memory") as memory:
            memory.add("I moved to Bergen in May.", user_id="ada")
            print(memory.recall("Where do I live?", user_id="ada").context)

    Every method takes the same scope: `user_id`, `agent_id`, `conversation_id`, `tenant`. When adding, it sets the
    owner; when reading, it limits the search, and an absent part limits nothing within the tenant. Absent `tenant` =
    that of the settings.

    `Memory("path")` lives in a folder, `Memory("postgresql://…")` in PostgreSQL, where any number of processes can
    write to it, `Memory()` where the settings say (`RECALL_LOOP_STORE_PATH`), else in this process's memory. Several
    threads may use it. `AsyncMemory` is the same for an event loop.

    Attributes:
        store: the underlying store, for everything else.
        settings: the settings of all calls.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        store: MemoryStore | None = None,
        settings: Settings | None = None,
        llm: ChatModel | str | None = None,
        embedder: EmbedderInput | None = None,
    ) -> None:
        """Open a memory, or make one.

        Args:
            path: folder of the store, or address in PostgreSQL; None = `store_path` of the settings, else in memory.
            store: an open store instead; it stays open when the memory is closed.
            settings: None = read from the environment now.
            llm: the chat model of `recall` and of `add(infer=True)`, also with fallbacks or bound arguments, or its
                name as "provider:model"; None = that of the settings, if they name one.
            embedder: as in `MemoryStore.open`, also as "provider:model"; None = that of the settings.

        Raises:
            InvalidInputError: an argument isn't allowed; `store` is given together with `path`, `embedder` or settings
                that state other options of stores (`MemoryStore.check_settings`).
            UnsupportedOptionError: `path` is an address of something else than PostgreSQL, or of it without the extra
                `postgres`.
            StoreError: the store can't be opened.
        """
        check_bindings(store, llm)
        chosen = checked_settings(settings)
        self._owned = store is None
        if store is None:
            store = _open(chosen.store_path if path is None else path, chosen, embedder)
        elif (path, embedder) != (None, None):
            name, value = ("embedder", embedder) if path is None else ("path", path)
            raise InvalidInputError(name, value, "no value together with store=")
        elif settings is not None:
            store.check_settings(settings)
        super().__init__(store, chosen, llm)

    @cached_property
    def _reader(self) -> FactReader:
        from recall_loop.graph.memories.fact_reading import FactReader  # only needed if a model is asked

        return FactReader(self.store, self.settings, self._llm)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store that was opened here; a second call does nothing."""
        if self._owned:
            self.store.close()

    def add(
        self,
        content: object,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
        language: str | None = None,
        infer: bool = False,
        roles: Collection[Role | str] = KEPT_ROLES,
        actor: str | None = None,
        on_reject: OnReject = "raise",
    ) -> AddResult:
        """Store a text, messages, records, or a list of any of these.

        A text is a message from the user. Messages are mappings with role and content as in chat APIs, LangChain
        messages, `ChatMessage` or `(role, text)`; their text, speaker, time, id and tool calls are kept. Several
        without a conversation form a session, so that each is found with its neighbours. Records are `Fact`, `Message`
        and the like, or mappings with their fields. Missing fields (id, kind, time, position) are derived as by
        `MemoryStore.upsert`. An item with an `id` replaces the record with that id.

        Args:
            content: what to store.
            user_id: the user who owns the memory.
            agent_id: the agent that owns the memory.
            conversation_id: the conversation it belongs to.
            tenant: the tenant.
            session: the part of the conversation; neighbours are joined only within one.
            language: the language of items that state none (ISO 639-1, such as "nl"), for stemming; None = detected
                from each text.
            infer: let the chat model extract facts from the messages, as `remember(facts=True)` does. If the model
                fails, the messages are kept, and `facts.failure` says why.
            roles: whose messages are kept; the others are in `skipped`.
            actor: who adds them, for the history of replaced records.
            on_reject: `raise`: if an item can't be stored, nothing is. `report`: the others are, and `outcomes` gives
                the reasons.

        Raises:
            RejectedRecordsError: records can't be stored, with every reason; nothing was written.
            InvalidInputError: another argument isn't allowed; there is nothing to keep; `infer` without a chat model.
            StoreError: the store can't be written.
        """
        names = {"user_id": user_id, "agent_id": agent_id, "conversation_id": conversation_id, "session": session}
        owner = addition_owner(
            {**names, "language": language, "tenant": self.settings.tenant if tenant is None else tenant}
        )
        if infer:
            self._reader.check_model()
        added = add_records(self.store, content, owner, roles=roles, actor=actor, on_reject=on_reject)
        return self._reader.with_facts(added, owner) if infer else added

    def update(
        self,
        /,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        actor: str | None = None,
        **changes: Any,
    ) -> Record:
        """Change some fields of a record and return it; None empties a field.

        `update("m1", text="I moved to Oslo.", tags=["home"])`. Lists and `attributes` are replaced as a whole; id, kind
        and owner can't change (`store.update` changes the owner). The old record is kept as a version (`history`).

        Args:
            record_id: the record's id.
            user_id: only a record of this user.
            agent_id: only a record of this agent.
            conversation_id: only a record of this conversation.
            tenant: the tenant.
            actor: who makes the change.
            changes: fields of the record with their new values.

        Raises:
            RecordNotFoundError: there is no record with this id in the given scope.
            InvalidInputError: a field isn't known, or its value isn't allowed; nothing was changed.
            StoreError: the store can't be written.
        """
        reach = self._scope(user_id, agent_id, conversation_id, tenant)
        if self._held(record_id, reach) is None:
            raise RecordNotFoundError(f"there is no record with the id {display_value(record_id)}")
        return self.store.update(record_id, changes, tenant=reach.tenant, actor=actor)

    def forget(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
        filters: FiltersInput | None = None,
        rule: RetentionRule | Mapping[str, Any] | None = None,
        content_types: ContentTypeNames | None = None,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Delete, or count, the records that meet all given conditions (at least one), with their versions.

        `forget(user_id="ada")` deletes everything of a user, `forget(rule={"older_than_days": 90}, dry_run=True)`
        counts older records. `store.maintenance.compact()` then removes the bytes from the disk.

        Args:
            user_id: only records of this user.
            agent_id: only records of this agent.
            conversation_id: only records of this conversation.
            tenant: the tenant.
            filters: conditions on records: `Filters`, or its fields.
            rule: kinds, roles, speech acts and age: `RetentionRule`, or its fields.
            content_types: only these kinds.
            dry_run: count only.

        Raises:
            InvalidInputError: an argument isn't allowed, or nothing says which records.
            StoreError: the store can't be written.
        """
        reach = self._scope(user_id, agent_id, conversation_id, tenant)
        chosen = chosen_filters(filters)
        if rule is not None and not isinstance(rule, RetentionRule | Mapping):
            raise InvalidInputError("rule", rule, "a RetentionRule, or a mapping with its fields")
        named = None if rule is None else validate_model(RetentionRule, rule, "rule")
        whole_scope = chosen is None and named is None and (user_id or agent_id or conversation_id)
        if (chosen, named, content_types) == (None, None, None) and not whole_scope:
            raise InvalidInputError("filters", None, _WHAT_TO_FORGET)
        types = tuple(ContentType) if content_types is None and whole_scope else content_types
        return self.store.forget(reach, filters=chosen, rule=named, content_types=types, dry_run=dry_run)

    def delete(
        self,
        record_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tenant: str | None = None,
    ) -> bool:
        """Delete a record with its versions, expired or not; return whether one with this id was in the given scope."""
        reach = self._scope(user_id, agent_id, conversation_id, tenant)
        if self._held(record_id, reach) is None and record_id not in self.store.expired_ids(reach):
            return False
        return self.store.delete([record_id], tenant=reach.tenant) > 0


def _open(path: str | Path | None, settings: Settings, embedder: EmbedderInput | None) -> MemoryStore:
    if path is None:
        return MemoryStore.in_memory_from_settings(settings, embedder=embedder)
    return MemoryStore.from_settings(settings, checked_place(path), embedder=embedder)
