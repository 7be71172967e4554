"""A parent graph with a state, a context and a checkpointer of its own that asks a person before it goes on.

Run it with `python examples/parent_with_interrupts.py`; it needs `langgraph-checkpoint-sqlite`. The run is interrupted,
kept in SQLite, and resumed by another graph object, as after a restart.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from recall_loop import MemoryStore, build_graph, remember


@dataclass
class Desk:
    """The parent's context. The memory's nodes read the fields with their names: tenant and user_id."""

    tenant: str
    user_id: str
    signature: str


class Ticket(TypedDict, total=False):
    """The parent's state; `context` and `facts` come from recall, `remembered` from remember."""

    messages: Annotated[list[AnyMessage], add_messages]
    number: int
    context: str
    facts: list[dict[str, Any]]
    remembered: dict[str, Any]


def approve(state: Ticket) -> dict[str, Any]:
    """Wait for a person's approval of the recalled facts."""
    verdict = interrupt({"ticket": state["number"], "recalled": [fact["text"] for fact in state["facts"]]})
    return {"messages": [HumanMessage(f"Approved: {verdict}", name="clerk")]}


def reply(state: Ticket, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Answer from the recalled facts."""
    best = state["facts"][0]["text"]
    return {"messages": [AIMessage(f"{best} {runtime.context.signature}")]}


def desk(store: MemoryStore, saver: SqliteSaver) -> Any:
    """Return the compiled parent."""
    builder = StateGraph(Ticket, context_schema=Desk)
    builder.add_node("recall", build_graph(store=store, output="state"))
    builder.add_node("approve", approve)
    builder.add_node("reply", reply)
    builder.add_node("remember", remember(store))
    for one, other in ((START, "recall"), ("recall", "approve"), ("approve", "reply"), ("reply", "remember")):
        builder.add_edge(one, other)
    builder.add_edge("remember", END)
    return builder.compile(checkpointer=saver)


def main() -> None:
    """Open a ticket, come back later, and approve it."""
    thread: RunnableConfig = {"configurable": {"thread_id": "ticket-7"}}
    context = Desk("boat-club", "ann", "Yours, the desk.")
    asked = {"messages": [HumanMessage("When does the ferry Birk leave?")], "number": 7}
    with tempfile.TemporaryDirectory() as folder, MemoryStore.open(Path(folder) / "memory") as store:
        note = {"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine.", "user_id": "ann"}
        store.upsert([note], tenant="boat-club")
        with SqliteSaver.from_conn_string(f"{folder}/threads.sqlite") as saver:
            waiting = desk(store, saver).invoke(asked, thread, context=context)
            print("waits for:", waiting["__interrupt__"][0].value)
        with SqliteSaver.from_conn_string(f"{folder}/threads.sqlite") as saver:
            output = desk(store, saver).invoke(Command(resume="yes"), thread, context=context)
        print("answers:", output["messages"][-1].content)
        print("remembers:", len(output["remembered"]["created"]), "messages")


if __name__ == "__main__":
    main()
