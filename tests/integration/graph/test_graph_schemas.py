"""The graph's drawing and every schema that somebody else builds on, as snapshots."""

from __future__ import annotations

import json

import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.state.context import Context
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult


@pytest.fixture(scope="module")
def graph():
    return build_graph()


def as_text(schema):
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def ours(schema):
    """Return a graph's schema without LangChain's own message classes."""
    properties = dict(schema["properties"])
    if "messages" in properties:
        properties["messages"] = {**properties["messages"], "items": "LangChain's messages"}
    return as_text({**{name: part for name, part in schema.items() if name != "$defs"}, "properties": properties})


def test_the_drawing(graph, snapshot):
    """Proves: LOOP-1 (the nodes, the edges, and where the route is decided)."""
    snapshot("graph.mmd", graph.get_graph().draw_mermaid())


def test_nodes_and_edges(graph):
    """Proves: LOOP-1."""
    drawn = graph.get_graph()
    assert set(drawn.nodes) == {
        "__start__",
        "plan_queries",
        "refine",
        "execute_tool",
        "evaluate_progress",
        "synthesize",
        "__end__",
    }
    conditional = {edge.target for edge in drawn.edges if edge.conditional}
    assert conditional == {"plan_queries", "refine", "synthesize"}
    assert {edge.source for edge in drawn.edges if edge.conditional} == {"evaluate_progress"}


@pytest.mark.parametrize("model", [RetrieveRequest, RetrieveResult, Context], ids=lambda model: model.__name__)
def test_schemas_of_the_models(model, snapshot):
    """Proves: OPS-1, OPS-2 (a changed field is a changed interface)."""
    mode = "serialization" if model is RetrieveResult else "validation"
    snapshot(f"schema_{model.__name__}.json", as_text(model.model_json_schema(mode=mode)))


def test_schemas_of_the_graph(graph, snapshot):
    """Proves: OPS-2, LOOP-10 (what Studio shows, and what a parent graph gets)."""
    snapshot("schema_graph_input.json", ours(graph.get_input_jsonschema()))
    snapshot("schema_graph_output_message.json", ours(graph.get_output_jsonschema()))
    snapshot("schema_graph_output_state.json", ours(build_graph(output="state").get_output_jsonschema()))
    snapshot("schema_graph_context.json", as_text(graph.get_context_jsonschema()))


def test_the_forms_of_studio_explain_themselves(graph):
    """Proves: OPS-2, STOP-4 (messages can be given; knobs carry their bounds and a description)."""
    assert "messages" in graph.get_input_jsonschema()["properties"]
    fields = graph.get_context_jsonschema()["properties"]
    assert set(fields) == set(Context.model_fields)
    for name, field in fields.items():
        described = [field, *field.get("anyOf", [])]
        assert any(part.get("description") for part in described), name
    number = next(part for part in fields["max_facts"]["anyOf"] if part.get("type") == "integer")
    assert (number["minimum"], number["maximum"]) == (1, 1000)
