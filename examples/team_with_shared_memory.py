"""A supervisor with two agents of one group: each can read what the other learns, and nobody else can.

Run it with `python examples/team_with_shared_memory.py`. Scripted models stand in for real ones, so that it needs no
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool

from recall_loop import MemoryStore, Scope, memory_tools

TENANT, GROUP = "boat-club", "crew"


class Scripted(FakeMessagesListChatModel):
    """A model with scripted replies."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Accept any tools."""
        return self


def call(name: str, **arguments: Any) -> AIMessage:
    """Return a message that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


def note_tool(store: MemoryStore, agent_id: str) -> BaseTool:
    """Return a tool that stores a fact for the agent, readable by its group."""

    @tool
    def keep_fact(text: str) -> str:
        """Store a fact that the crew should know."""
        record = {"kind": "fact", "text": text, "agent_id": agent_id, "agent_name": agent_id, "group_id": GROUP}
        (outcome,) = store.upsert([record], tenant=TENANT)
        return f"kept as {outcome.id}"

    return keep_fact


def sign_on(store: MemoryStore) -> None:
    """Define the crew: an agent belongs to the groups that its records name."""
    duties = {"mechanic": "The mechanic looks after engines.", "buyer": "The buyer orders parts."}
    store.upsert(
        [
            {"kind": "archival", "label": "Duty", "text": duty, "agent_id": name, "group_id": GROUP}
            for name, duty in duties.items()
        ],
        tenant=TENANT,
    )


def member(store: MemoryStore, agent_id: str, script: Sequence[AIMessage]) -> Any:
    """Return an agent that reads the whole group's memory and writes its own."""
    scope = Scope(tenant=TENANT, agent_id=agent_id, mode="constellation")
    return create_agent(
        Scripted(responses=list(script)), tools=[*memory_tools(store, scope), note_tool(store, agent_id)]
    )


def supervisor(store: MemoryStore) -> Any:
    """Return the agent that assigns work to the others."""
    mechanic = member(
        store, "mechanic", [call("keep_fact", text="The launch needs a new impeller."), AIMessage("Noted.")]
    )
    buyer = member(store, "buyer", [call("search_facts", query="launch needs"), AIMessage("I order an impeller.")])

    def work(agent: Any, task: str) -> str:
        messages = agent.invoke({"messages": [HumanMessage(task)]})["messages"]
        return "\n".join(str(one.content) for one in messages[1:] if one.content)

    @tool
    def ask_mechanic(task: str) -> str:
        """Have the mechanic look after the boats."""
        return work(mechanic, task)

    @tool
    def ask_buyer(task: str) -> str:
        """Have the buyer order what is needed."""
        return work(buyer, task)

    script = [
        call("ask_mechanic", task="Look at the launch."),
        call("ask_buyer", task="Order what the launch needs."),
        AIMessage("The impeller is on its way."),
    ]
    return create_agent(Scripted(responses=script), tools=[ask_mechanic, ask_buyer])


def main() -> None:
    """Have the crew repair the launch; an agent outside the group finds nothing."""
    with MemoryStore.in_memory() as store:
        sign_on(store)
        output = supervisor(store).invoke({"messages": [HumanMessage("Get the launch ready.")]})
        for message in output["messages"]:
            print(f"{message.type}: {message.content or message.tool_calls}")
        stranger = Scope(tenant=TENANT, agent_id="stranger")
        print("a stranger finds:", memory_tools(store, stranger)[0].invoke({"query": "launch"}))


if __name__ == "__main__":
    main()
