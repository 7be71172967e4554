"""remember: a node that writes a thread's new messages to the store, for any LangGraph graph (OPS-5).

builder.add_node("remember", remember(store=store))
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.config import get_config
from langgraph.runtime import Runtime
from pydantic import TypeAdapter, ValidationError

from recall_loop.llm.endpoint.call_limits import Limits
from recall_loop.memory.intake.conversations.conversation import (
    CONVERSATION_ROLES,
    ConversationOwner,
    RecordedMessages,
    record_messages,
)
from recall_loop.memory.intake.conversations.fact_extraction import ExtractionResult, extract_facts
from recall_loop.memory.intake.conversations.finished_run import record_turn
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.nodes.runtime.inputs import RECALL_MARKER
from recall_loop.nodes.runtime.resources import GraphResources, resolve_context
from recall_loop.state.context import Context
from recall_loop.state.errors import EmbedderError, InvalidInputError, invalid_input_from
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import Identifier, Role

_IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)
_log = logging.getLogger(__name__)
RememberNode = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class _RememberOptions:
    """What a remember node was made for; the owners that it names go before those of the context."""

    facts: bool
    trajectory: bool
    single_valued: tuple[str, ...]
    roles: tuple[Role, ...]
    owners: Mapping[str, str | None]
    messages_key: str
    masking: Masking


def remember(
    store: MemoryStore | None = None,
    llm: BaseChatModel | None = None,
    settings: Settings | None = None,
    *,
    facts: bool = False,
    trajectory: bool = False,
    single_valued: Collection[str] = (),
    roles: Collection[Role | str] = CONVERSATION_ROLES,
    tenant: str | None = None,
    agent_id: str | None = None,
    group_id: str | None = None,
    user_id: str | None = None,
    conversation_id: str | None = None,
    session: str | None = None,
    messages_key: str = "messages",
    masking: Masking = DEFAULT_MASKING,
) -> RememberNode:
    """Return a node that keeps the messages of its thread.

    Each message is written once, however often the node runs; one whose words have changed is written anew; one that
    has left the thread stays. Whose they are comes from the arguments here, else from the runtime context, else from
    `configurable`, never from messages or a model; the conversation is the thread where nothing else names it.

    The node returns `{"remembered": …}`: ids of messages `created` and `replaced`, `facts`, `trajectory_id`, `failures`
    and `warnings`. A state without such a key ignores it; the same is sent as a custom event of type `remembered`.

    Args:
        store: the store, open for writing; None = `store_path` of the context or the settings, opened for writing and
            kept open.
        llm: the chat model that extracts facts; None = `llm_model` of the context or the settings.
        settings: None = read from the environment now.
        facts: extract facts, with the ids of the messages that say them; a newer one supersedes an older one that it
            contradicts. If the model fails, its messages are kept and read the next time.
        trajectory: keep the turn (from the last user's message on) as a trajectory, with secrets masked.
        single_valued: fact types that have one value at a time, whatever the model says.
        roles: whose messages are kept.
        tenant: the tenant.
        agent_id: the agent whose memory it is.
        group_id: the group that the agent belongs to.
        user_id: the user whose memory it is.
        conversation_id: the conversation.
        session: part of the conversation; windows join only messages of one session. None = `configurable`'s.
        messages_key: key of the state that has the messages.
        masking: what of a trajectory is masked.

    Raises:
        InvalidInputError: an argument is not allowed. At run time: there is no thread and no conversation, no store, or
            facts are wanted and there is no model.
    """
    if isinstance(single_valued, str) or isinstance(roles, str):
        raise InvalidInputError("single_valued, roles", (single_valued, roles), "lists")
    owners = {
        "tenant": tenant,
        "agent_id": agent_id,
        "group_id": group_id,
        "user_id": user_id,
        "conversation_id": conversation_id,
        "session": session,
    }
    wanted = _RememberOptions(
        facts,
        trajectory,
        tuple(single_valued),
        _roles(roles),
        {name: _identifier(name, value) for name, value in owners.items()},
        messages_key,
        masking,
    )
    resources = GraphResources(store, settings or Settings.from_env(), llm, writable=True)

    def remember_node(state: Any, *, runtime: Runtime[Any]) -> dict[str, Any]:
        context = resolve_context(runtime)
        run = _MessageRecorder(resources, wanted, context)
        told = run.remembered(run.messages(state))
        runtime.stream_writer({"type": "remembered", **told})
        return {"remembered": told}

    return remember_node


def _roles(roles: Collection[Role | str]) -> tuple[Role, ...]:
    try:
        return tuple(Role(role) for role in roles)
    except ValueError as error:
        raise InvalidInputError("roles", list(roles), ", ".join(Role)) from error


def _identifier(name: str, value: object) -> str | None:
    if value is None:
        return None
    try:
        return _IDENTIFIER.validate_python(value)
    except ValidationError as error:
        raise invalid_input_from(error, name) from error


class _MessageRecorder:
    """One run of the node."""

    def __init__(self, resources: GraphResources, wanted: _RememberOptions, context: Context) -> None:
        self._resources, self._wanted, self._context = resources, wanted, context
        self._settings = resources.settings_for(context)
        if resources.store is not None and context.store_path is not None:
            raise InvalidInputError("store_path", context.store_path, "none in the context: remember has its own store")
        if resources.store is None and not (context.store_path or self._settings.store_path):
            raise InvalidInputError("store", None, "a MemoryStore, or store_path in the context or the settings")
        self._chat_client = resources.chat_client_for(context, self._settings) if wanted.facts else None
        if wanted.facts and self._chat_client is None:
            raise InvalidInputError(
                "facts", True, "facts together with llm=, or llm_model in the context or the settings"
            )
        self._place = self._resolved()
        self._store = resources.store_for(context)

    def _resolved(self) -> ConversationOwner:
        """Return whose conversation it is: arguments before context before `configurable`."""
        given, configured = self._wanted.owners, get_config().get("configurable") or {}
        conversation = given["conversation_id"] or self._context.conversation_id or configured.get("thread_id")
        if not conversation:
            raise InvalidInputError(
                "conversation_id", None, "conversation_id= here or in the context, or a thread_id in `configurable`"
            )
        return ConversationOwner(
            conversation_id=_identifier("conversation_id", str(conversation)) or "",
            tenant=given["tenant"] or self._context.tenant or self._settings.tenant,
            agent_id=given["agent_id"] or self._context.agent_id,
            group_id=given["group_id"],
            user_id=given["user_id"] or self._context.user_id,
            session=given["session"] or _identifier("session", configured.get("session") or None),
        )

    def messages(self, state: Any) -> list[Any]:
        """Return the thread's messages, without the context blocks that recall appends."""
        key = self._wanted.messages_key
        found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise InvalidInputError(key, found, "a list of messages in the state")
        return [message for message in found if not _is_recall_block(message)]

    def remembered(self, messages: Sequence[Any]) -> dict[str, Any]:
        """Write what is wanted, messages first, and return what became of it, as plain JSON."""
        kept = record_messages(self._store, self._place, messages, roles=self._wanted.roles)
        told: dict[str, Any] = {
            "conversation_id": self._place.conversation_id,
            "created": list(kept.created),
            "replaced": list(kept.replaced),
            "facts": None,
            "trajectory_id": None,
            "failures": [],
            "warnings": list(kept.warnings),
        }
        if self._wanted.facts:
            self._add_facts(kept, told)
        if self._wanted.trajectory:
            told["trajectory_id"] = record_turn(
                self._store, self._place, messages, masking=self._wanted.masking, now=datetime.now(UTC)
            )
        return told

    def _add_facts(self, kept: RecordedMessages, told: dict[str, Any]) -> None:
        if self._chat_client is None:
            return
        limits = Limits(self._settings.llm_max_calls, self._settings.llm_max_tokens, self._settings.llm_total_seconds)
        try:
            found = extract_facts(
                self._store,
                self._place,
                kept.records,
                self._chat_client,
                limits=limits,
                prompt_tokens=self._settings.llm_prompt_tokens,
                single_valued=self._wanted.single_valued,
            )
        except EmbedderError as error:  # the messages are kept; their facts wait for the next time
            found = ExtractionResult(failure={"reason": "embedder", "detail": str(error)})
        told["facts"] = {
            "created": found.created,
            "superseded": found.superseded,
            "withdrawn": found.withdrawn,
            "unsupported": found.unsupported,
            "unread": found.unread,
            "llm_calls": found.calls,
            "llm_tokens": found.tokens,
        }
        if found.failure is not None:
            _log.warning("facts not extracted", extra={"failure": found.failure["reason"]})
            told["failures"].append({"step": "facts", **found.failure})


def _is_recall_block(message: Any) -> bool:
    """Tell whether a message is a context block of the recall graph: memory is not to remember itself."""
    more = message.get("additional_kwargs") if isinstance(message, Mapping) else None
    more = getattr(message, "additional_kwargs", None) if more is None else more
    return isinstance(more, Mapping) and bool(more.get(RECALL_MARKER))
