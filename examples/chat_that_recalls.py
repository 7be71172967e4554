"""A plain chat graph with a memory: recall as a node, an answer from its context block, remember as a node.

Run it with `python examples/chat_that_recalls.py`. It needs no model and no key: the answering node replaces a chat
model and shows the input of a model.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from recall_loop import Context, MemoryStore, build_graph, remember

ANN = Context(tenant="boat-club", user_id="ann")


def answer(state: MessagesState) -> dict[str, Any]:
    """Stand in for a chat model, which would get `state["messages"]`: the last one has the memories."""
    memories = state["messages"][-1].content
    return {"messages": [AIMessage(f"I was given:\n{memories}")]}


def chat_graph(store: MemoryStore) -> Any:
    """Return the compiled chat graph; its threads are kept in memory."""
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("recall", build_graph(store=store))
    builder.add_node("answer", answer)
    builder.add_node("remember", remember(store, roles=["user"]))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answer")
    builder.add_edge("answer", "remember")
    builder.add_edge("remember", END)
    return builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    """State something in one thread, and ask about it in another."""
    with MemoryStore.in_memory() as store:
        chat = chat_graph(store)
        for thread, line in (
            ("monday", "Tamme services the engine of the launch before the end of March."),
            ("monday", "The sails are at the loft in Paldiski."),
            ("friday", "Who services the engine of the launch?"),
        ):
            output = chat.invoke(
                {"messages": [HumanMessage(line)]}, {"configurable": {"thread_id": thread}}, context=ANN
            )
            print(f"{thread}> {line}\n{output['messages'][-1].content}\n")


if __name__ == "__main__":
    main()
