"""An agent that has the searches as tools and decides itself when to look.

Run it with `python examples/agent_with_searches.py`. A scripted model stands in for a real one, so that it needs no
key; give `agent` any chat model that calls tools. It needs `pip install langchain`.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from recall_loop import MemoryStore, Scope, memory_tools, retrieve_tool

FACTS: list[dict[str, Any]] = [
    {
        "id": "f1",
        "kind": "fact",
        "subject": "Tamme",
        "text": "Tamme services the engine of the launch.",
        "user_id": "ann",
    },
    {"id": "f2", "kind": "fact", "subject": "Tamme", "text": "Tamme sells herring on Fridays.", "user_id": "bo"},
]


class Scripted(FakeMessagesListChatModel):
    """A model with scripted replies."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Accept any tools."""
        return self


def script() -> Scripted:
    """Return a model that searches twice and then answers."""
    look = {"name": "search_facts", "args": {"query": "Tamme engine launch"}, "id": "1"}
    ask = {"name": "retrieve_memories", "args": {"question": "What does Tamme do on Fridays?"}, "id": "2"}
    return Scripted(
        responses=[
            AIMessage("", tool_calls=[look]),
            AIMessage("", tool_calls=[ask]),
            AIMessage("Tamme services the engine [f1]; of his Fridays I know nothing."),
        ]
    )


def whose(config: RunnableConfig) -> Scope:
    """Return the owner whose memory a call may read: set by the program for each run, never by the model."""
    return Scope(tenant="boat-club", user_id=config["configurable"]["user_id"])


def agent(store: MemoryStore, model: BaseChatModel) -> Any:
    """Return one agent for all users."""
    return create_agent(model, tools=[*memory_tools(store, whose), retrieve_tool(store, whose)])


def main() -> None:
    """Ask a question on Ann's behalf; Bo's memories stay private."""
    with MemoryStore.in_memory() as store:
        store.upsert(FACTS, tenant="boat-club")
        output = agent(store, script()).invoke(
            {"messages": [HumanMessage("What does Tamme do?")]}, {"configurable": {"user_id": "ann"}}
        )
        for message in output["messages"]:
            print(f"{message.type}: {message.content or message.tool_calls}")


if __name__ == "__main__":
    main()
