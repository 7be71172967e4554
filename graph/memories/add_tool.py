"""Adding to memory as a LangChain tool: what a model wants kept (API-1)."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field

from recall_loop.memory.adapters.tool_queries import ScopeProvider, make_memory_tool
from recall_loop.memory.intake.conversations.additions import add_records, addition_owner
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage
from recall_loop.state.scope import Scope
from recall_loop.state.types import BodyText, Role, Utf8Text

ADD_TOOL_NAME = "add_memory"
ADD_TOOL_DESCRIPTION = (
    "Keep something for later conversations: a statement that is worth remembering, to be understood without its"
    " context (`facts`), or what was said, word for word (`messages`). Keep what the user tells about themselves,"
    " decides or asks to remember, and nothing that is already kept. The answer has the ids of what was kept."
)


class FactToKeep(BaseModel):
    """A statement, such as "Ada lives in Bergen."."""

    model_config = ConfigDict(extra="forbid")

    text: BodyText = Field(description="The whole statement, with names instead of pronouns.")
    subject: Utf8Text | None = Field(None, description="Who or what it is about.")
    fact_type: Utf8Text | None = Field(None, description="Kind of fact, such as lives_in.")
    object: Utf8Text | None = Field(None, description="Its value, such as the town.")


class AddQuery(BaseModel):
    """What is to be kept."""

    model_config = ConfigDict(extra="forbid")

    facts: tuple[FactToKeep, ...] = Field((), max_length=50, description="Statements.")
    messages: tuple[ChatMessage, ...] = Field((), max_length=50, description="Turns of the conversation, oldest first.")


def add_tool(store: MemoryStore, scope: ScopeProvider | None = None) -> BaseTool:
    """Return the tool `add_memory`, sync and async, which writes to the scope that is bound here, never the model's.

    A function as the scope makes it of each call's configuration; None = the default tenant. Errors come back to the
    model as the tool's answer with status `error`; then nothing was kept.
    """

    def answer(reach: Scope, query: AddQuery) -> dict[str, Any]:
        if not query.facts and not query.messages:
            raise InvalidInputError("arguments", {}, "facts or messages, at least one of them")
        facts = [{"kind": "fact", **fact.model_dump(exclude_none=True)} for fact in query.facts]
        names = ("tenant", "agent_id", "user_id", "conversation_id")
        owner = addition_owner({name: getattr(reach, name) for name in names})
        added = add_records(store, [*facts, *query.messages], owner, roles=tuple(Role), actor=ADD_TOOL_NAME)
        return {"ids": list(added.ids)} | ({"warnings": list(added.warnings)} if added.warnings else {})

    return make_memory_tool(ADD_TOOL_NAME, ADD_TOOL_DESCRIPTION, AddQuery, scope, answer)
