"""remember: a node that writes a thread's new messages to the store, for any LangGraph graph (OPS-5).

builder.add_node("remember", remember(store=store))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime
from pydantic import BaseModel

from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.intake.conversations.conversation import (
    CONVERSATION_ROLES,
    ConversationOwner,
    record_messages,
    record_turn,
)
from recall_loop.memory.intake.conversations.fact_extraction import extract_facts
from recall_loop.memory.parsing.chat_messages import is_recall_block
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.nodes.runtime.resources import GraphResources, resolve_context
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.settings.settings import Settings, checked_settings
from recall_loop.state.types import Identifier, Role

# The facts' counters as the node returns them, under the extraction's own names.
_FACT_COUNTS = {
    **{name: name for name in ("created", "superseded", "withdrawn", "unsupported", "unread")},
    "llm_calls": "calls",
    "llm_tokens": "tokens",
}
RememberNode = Callable[..., dict[str, Any]]


class _RememberOptions(BaseModel):
    """Options of a remember node; the owners that it names take precedence over those of the context."""

    tenant: Identifier | None
    agent_id: Identifier | None
    group_id: Identifier | None
    user_id: Identifier | None
    conversation_id: Identifier | None
    session: Identifier | None
    facts: bool
    trajectory: bool
    single_valued: tuple[str, ...]
    roles: tuple[Role, ...]
    messages_key: Identifier


def remember(
    store: MemoryStore | None = None,
    llm: ChatModel | str | None = None,
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
    """Return a node that stores the messages of its thread.

    Each message is written once, however often the node runs; an edited one is rewritten; one removed from the thread
    stays. The owner comes from the arguments here, else from the runtime context, else from `configurable`, never from
    messages or a model; the conversation defaults to the thread.

    The node returns `{"remembered": …}`: ids of messages `created` and `replaced`, `facts`, `trajectory_id`, `failures`
    and `warnings`. A state without such a key ignores it; the same is sent as a custom event of type `remembered`.

    Args:
        store: the store, open for writing; None = `store_path` of the context or the settings, opened for writing and
            kept open.
        llm: the chat model that extracts facts, or its name as "provider:model"; None = `llm_model` of the settings.
            The context may name another.
        settings: None = read from the environment now.
        facts: extract facts, with the ids of their source messages; a newer one supersedes an older one that it
            contradicts. If the model fails, its messages are kept and read the next time.
        trajectory: store the turn (from the user's last message on) as a trajectory, with secrets masked.
        single_valued: fact types that have one value at a time, whatever the model says.
        roles: whose messages are kept.
        tenant: the tenant.
        agent_id: the agent that owns the memory.
        group_id: the group that the agent belongs to.
        user_id: the user who owns the memory.
        conversation_id: the conversation.
        session: part of the conversation; windows join only messages of one session. None = `configurable`'s.
        messages_key: key of the state that has the messages.
        masking: which parts of a trajectory are masked.

    Raises:
        InvalidInputError: an argument is not allowed, or facts are wanted and there is no model. At run time: there is
            no thread and no conversation, or no store.
    """
    kept = {"facts": facts, "trajectory": trajectory, "roles": roles, "messages_key": messages_key}
    owner = {"tenant": tenant, "agent_id": agent_id, "group_id": group_id, "user_id": user_id}
    conversation = {"conversation_id": conversation_id, "session": session}
    options = validate_model(_RememberOptions, kept | owner | conversation | {"single_valued": single_valued})
    chosen = checked_settings(settings)
    if options.facts and llm is None and chosen.llm_model is None:
        allowed = "facts together with llm=, or with llm_model in the settings (RECALL_LOOP_LLM_MODEL)"
        raise InvalidInputError("facts", True, allowed)
    resources = GraphResources(store, chosen, llm, writable=True)
    return _make_node(resources, options, masking)


def _make_node(resources: GraphResources, options: _RememberOptions, masking: Masking) -> RememberNode:
    def remember_node(state: Any, *, runtime: Runtime[Any]) -> dict[str, Any]:
        context = resolve_context(runtime)
        settings = resources.settings_for(context)
        _check_store(resources, context, settings)
        chat_client = resources.chat_client_for(context, settings) if options.facts else None
        owner = _conversation_owner(options, context, settings)
        store, messages = resources.store_for(context), _thread_messages(state, options.messages_key)
        recorded = record_messages(store, owner, messages, roles=options.roles)
        outcome: dict[str, Any] = {
            "conversation_id": owner.conversation_id,
            "created": list(recorded.created),
            "replaced": list(recorded.replaced),
            "facts": None,
            "trajectory_id": None,
            "failures": [],
            "warnings": list(recorded.warnings),
        }
        if chat_client is not None:
            read = extract_facts(store, owner, recorded.records, chat_client, settings, options.single_valued)
            outcome["facts"] = {name: getattr(read, field) for name, field in _FACT_COUNTS.items()}
            outcome["failures"] += [{"step": "facts", **read.failure}] if read.failure else []
        if options.trajectory:
            outcome["trajectory_id"] = record_turn(store, owner, messages, masking=masking, now=datetime.now(UTC))
        runtime.stream_writer({"type": "remembered", **outcome})
        return {"remembered": outcome}

    return remember_node


def _check_store(resources: GraphResources, context: Context, settings: Settings) -> None:
    if resources.store is not None and context.store_path is not None:
        raise InvalidInputError("store_path", context.store_path, "none in the context: remember has its own store")
    if resources.store is None and not (context.store_path or settings.store_path):
        raise InvalidInputError("store", None, "a MemoryStore, or store_path in the context or the settings")


def _thread_messages(state: Any, key: str) -> list[Any]:
    """Return the thread's messages, without the context blocks that recall appends."""
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise InvalidInputError(key, found, "a list of messages in the state")
    return [message for message in found if not is_recall_block(message)]


def _conversation_owner(options: _RememberOptions, context: Context, settings: Settings) -> ConversationOwner:
    """Return whose conversation it is: arguments before context before `configurable`."""
    configured = get_config().get("configurable") or {}
    thread, session = configured.get("thread_id"), configured.get("session")
    values = {"tenant": settings.tenant, "session": session or None, "conversation_id": str(thread) if thread else None}
    for source in (context, options):
        named = {name: getattr(source, name, None) for name in ConversationOwner.model_fields}
        values |= {name: value for name, value in named.items() if value is not None}
    if values["conversation_id"] is None:
        raise InvalidInputError(
            "conversation_id", None, "conversation_id= here or in the context, or a thread_id in `configurable`"
        )
    return validate_model(ConversationOwner, values)
