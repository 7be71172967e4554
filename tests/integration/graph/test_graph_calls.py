"""One request under every way of calling the graph, and the same answer each time."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import aretrieve, retrieve, stream_retrieve
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason
from tests.integration.graph.worlds import (
    DIRECT,
    NOTHING,
    TWO_HOPS,
    WordHashEmbedder,
    answers_of,
    comparable_json,
    filled_store,
    valley_request,
)

QUESTIONS = (DIRECT, TWO_HOPS, NOTHING)
_ORDER = {
    "start": {"queries_planned"},
    "queries_planned": {"call_done", "stopped"},
    "call_done": {"novelty"},
    "novelty": {"queries_planned", "stopped"},
    "stopped": set(),
}


@pytest.fixture(scope="module")
def world(embedder):
    with filled_store(embedder) as store:
        yield store


@pytest.fixture(scope="module")
def graph(world):
    return build_graph(world)


def check_order(events):
    """Events come in the order of the loop, and each names the iteration that it belongs to."""
    before, iteration = "start", 0
    for event in events:
        assert event["type"] in _ORDER[before], (before, event)
        if event["type"] == "queries_planned":
            assert event["iteration"] == iteration + 1
        elif event["type"] == "call_done":
            iteration += 1
            assert event["iteration"] == iteration
        else:
            assert event["iteration"] == iteration
        before = event["type"]
    assert before == "stopped"


async def events_and_output(graph, request):
    events, output = [], {}
    async for mode, part in graph.astream(request, stream_mode=["custom", "values"]):
        if mode == "custom":
            events.append(part)
        else:
            output = part
    return events, output


@pytest.mark.parametrize("question", QUESTIONS)
async def test_every_way_of_calling_gives_the_same(graph, world, question):
    """Proves: LOOP-9, LOOP-8 (invoke, ainvoke, stream, astream, batch, abatch, retrieve and aretrieve)."""
    request = valley_request(question, debug=True)
    expected = comparable_json(await asyncio.to_thread(graph.invoke, request))
    assert comparable_json(await graph.ainvoke(request)) == expected
    streamed = [part async for part in graph.astream(request, stream_mode="values")]
    assert comparable_json(streamed[-1]) == expected
    assert comparable_json(list(graph.stream(request, stream_mode="values"))[-1]) == expected
    assert comparable_json(graph.batch([request])[0]) == expected
    assert comparable_json((await graph.abatch([request]))[0]) == expected
    assert comparable_json(retrieve(request, store=world)) == expected
    assert comparable_json(await aretrieve(request, store=world)) == expected


def named(events, name):
    return [event for event in events if event["type"] == name]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_events_tell_the_loop_in_order(graph, world, question):
    """Proves: LOOP-1, OPS-3 (the same events from stream, astream and stream_retrieve)."""
    request = valley_request(question)
    events, output = await events_and_output(graph, request)
    check_order(events)
    assert events[-1] == {"type": "stopped", **output["stop"]}
    executed = [event for event in events if event["type"] == "call_done"]
    assert len(executed) == output["metadata"]["iterations"] == output["stop"]["iteration"]
    planned = sum(len(event["queries"]) for event in events if event["type"] == "queries_planned")
    assert planned == output["metadata"]["queries_executed"]
    gains = named(events, "novelty")  # none for a round in which nothing was left to ask
    assert [event["new_facts"] for event in gains] == output["metadata"]["new_facts_by_iteration"]
    for plan, gained in zip(named(events, "queries_planned"), gains, strict=False):
        assert [query["text"] for query in plan["queries"]] == [brought["query"] for brought in gained["yields"]]
        assert sum(brought["new_facts"] for brought in gained["yields"]) == gained["new_facts"]
        assert bool(plan["repeats"]) == bool(plan["dropped_repeats"])
        assert len(set(plan["repeats"])) == len(plan["repeats"]) <= plan["dropped_repeats"]

    def timeless(parts):
        return [{key: value for key, value in part.items() if key != "duration_ms"} for part in parts]

    assert timeless(graph.stream(request, stream_mode="custom")) == timeless(events)
    items = list(stream_retrieve(request, store=world))
    assert timeless(items[:-1]) == timeless(events)
    assert isinstance(items[-1], RetrieveResult)
    assert comparable_json(items[-1]) == comparable_json(output)


def test_batches_run_at_once_and_keep_their_order(graph):
    """Proves: LOOP-9, OPS-2 (batch keeps LangGraph's limit of 25 steps: 7 iterations)."""
    requests = [valley_request(question, debug=True) for question in QUESTIONS * 4]
    single = {question: comparable_json(graph.invoke(valley_request(question, debug=True))) for question in QUESTIONS}
    results = graph.batch(requests, {"max_concurrency": 3})
    for request, output in zip(requests, results, strict=True):
        question = request["messages"][0]["content"]
        if output["stop"]["reason"] != StopReason.STEP_LIMIT:
            assert comparable_json(output) == single[question]
        assert output["stop"]["iteration"] <= 7
    assert len({output["request_id"] for output in results}) == len(results)


async def test_asynchronous_batches(graph):
    """Proves: LOOP-9, OPS-2."""
    single = {question: comparable_json(graph.invoke(valley_request(question))) for question in QUESTIONS}
    results = await graph.abatch(
        [valley_request(question) for question in QUESTIONS * 2], {"max_concurrency": 2, "recursion_limit": 100}
    )
    assert [comparable_json(output) for output in results] == [single[question] for question in QUESTIONS * 2]


def test_a_bad_request_of_a_batch_spoils_only_itself(graph):
    """Proves: OPS-2."""
    good, bad = graph.batch([valley_request(DIRECT), valley_request("  ")], return_exceptions=True)
    assert good["facts"]
    assert isinstance(bad, ValueError)


class Watching(WordHashEmbedder):
    """An embedder that remembers in which threads queries were embedded."""

    def __init__(self):
        self.threads = set()

    def embed_queries(self, texts):
        self.threads.add(threading.current_thread())
        return super().embed_queries(texts)


async def test_searches_never_run_on_the_event_loop():
    """Proves: LOOP-9, OPS-2 (what blocks runs in other threads than the loop's)."""
    watching = Watching()
    with filled_store(watching) as store:
        await aretrieve(valley_request(TWO_HOPS), store=store)
        await build_graph(store).ainvoke(valley_request(TWO_HOPS))
    assert watching.threads
    assert threading.current_thread() not in watching.threads


class Counting(WordHashEmbedder):
    """Counts how many threads embed at once, and lets them wait if that is asked for."""

    def __init__(self):
        self.lock, self.now, self.most, self.calls = threading.Lock(), 0, 0, 0
        self.entered, self.free = threading.Event(), threading.Event()
        self.free.set()

    def embed_queries(self, texts):
        with self.lock:
            self.now, self.calls = self.now + 1, self.calls + 1
            self.most = max(self.most, self.now)
        self.entered.set()
        time.sleep(0.01)
        assert self.free.wait(30)
        with self.lock:
            self.now -= 1
        return super().embed_queries(texts)


async def test_many_runs_at_once_take_turns():
    """Proves: OPS-2 (a run that only computes doesn't crowd the event loop, and each has its own result)."""
    counting = Counting()
    with filled_store(counting) as store:
        requests = [valley_request(question) for question in QUESTIONS * 4]
        found = await asyncio.gather(*(aretrieve(request, store=store) for request in requests))
        assert counting.most <= 2
        alone = {question: comparable_json(retrieve(valley_request(question), store=store)) for question in QUESTIONS}
    assert [comparable_json(one) for one in found] == [alone[question] for question in QUESTIONS * 4]


def test_a_run_leaves_nothing_to_the_garbage_collector(world):
    """The more it does, the sooner Python stops the whole process for a full collection. Proves: OPS-2."""
    for _ in range(2):
        retrieve(valley_request(DIRECT), store=world)
    gc.collect()
    gc.disable()
    try:
        retrieve(valley_request(DIRECT), store=world)
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("way", ["retrieve", "aretrieve"])
def test_what_a_run_held_is_free_without_a_garbage_collection(world, way):
    """Circles of objects would bring on full collections, which stop the whole process. Proves: OPS-2."""

    def run():
        retrieve(valley_request(DIRECT), store=world)
        return asyncio.run(aretrieve(valley_request(DIRECT), store=world)) if way == "aretrieve" else None

    run()
    gc.collect()
    gc.disable()
    try:
        run()
        before = {id(found) for found in gc.get_objects() if type(found) is dict and found.get("kind") == "fact"}
    finally:
        gc.enable()
    gc.collect()
    assert before == {id(found) for found in gc.get_objects() if type(found) is dict and found.get("kind") == "fact"}


async def test_a_call_that_is_cancelled_ends_at_its_next_step():
    """Proves: OPS-2 (as with any coroutine; its thread doesn't go on with the run)."""
    counting = Counting()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    with filled_store(counting) as store:
        counting.entered.clear()
        counting.free.clear()
        running = asyncio.create_task(aretrieve(valley_request(TWO_HOPS), store=store))
        while not counting.entered.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        begun = counting.calls
        counting.free.set()
        await asyncio.to_thread(lambda: None)  # the only thread is free again
        assert counting.calls == begun
        await aretrieve(valley_request(TWO_HOPS), store=store)
    assert counting.calls > begun + 1


def test_each_iteration_happens_once(world):
    """Proves: LOOP-1, LOOP-2 (going on, as against refining, doesn't restart the run)."""
    settings = Settings(
        refine_min_similarity=0,
        refine_min_confidence=0,
        refine_drop=1,
        novelty_min_similarity=0,
        strong_first_similarity=1,
        search_limit=1,
        fallback_max_queries=1,
        novelty_patience=3,
    )
    graph = build_graph(world, settings=settings)
    routes = set()
    for question in QUESTIONS:
        events = list(graph.stream(valley_request(question), stream_mode="custom"))
        check_order(events)
        routes |= {event["route"] for event in events if event["type"] == "novelty"}
        spelled = valley_request(question) | {"reference_time": "2024-07-01T00:00:00Z"}
        check_order(list(graph.stream(spelled, stream_mode="custom")))
    assert "continue" in routes


def test_a_process_with_other_hash_seeds_gives_the_same_bytes(tmp_path: Path):
    """Proves: LOOP-9 (sets and dictionaries of another process order nothing)."""
    with filled_store(path=tmp_path / "store"):
        pass
    root = Path(__file__).resolve().parents[3]
    # This process has drawn a seed, unless it was given one.
    seed = "4242" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    code = (
        "import sys; from tests.integration.graph.worlds import answers_of; print(*answers_of(sys.argv[1]), sep='\\n')"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert other.splitlines() == answers_of(tmp_path / "store")
    assert other.count("\n") == 3
