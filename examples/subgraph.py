"""A chat graph with a memory: recall, then answer. Run it with `python examples/subgraph.py`.

The answering node stands for a chat model: it only shows what a model would be given.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from recall_loop import Context, MemoryStore, build_graph

TENANT = "boat-club"
TALK = {"kind": "message", "conversation_id": "winter", "session": "2024-11-02"}
RECORDS: list[dict[str, Any]] = [
    {**TALK, "id": "m1", "author": "Ines", "text": "Who looks at the engine of the launch?"},
    {**TALK, "id": "m2", "author": "Paul", "text": "Tamme does, before the end of March."},
    {**TALK, "id": "m3", "author": "Ines", "text": "Good. The sails are at the loft in Paldiski."},
    {
        "id": "f1",
        "kind": "fact",
        "subject": "Tamme",
        "text": "Tamme services the engine of the launch before the end of March.",
        "source_ids": ["m1", "m2"],
    },
]


class State(MessagesState):
    """What the chat keeps; of the recall node's results it wants the facts and the confidence."""

    facts: list[dict[str, Any]]
    confidence: dict[str, Any]


def answer(state: State) -> dict[str, Any]:
    """Stand in for a chat model, which would get `state["messages"]`."""
    memories = state["messages"][-1].content
    return {"messages": [AIMessage(f"({state['confidence']['label']} confidence) I was given:\n{memories}")]}


def chat_graph(store: MemoryStore) -> Any:
    """Return the compiled chat graph; its threads are kept in memory."""
    builder = StateGraph(State, context_schema=Context)
    builder.add_node("recall", build_graph(store=store))
    builder.add_node("answer", answer)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    """Ask a question and a follow-up on one thread."""
    thread: RunnableConfig = {"configurable": {"thread_id": "ines"}}
    with MemoryStore.in_memory() as store:
        store.upsert(RECORDS, tenant=TENANT)
        chat = chat_graph(store)
        for question in ("Who services the engine of the launch?", "And when does he do it?"):
            output = chat.invoke({"messages": [HumanMessage(question)]}, thread, context=Context(tenant=TENANT))
            print(f"> {question}\n{output['messages'][-1].content}\n")


if __name__ == "__main__":
    main()
