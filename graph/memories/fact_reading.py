"""Facts that a chat model extracts from newly added messages, as `remember(facts=True)` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.intake.conversations.additions import AdditionOwner, AddResult
from recall_loop.memory.intake.conversations.conversation import ConversationOwner
from recall_loop.memory.intake.conversations.fact_extraction import ExtractionResult, extract_facts
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Message
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient

_OWNER_FIELDS = ("agent_id", "group_id", "user_id", "conversation_id", "session")


class FactReader:
    """Reads added messages for facts, with one client of the chat model for all calls."""

    def __init__(self, store: MemoryStore, settings: Settings, llm: ChatModel | str | None) -> None:
        self._store, self._settings = store, settings
        self._resources = GraphResources(store, settings, llm)

    def check_model(self) -> ChatClient:
        """Return the client of the chat model; raise `InvalidInputError` where there is none."""
        client = self._resources.chat_client_for(Context(), self._settings)
        if client is None:
            raise InvalidInputError("infer", True, "false, or true together with llm=, or llm_model in the settings")
        return client

    def with_facts(self, added: AddResult, owner: AdditionOwner) -> AddResult:
        """Return a result with the facts that its messages say; they are written by then."""
        client, total = self.check_model(), ExtractionResult()
        records = self._store.get(added.ids, scope=Scope(tenant=owner.tenant))
        for whose, messages in _by_owner([one for one in records if isinstance(one, Message)], owner.tenant):
            total += extract_facts(self._store, whose, messages, client, self._settings)
        return replace(added, facts=total)


def _by_owner(messages: list[Message], tenant: str) -> Iterator[tuple[ConversationOwner, list[Message]]]:
    """Yield messages that follow one another and belong to the same owners."""
    for key, group in groupby(messages, key=lambda one: tuple(getattr(one, name) for name in _OWNER_FIELDS)):
        yield ConversationOwner(tenant=tenant, **dict(zip(_OWNER_FIELDS, key, strict=True))), list(group)
