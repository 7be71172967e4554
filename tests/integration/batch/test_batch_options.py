"""What all requests of a batch are given together: a chat model, and values of a graph's context (OPS-2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop.graph.batch.batch_run import run_batch, stream_batch
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from tests.integration.batch.test_batch import questions, read, write
from tests.integration.graph.planners import ScriptedPlanner, quick_settings
from tests.integration.graph.worlds import DIRECT, VALLEY, VALLEY_RECORDS
from tests.llm_endpoint import MODEL, ChatEndpoint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def valley(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Iterator[MemoryStore]:
    """A valley that other processes can read."""
    place = tmp_path_factory.mktemp("valley") / "store"
    with MemoryStore.open(place, embedder=embedder) as written:
        written.upsert(VALLEY_RECORDS, tenant=VALLEY)
    with MemoryStore.open(place, embedder=embedder, read_only=True) as reader:
        yield reader


def asked(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "messages": [{"content": DIRECT}], **more}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_context_fills_what_requests_leave_out(valley: MemoryStore, workers: int) -> None:
    """Proves: OPS-2, GRAPH-3 (as `retrieve` fills it, in other processes too)."""
    context = {"tenant": VALLEY, "max_facts": 2, "user_id": "u-mara"}
    given = [asked("plain"), asked("own", tenant="elsewhere"), asked("joel", user_id="u-joel", max_facts=1)]
    lines = {
        line["id"]: line["result"]
        for line in stream_batch(given, store=valley, context=context, workers=workers, concurrency=2)
    }
    alone = retrieve(asked("plain"), store=valley, context=context)
    assert [fact["id"] for fact in lines["plain"]["facts"]] == [fact.id for fact in alone.facts]
    assert len(lines["plain"]["facts"]) == 2
    assert lines["own"]["stop"]["reason"] == "nothing_in_scope"
    assert [fact["user_id"] for fact in lines["joel"]["facts"]] == ["u-joel"]


def test_a_chat_model_is_asked_for_every_request(tmp_path: Path, valley: MemoryStore) -> None:
    """Proves: OPS-2, GRAPH-3."""
    requests, output = write(tmp_path / "in.jsonl", [asked("q0"), asked("q1")]), tmp_path / "out.jsonl"
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        model = endpoint.model().bind(temperature=0.25)
        context = Context(tenant=VALLEY, write_answer=False)
        summary = run_batch(requests, output, store=valley, settings=quick_settings(), context=context, llm=model)
        assert summary.llm_calls == endpoint.count() > 0
        assert {one.body["temperature"] for one in endpoint.asked} == {0.25}
    assert all(line["result"]["metadata"]["llm_calls"] > 0 for line in read(output))


@pytest.mark.parametrize("way", ["llm", "context"])
def test_a_named_chat_model_goes_to_other_processes(valley: MemoryStore, way: str) -> None:
    """Proves: OPS-2."""
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        settings = quick_settings(llm_base_url=endpoint.url, llm_api_key="k")
        chosen: dict[str, Any] = {"llm": MODEL, "context": {"tenant": VALLEY}}
        if way == "context":
            chosen = {"context": {"tenant": VALLEY, "llm_model": MODEL, "write_answer": False}}
        given = [asked(f"q{n}") for n in range(2)]
        lines = list(stream_batch(given, store=valley, settings=settings, workers=2, **chosen))
        assert all(line["result"]["metadata"]["llm_calls"] > 0 for line in lines)
        assert endpoint.count() >= 2


def test_a_timeout_shortens_the_deadline_of_a_context(valley: MemoryStore) -> None:
    """Proves: OPS-2 (else a run would hold its place long after its line)."""
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        context = {"tenant": VALLEY, "deadline_seconds": 3_000}
        lines = stream_batch(
            [asked("q")], store=valley, settings=quick_settings(), context=context, llm=endpoint.model(), timeout=1e-3
        )
        assert [line["error"]["type"] for line in lines] == ["timeout"]
        assert endpoint.count() == 0


@pytest.mark.parametrize(
    ("chosen", "field", "allowed"),
    [
        ({"context": {"tenat": "x"}}, "tenat", "tenant"),
        ({"context": 3}, "context", "a Context, or a mapping"),
        ({"context": {"store_path": "./other"}}, "context.store_path", "none in the context of a batch"),
        ({"context": {"embedder": "minilm"}}, "context.embedder", "none in the context of a batch"),
        ({"llm": 3}, "llm", "a LangChain chat model"),
        ({"llm": " "}, "llm", "a LangChain chat model"),
    ],
)
def test_what_no_run_could_use_is_refused_at_once(
    valley: MemoryStore, chosen: dict[str, Any], field: str, allowed: str
) -> None:
    """Proves: SEARCH-2 (before the first request, not once for each)."""
    with pytest.raises(InvalidInputError) as caught:
        stream_batch(questions(1), store=valley, **chosen)
    assert field in caught.value.field
    assert allowed in caught.value.allowed


def test_a_chat_model_that_is_an_object_stays_in_its_process(valley: MemoryStore) -> None:
    """Proves: OPS-2 (it holds connections and locks)."""
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        with pytest.raises(InvalidInputError, match=r"workers: got 2; allowed: 1, as the chat model is an object"):
            stream_batch(questions(1), store=valley, workers=2, llm=endpoint.model())
        assert endpoint.count() == 0
