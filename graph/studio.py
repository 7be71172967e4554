"""The graph that `langgraph.json` names: settings from the environment, no checkpointer (the server has one)."""

from recall_loop.graph.builder import build_graph

graph = build_graph()
