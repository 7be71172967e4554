"""Spans, metrics and log lines of runs: nested however a run is called, and without a user's words (OPS-3, OPS-7)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from recall_loop.graph.batch.batch_run import run_batch
from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import aretrieve, retrieve, stream_retrieve
from recall_loop.memory.search.engine import search
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.telemetry import names
from recall_loop.telemetry.logs import ConsoleFormatter, JsonFormatter
from recall_loop.telemetry.spans import span
from tests.embedders import WordHashEmbedder
from tests.integration.graph.planners import ScriptedPlanner, quick_settings
from tests.integration.graph.worlds import DIRECT, NOTHING, TWO_HOPS, VALLEY, filled_store, valley_request
from tests.llm_endpoint import Behaviour, ChatEndpoint
from tests.service_server import running_service

NODES = {"plan_queries", "refine", "execute_tool", "evaluate_progress", "synthesize"}
RUN = "invoke_agent recall_loop"
# Words of the question, of memories and of the model's queries.
WORDS = ("granary", "Pelle", "quartet", "Nightjar", "Mara", "Tallinn", "rehears")
DELTA = AggregationTemporality.DELTA


class Recorder(SpanProcessor):
    """Keeps ended spans while somebody listens."""

    def __init__(self) -> None:
        self.kept: list[ReadableSpan] | None = None

    def on_end(self, span: ReadableSpan) -> None:
        if self.kept is not None:
            self.kept.append(span)


class Seen:
    """What one test made."""

    def __init__(self, spans: list[ReadableSpan], reader: InMemoryMetricReader) -> None:
        self.spans, self._reader = spans, reader

    def named(self, start: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name.startswith(start)]

    def parent(self, one: ReadableSpan) -> ReadableSpan | None:
        return next((each for each in self.spans if one.parent and each.context.span_id == one.parent.span_id), None)

    def points(self) -> dict[str, list[Any]]:
        """Return what was counted since the last look, by metric."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if scope.scope.name == names.SCOPE:
                        found.setdefault(metric.name, []).extend(metric.data.data_points)
        return found

    def said(self) -> str:
        """Return all that spans say, and metrics' attributes."""
        told = [
            (one.name, dict(one.attributes), one.status.description, [e.attributes for e in one.events])
            for one in self.spans
        ]
        return json.dumps(
            [told, [[dict(p.attributes) for p in points] for points in self.points().values()]], default=str
        )


@pytest.fixture(scope="module")
def sdk() -> tuple[Recorder, InMemoryMetricReader]:
    """An SDK for this process; it can be set once, and records only while a test of this file listens."""
    recorder = Recorder()
    traces = TracerProvider()
    traces.add_span_processor(recorder)
    trace.set_tracer_provider(traces)
    reader = InMemoryMetricReader({Counter: DELTA, Histogram: DELTA})
    metrics.set_meter_provider(MeterProvider([reader]))
    return recorder, reader


@pytest.fixture
def seen(sdk) -> Iterator[Seen]:
    recorder, reader = sdk
    reader.get_metrics_data()
    recorder.kept = []
    yield Seen(recorder.kept, reader)
    recorder.kept = None


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def check_tree(seen: Seen, runs: int = 1, above: str | None = None) -> None:
    """Every run is one span; its nodes are below it, searches below their node, calls of a model too."""
    found = seen.named(RUN)
    assert len(found) == runs
    for one in seen.spans:
        above_it = seen.parent(one)
        if one.name == RUN:
            assert (above_it and above_it.name) == above
        elif one.name.startswith("recall_loop.node "):
            assert above_it.name == RUN
        elif one.name.startswith("execute_tool "):
            assert above_it.name == "recall_loop.node execute_tool"
        elif one.name == names.SEARCH_SPAN:
            assert above_it.name.startswith("execute_tool ")
        elif one.name.startswith("chat "):
            assert above_it.name.startswith("recall_loop.node ")
        if above_it is not None:
            assert above_it.start_time <= one.start_time and one.end_time <= above_it.end_time
    assert len({one.context.trace_id for one in found}) == (1 if above else runs)


def test_a_run_is_a_span_with_its_nodes_and_searches_below(world, seen):
    """Proves: OPS-7, OPS-3 (the counters of the result stand on the run's span)."""
    result = retrieve(valley_request(TWO_HOPS, id="r-1"), store=world)
    check_tree(seen)
    (run,) = seen.named(RUN)
    told = run.attributes
    assert run.kind is SpanKind.INTERNAL and run.status.status_code is StatusCode.UNSET
    assert (told[names.OPERATION], told[names.AGENT]) == ("invoke_agent", "recall_loop")
    assert (told[names.REQUEST_ID], told[names.OUTCOME]) == ("r-1", "finished")
    assert told[names.STOP_REASON] == result.stop.reason and told[names.DEGRADED] is False
    for name, counter in {
        names.ITERATIONS: "iterations",
        names.QUERIES_GENERATED: "queries_generated",
        names.QUERIES_EXECUTED: "queries_executed",
        names.QUERIES_DROPPED: "queries_dropped",
        names.DUPLICATES: "duplicates_merged",
        names.COVERAGE: "coverage",
        names.CONFIDENCE_SCORE: "confidence_score",
        names.LLM_CALLS: "llm_calls",
    }.items():
        assert told[name] == result.metadata[counter]
    assert told[names.NEW_FACTS] == sum(result.metadata["new_facts_by_iteration"]) > 0
    nodes = [one.attributes[names.NODE] for one in seen.named("recall_loop.node ")]
    assert nodes[0] == "plan_queries" and nodes[-1] == "synthesize" and set(nodes) <= NODES
    assert all(one.attributes[names.REQUEST_ID] == "r-1" for one in seen.named("recall_loop.node plan"))
    tools = seen.named("execute_tool ")
    assert len(tools) == result.stop.iteration
    assert tools[0].attributes[names.STRATEGY] == "direct"
    assert sum(one.attributes[names.QUERIES] for one in tools) == result.metadata["queries_executed"]


@pytest.mark.parametrize("way", ["stream", "async", "astream", "batch", "abatch", "many", "left", "thread"])
async def test_spans_nest_in_every_way_of_running(world, seen, way):
    """Proves: OPS-7 (threads, event loop, streams, batches; nothing is left behind in the caller's context)."""
    graph, question = build_graph(world, output="state"), {"messages": [("user", DIRECT)]}
    runs, context = 1, Context(tenant=VALLEY)
    with span("caller", {}) as caller:
        if way == "stream":
            for _ in stream_retrieve(valley_request(DIRECT), store=world):
                assert trace.get_current_span() is caller
        elif way == "async":
            await aretrieve(valley_request(DIRECT), store=world)
        elif way == "astream":
            async for _ in graph.astream(question, context=context, stream_mode=["custom", "values"]):
                assert trace.get_current_span() is caller
        elif way == "batch":
            runs = len(graph.batch([question] * 3, context=context))
        elif way == "abatch":
            runs = len(await graph.abatch([question] * 3, context=context))
        elif way == "many":
            runs = len(await asyncio.gather(*(aretrieve(valley_request(DIRECT), store=world) for _ in range(4))))
        elif way == "left":
            steps = graph.stream(question, context=context)
            next(steps)
            steps.close()
        else:
            await asyncio.to_thread(retrieve, valley_request(DIRECT), store=world)
        assert trace.get_current_span() is caller
    check_tree(seen, runs, above="caller")
    outcomes = {one.attributes[names.OUTCOME] for one in seen.named(RUN)}
    assert outcomes == {"cancelled" if way == "left" else "finished"}
    assert all(one.status.status_code is StatusCode.UNSET for one in seen.spans)


async def test_spans_nest_below_a_parent_graph(world, seen):
    """Proves: OPS-7 (as a subgraph, twice in one run of the parent's)."""
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("first", build_graph(world))
    builder.add_node("second", build_graph(world, name="another"))
    builder.add_node("end", lambda _: {"messages": [AIMessage("done")]})
    for before, after in zip([START, "first", "second", "end"], ["first", "second", "end", END], strict=True):
        builder.add_edge(before, after)
    parent = builder.compile()
    with span("chat graph", {}):
        await parent.ainvoke({"messages": [("user", DIRECT)]}, context=Context(tenant=VALLEY))
    check_tree(
        Seen([one for one in seen.spans if one.name != "invoke_agent another"], None), above="chat graph"
    ) if False else None
    (first,), (second,) = seen.named(RUN), seen.named("invoke_agent another")
    assert seen.parent(first).name == seen.parent(second).name == "chat graph"
    assert {seen.parent(one).name for one in seen.named("recall_loop.node ")} == {RUN, "invoke_agent another"}
    assert first.end_time <= second.start_time


def test_a_run_that_waits_for_somebody_is_two_spans(world, seen):
    """Proves: OPS-7 (a paused run ends its span; what follows is a span of its own)."""
    graph = build_graph(world, checkpointer=InMemorySaver(), output="state")
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke(
        {"messages": [("user", DIRECT)]}, config, context=Context(tenant=VALLEY), interrupt_before=["synthesize"]
    )
    graph.invoke(None, config, context=Context(tenant=VALLEY))
    assert [one.attributes[names.OUTCOME] for one in seen.named(RUN)] == ["paused", "finished"]
    first, second = seen.named(RUN)
    assert first.attributes[names.REQUEST_ID] == second.attributes[names.REQUEST_ID]
    assert names.STOP_REASON not in first.attributes


def test_calls_of_a_model_follow_the_genai_conventions(world, seen):
    """Proves: OPS-7, LOOP-8."""
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        result = retrieve(
            valley_request(TWO_HOPS), store=world, settings=quick_settings(write_answer=False), llm=endpoint.model()
        )
        port = int(endpoint.url.rstrip("/").split(":")[2].split("/")[0])
    check_tree(seen)
    calls = seen.named("chat ")
    assert len(calls) == result.metadata["llm_calls"] > 2
    assert {one.name for one in calls} == {"chat test-model"} and {one.kind for one in calls} == {SpanKind.CLIENT}
    for one in calls:
        told = one.attributes
        assert (told[names.OPERATION], told[names.PROVIDER], told[names.MODEL]) == ("chat", "openai", "test-model")
        assert (told[names.SERVER_ADDRESS], told[names.SERVER_PORT]) == ("127.0.0.1", port)
        assert told[names.INPUT_TOKENS] > 0 and told[names.OUTPUT_TOKENS] > 0
        assert told[names.RUNG] == "json_schema" and told[names.OUTPUT_TYPE] == "json"
        assert told[names.MAX_TOKENS] == 800 and names.ERROR_TYPE not in told
    assert {"plan", "evaluate"} <= {one.attributes[names.STEP] for one in calls}
    points = seen.points()
    used = {p.attributes[names.TOKEN_TYPE]: p.sum for p in points["gen_ai.client.token.usage"]}
    assert used["input"] + used["output"] == result.metadata["llm_tokens"]
    assert sum(p.count for p in points["gen_ai.client.operation.duration"]) == len(calls)


def test_a_call_that_fails_says_why_and_nothing_else(world, seen):
    """Proves: OPS-7, LOOP-8 (each try is a span; the run itself is well)."""
    from recall_loop.llm.client import make_chat_client
    from recall_loop.llm.endpoint.circuit_breaker import Limits
    from recall_loop.prompts.replies import PlanReply
    from recall_loop.prompts.templates import RenderedPrompt

    prompt = RenderedPrompt("plan", "1", "system granary", "user granary")
    with ChatEndpoint(ScriptedPlanner(), Behaviour.SERVER_ERROR) as endpoint:
        door = make_chat_client(quick_settings(), endpoint.model())
        reply = door.ask(prompt, PlanReply, Limits(24, 100_000, 60))
    assert reply.failure.reason == "server_error"
    calls = seen.named("chat ")
    assert len(calls) == len(reply.attempts) == 2
    for one in calls:
        assert one.attributes[names.ERROR_TYPE] == "server_error"
        assert one.status.status_code is StatusCode.ERROR and not one.events
    (point,) = seen.points()["gen_ai.client.operation.duration"]
    assert point.attributes[names.ERROR_TYPE] == "server_error" and point.count == 2


def test_no_word_of_a_user_is_told_unless_asked_for(world, seen):
    """Proves: OPS-7."""
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        retrieve(
            valley_request(TWO_HOPS, goal="The granary"), store=world, settings=quick_settings(), llm=endpoint.model()
        )
        quiet = seen.said()
        seen.spans.clear()
        retrieve(
            valley_request(TWO_HOPS), store=world, settings=quick_settings(trace_content=True), llm=endpoint.model()
        )
        loud = seen.said()
    assert not [word for word in WORDS if word.lower() in quiet.lower()]
    assert not [word for word in WORDS if word.lower() not in loud.lower()]
    (run,) = seen.named(RUN)
    assert json.loads(run.attributes[names.INPUT_MESSAGES])[0]["parts"][0]["content"] == TWO_HOPS
    assert "quartet" in seen.named("chat ")[0].attributes[names.INPUT_MESSAGES]
    assert "granary" in seen.named("chat ")[0].attributes[names.OUTPUT_MESSAGES]
    assert "queries" in seen.named("execute_tool ")[0].attributes[names.TOOL_ARGUMENTS]


def test_a_requests_address_is_not_told_by_the_web_framework(seen):
    """Proves: OPS-7. FastAPI makes spans of its own: ids and filters in an address are a user's words too."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as served, served.client() as client:
        client.get("/api/memory/records/granary")
        client.get("/api/memory/records", params={"authors": "Pelle"})
        client.get("/granary")
    assert len([one for one in seen.spans if one.kind is SpanKind.SERVER]) == 3
    said = seen.said()
    assert not [word for word in WORDS if word in said], said


def test_an_error_is_told_by_its_class(world, seen):
    """Proves: OPS-7 (its text may quote the user)."""
    with pytest.raises(InvalidInputError):
        build_graph(world).invoke({"messages": [("user", "granary")], "max_facts": -7})
    (run,) = seen.named(RUN)
    (node,) = seen.named("recall_loop.node ")
    for one in (run, node):
        assert one.status.status_code is StatusCode.ERROR and one.status.description == "InvalidInputError"
        assert one.attributes[names.ERROR_TYPE] == "InvalidInputError" and not one.events
    assert "-7" not in seen.said() and "granary" not in seen.said()


def test_a_search_that_fails_is_told(embedder, seen, monkeypatch):
    """Proves: OPS-7, STOP-6."""
    with filled_store() as store:
        settings = Settings(tool_attempts=2, tool_backoff_seconds=0.0)
        graph = build_graph(store, settings=settings, output="state")
        real = type(store).view

        def view(self, scope, filters=None, content_types=None):
            if filters is not None:
                raise StoreUnavailableError("the granary burns")
            return real(self, scope, filters, content_types)

        monkeypatch.setattr(type(store), "view", view)
        result = graph.invoke({"messages": [("user", DIRECT)]}, context=Context(tenant=VALLEY))
    assert result["degraded"]
    tool = seen.named("execute_tool ")[0]
    assert tool.attributes[names.ERROR_TYPE] == "StoreUnavailableError" and tool.attributes[names.ATTEMPTS] == 2
    assert len([one for one in seen.named(names.SEARCH_SPAN) if seen.parent(one) is tool]) == 2
    assert "burns" not in seen.said()


def test_metrics_of_runs(world, seen, tmp_path):
    """Proves: OPS-3, OPS-7."""
    file = tmp_path / "requests.jsonl"
    questions = [DIRECT, TWO_HOPS, NOTHING]
    requests = [{"id": str(at), "tenant": VALLEY, "messages": [{"content": text}]} for at, text in enumerate(questions)]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in requests), encoding="utf-8")
    run_batch(file, tmp_path / "results.jsonl", store=world, settings=Settings(), concurrency=3)
    results = [json.loads(line)["result"] for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    with pytest.raises(InvalidInputError):
        build_graph(world).invoke({"messages": [("user", DIRECT)], "max_facts": 0})
    points = seen.points()
    ended = {
        (p.attributes[names.OUTCOME], p.attributes.get(names.STOP_REASON)): p.value for p in points["recall_loop.runs"]
    }
    expected: dict[tuple[str, str | None], int] = {("failed", None): 1}
    for result in results:
        key = ("finished", result["stop"]["reason"])
        expected[key] = expected.get(key, 0) + 1
    assert ended == expected
    total = {name: sum(p.sum if hasattr(p, "sum") else p.value for p in found) for name, found in points.items()}
    assert total["recall_loop.run.iterations"] == sum(result["metadata"]["iterations"] for result in results)
    assert total["recall_loop.new_facts"] == sum(sum(r["metadata"]["new_facts_by_iteration"]) for r in results)
    assert total["recall_loop.queries.executed"] == sum(r["metadata"]["queries_executed"] for r in results)
    assert total["recall_loop.queries.dropped"] == sum(r["metadata"]["queries_dropped"] for r in results)
    assert {p.attributes[names.NODE] for p in points["recall_loop.node.duration"]} <= NODES
    assert sum(p.count for p in points["recall_loop.run.duration"]) == 4
    assert points["recall_loop.search.duration"][0].attributes[names.MODE] == "auto"


def test_a_search_by_itself_is_a_span(world, seen):
    """Proves: OPS-7."""
    search(world, "granary", scope=Scope(tenant=VALLEY))
    (one,) = seen.spans
    assert one.name == names.SEARCH_SPAN and one.parent is None
    assert set(one.attributes[names.LEGS]) == {"fts", "vector"} and one.attributes[names.RESULTS] > 0


@pytest.mark.parametrize("content", [False, True])
def test_one_line_for_each_finished_run(world, seen, caplog, content):
    """Proves: OPS-3, OPS-7 (with the trace's id; the question only where that is asked for)."""
    caplog.set_level(logging.INFO, logger="recall_loop")
    result = retrieve(valley_request(DIRECT, id="r-2"), store=world, settings=Settings(trace_content=content))
    (record,) = [one for one in caplog.records if one.name == "recall_loop.run"]
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["level"], line["request_id"]) == ("run finished", "info", "r-2")
    assert line["stop_reason"] == result.stop.reason and line["degraded"] is False
    for name in ("queries_generated", "queries_executed", "queries_dropped", "duplicates_merged", "iterations"):
        assert line[name] == result.metadata[name]
    for name in ("new_facts_by_iteration", "llm_calls", "llm_tokens", "confidence_score"):
        assert line[name] == result.metadata[name]
    assert int(line["trace_id"], 16) == seen.named(RUN)[0].context.trace_id
    assert (line.get("question") == DIRECT) is content
    assert ("Tallinn" in json.dumps([vars(one) for one in caplog.records], default=str)) is content


@pytest.mark.parametrize("content", [False, True])
def test_each_query_is_logged_with_its_source_and_yield(world, caplog, content):
    """Proves: QUERY-2, OPS-7 (at debug level; its words only where they are asked for, a record's never)."""
    caplog.set_level(logging.DEBUG, logger="recall_loop")
    result = retrieve(valley_request(TWO_HOPS, debug=True), store=world, settings=Settings(trace_content=content))
    told = [vars(one) for one in caplog.records if one.getMessage() == "query"]
    assert len(told) == result.metadata["queries_executed"]
    assert {one["source"] for one in told} >= {"entity", "noun_phrase"}
    assert sum(one["new_facts"] for one in told) == result.stop.detail["new_facts"] > 0
    assert all(one["request_id"] == result.request_id and one["results"] >= 0 for one in told)
    assert any("Mara" in one.get("query", "") for one in told) is content
    assert not any(fact.text in json.dumps(told, default=str) for fact in result.facts)


def test_a_line_stays_one_line_and_keeps_an_exceptions_text_to_itself():
    """Proves: OPS-7 (a value can't look like a line of its own)."""
    record = logging.makeLogRecord({"name": "recall_loop.x", "levelno": 30, "levelname": "WARNING", "msg": "an %s"})
    record.args, record.request_id = ("event\n2026 error",), "a\nb\x1b[31m\ud800"
    plain = ConsoleFormatter().format(record)
    assert plain.count("\n") == 0 and "\x1b" not in plain and plain.encode()
    try:
        try:
            raise ValueError("the granary")
        except ValueError as error:
            raise RuntimeError("of Pelle") from error
    except RuntimeError as error:
        record.exc_info = (RuntimeError, error, error.__traceback__)
    line = json.loads(JsonFormatter().format(record))
    assert [entry for entry in line["exception"] if not entry.startswith(" ")] == ["RuntimeError", "ValueError"]
    assert any(__file__ in entry for entry in line["exception"])
    assert "granary" not in ConsoleFormatter().format(record) and "Pelle" not in ConsoleFormatter().format(record)
    assert "ValueError: the granary" in json.loads(JsonFormatter(content=True).format(record))["exception"]
