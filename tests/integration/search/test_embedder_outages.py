"""What goes on while the embedder fails: searches and runs by words, said so, and no half-written records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from langchain_openai import OpenAIEmbeddings

from recall_loop import Memory, RecallLoopRetriever
from recall_loop.graph.batch.batch_run import stream_batch
from recall_loop.graph.run import aretrieve, retrieve
from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.state.errors import EmbedderError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams, TrajectorySearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder
from tests.integration.graph.worlds import (
    DIRECT,
    TWO_HOPS,
    VALLEY,
    VALLEY_IDS,
    VALLEY_RECORDS,
    FlakyEmbedder,
    filled_store,
    valley_request,
)
from tests.llm_endpoint import Behaviour, ChatEndpoint
from tests.service_server import running_service

QUICK = Settings(tool_backoff_seconds=0)
IN_VALLEY = Scope(tenant=VALLEY)
ALONE = "searched by words alone: "
OUTAGES = {
    Behaviour.SERVER_ERROR: "HTTP 503",
    Behaviour.HANGS: "no reply in time",
    Behaviour.TRUNCATES: "isn't in the form that is expected",
    Behaviour.DEAD: "no connection to the endpoint",
}


def embeddings_at(url: str) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(
        model="small", base_url=url, api_key="x", max_retries=0, timeout=0.3, check_embedding_ctx_length=False
    )


class Endpoint:
    """A store filled with a remote embedder, which then fails in one way."""

    def __init__(self, store: MemoryStore, server: ChatEndpoint) -> None:
        self.store, self.server = store, server

    def fail(self, outage: Behaviour) -> None:
        if outage is Behaviour.DEAD:
            self.server._server.shutdown()
            self.server._server.server_close()
        else:
            self.server.embeds = outage


@pytest.fixture
def remote() -> Iterator[Endpoint]:
    with ChatEndpoint(lambda _: {}) as server, filled_store(embeddings_at(server.url)) as store:
        yield Endpoint(store, server)


def test_queries_wait_for_a_hanging_endpoint_no_longer_than_the_settings_say() -> None:
    """OpenAI's client waits ten minutes, three times. What is stored keeps its time. Proves: SEARCH-9."""
    with ChatEndpoint(lambda _: {}) as server:
        settings = Settings(embedder="openai", openai_base_url=server.url, openai_timeout_seconds=0.2)
        with MemoryStore.in_memory(embedder=make_embedder(settings)) as store:
            store.upsert([{"id": "owner", "kind": "fact", "text": "The granary belongs to Pelle Lund."}])
            server.embeds = Behaviour.HANGS
            found = search(store, "Who owns the granary?", scope=Scope())
            waited = [asked for asked in server.embedded if "granary" in str(asked)]
    assert found.degraded_reason == f"{ALONE}openai:text-embedding-3-small: texts can't be embedded: no reply in time"
    assert [hit.record.id for hit in found.hits] == ["owner"] and len(waited) == 4


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_run_goes_on_by_words(remote: Endpoint, outage: Behaviour) -> None:
    """Proves: STOP-6, SEARCH-9. Said in the result, less sure than with vectors, and over with the outage."""
    with_vectors = retrieve(valley_request(DIRECT), store=remote.store, settings=QUICK)
    assert not with_vectors.degraded and not with_vectors.warnings
    remote.fail(outage)
    before = len(remote.server.embedded)
    result = retrieve(valley_request(DIRECT, debug=True), store=remote.store, settings=QUICK)
    assert "f-tallinn" in [fact.id for fact in result.facts]
    assert {fact.id for fact in result.facts} <= VALLEY_IDS
    assert result.degraded and result.stop.reason != "tool_failure"
    (warning,) = result.warnings
    assert warning.startswith(ALONE) and OUTAGES[outage] in warning and "127.0.0.1" not in result.model_dump_json()
    assert result.confidence.score <= with_vectors.confidence.score
    calls = result.metadata["trace"]["tool_calls"]
    assert [call["attempts"] for call in calls] == [QUICK.tool_attempts + 1, *[1] * (len(calls) - 1)]
    if outage is not Behaviour.DEAD:
        # An OpenAI-compatible endpoint gets all queries of an attempt in one request.
        assert len(remote.server.embedded) == before + QUICK.tool_attempts
        remote.server.embeds = Behaviour.GOOD
        after = retrieve(valley_request(DIRECT), store=remote.store, settings=QUICK)
        assert (after.degraded, after.confidence) == (False, with_vectors.confidence)


@pytest.mark.parametrize("limit", [{"openai_timeout_seconds": 0.2}, {"deadline_seconds": 3.0}])
def test_a_client_that_tries_again_itself_is_asked_once(limit: dict[str, float]) -> None:
    """Its tries together last no longer than the run may. Proves: STOP-6, SEARCH-9."""
    with ChatEndpoint(lambda _: {}) as server:
        settings = Settings(embedder="openai", openai_base_url=server.url, **limit)
        with filled_store(make_embedder(settings)) as store:
            before = len(server.embedded)
            server.embeds = Behaviour.HANGS
            result = retrieve(valley_request(DIRECT, debug=True), store=store, settings=settings)
            assert len(server.embedded) == before + 3
    assert result.metadata["trace"]["tool_calls"][0]["attempts"] == 2
    assert result.warnings[0].startswith(ALONE) and "f-tallinn" in [fact.id for fact in result.facts]
    assert result.metadata["duration_ms"] < 1000 * Settings().openai_timeout_seconds


async def test_every_way_to_ask_goes_on_by_words(remote: Endpoint) -> None:
    """Proves: STOP-6, API-1, OPS-2."""
    remote.fail(Behaviour.SERVER_ERROR)
    found = [await aretrieve(valley_request(DIRECT), store=remote.store, settings=QUICK)]
    memory = Memory(store=remote.store, settings=QUICK)
    found.append(memory.recall(DIRECT, tenant=VALLEY))
    batch = stream_batch(
        [{"id": f"q{n}", **valley_request(DIRECT)} for n in range(3)], store=remote.store, settings=QUICK
    )
    lines = list(batch)
    assert len(lines) == 3 and all("error" not in line for line in lines)
    for result in (*found, *(line["result"] for line in lines)):
        told = result if isinstance(result, dict) else result.model_dump(mode="json")
        assert told["degraded"] and told["warnings"][0].startswith(ALONE)
        assert "f-tallinn" in [fact["id"] for fact in told["facts"]]


def test_a_run_asks_a_failed_embedder_in_no_later_round() -> None:
    """Proves: STOP-6. Nor for the run's own record, which says so; what was found with vectors stays."""
    patient = {"early_stop_min_iterations": 100, "coverage_enough": 1.0, "novelty_patience": 9, "max_iterations": 4}
    embedder = FlakyEmbedder(failures=0)
    embedder.fails_from = 2
    written = []
    with filled_store(embedder) as store:
        embed_documents, count = embedder.embed_documents, store.count(IN_VALLEY)
        embedder.embed_documents = lambda texts: written.append(texts) or embed_documents(texts)  # type: ignore[method-assign]
        settings = Settings(tool_backoff_seconds=0, capture_runs=True, novelty_min_similarity=0, **patient)
        result = retrieve(valley_request(TWO_HOPS, debug=True), store=store, settings=settings)
        assert store.count(IN_VALLEY) == count
    calls = result.metadata["trace"]["tool_calls"]
    assert len(calls) >= 3 and [call["attempts"] for call in calls][:3] == [1, 4, 1]
    assert embedder.calls == 4 and not written
    assert result.facts and result.degraded
    told = "the embedding service does not answer"
    assert result.warnings == (f"{ALONE}{told}", f"run not captured: EmbedderError: {told}")


def test_a_search_goes_on_by_words_within_scope_and_filters(remote: Endpoint) -> None:
    """Proves: SEARCH-1, SEARCH-3, SEARCH-9. In every mode that looks up words."""
    store, asked = remote.store, "where is the granary of Pelle Lund"
    remote.fail(Behaviour.SERVER_ERROR)
    for mode in (SearchMode.AUTO, SearchMode.HYBRID):
        found = search(store, asked, scope=IN_VALLEY, params=SearchParams(mode=mode))
        assert found.degraded_reason is not None and found.degraded_reason.startswith(ALONE)
        assert found.legs == ("fts",)
        by_words = search(store, asked, scope=IN_VALLEY, params=SearchParams(mode=SearchMode.FTS))
        assert found.hits == by_words.hits and found.hits[0].record.id == "f-granary" and not by_words.degraded
    tagged = SearchParams(filters=Filters(tags=("health",)))
    (one,) = search(store, "walnuts", scope=IN_VALLEY, params=tagged).hits
    assert one.record.id == "f-oda"
    booked = search_trajectories(
        store, "the timetable of the ferry Birk", scope=IN_VALLEY, params=TrajectorySearchParams(min_similarity=0.0)
    )
    assert booked.trajectories[0].id == "t-ferry" and (booked.degraded_reason or "").startswith(ALONE)


def test_a_search_that_cannot_say_so_is_a_typed_error(remote: Endpoint) -> None:
    """Proves: SEARCH-9, API-1. Nor are words looked up for who wants meaning alone, or gave vectors."""
    store = remote.store
    given = store.embedder.embed_queries(["granary"])
    remote.fail(Behaviour.SERVER_ERROR)
    for call in (
        lambda: Memory(store=store).search("granary", tenant=VALLEY),
        lambda: RecallLoopRetriever(store, tenant=VALLEY).invoke("granary"),
        lambda: search(store, "granary", scope=IN_VALLEY, fallback=False),
        lambda: search(store, "granary", scope=IN_VALLEY, params=SearchParams(mode=SearchMode.VECTOR)),
        lambda: search_many(store, ["granary", "ferry"], scope=IN_VALLEY, modes=[SearchMode.AUTO, SearchMode.VECTOR]),
        lambda: search_many(store, ["granary"], scope=IN_VALLEY, vectors=np.zeros_like(given)),
    ):
        with pytest.raises(EmbedderError):
            call()


def test_the_service_answers_by_words_and_refuses_writes() -> None:
    """Proves: OPS-1, SEARCH-9, STORE-2."""
    with (
        ChatEndpoint(lambda _: {}) as server,
        running_service(settings=QUICK, embedder=embeddings_at(server.url)) as service,
        service.client() as client,
    ):
        posted = client.post("/api/memory/records", json={"records": VALLEY_RECORDS})
        assert {outcome["status"] for outcome in posted.json()["outcomes"]} == {"created"}
        server.embeds = Behaviour.SERVER_ERROR
        found = client.post("/api/memory/search", json={"query": "granary"}).json()
        meant = client.post("/api/memory/search", json={"query": "granary", "mode": "vector"})
        result = client.post("/api/memory/retrieve", json={"messages": [{"role": "user", "content": DIRECT}]}).json()
        late = {"id": "late", "kind": "fact", "text": "Too late."}
        refused = client.post("/api/memory/records", json={"records": [late]})
        server.embeds = Behaviour.GOOD
        again = client.post("/api/memory/search", json={"query": "granary"}).json()
        assert service.service.store.count() == len(VALLEY_RECORDS)
    assert found["degraded"] and found["degraded_reason"].startswith(ALONE) and found["hits"]
    assert result["degraded"] and result["warnings"][0].startswith(ALONE)
    assert "f-tallinn" in [fact["id"] for fact in result["facts"]]
    for response in (meant, refused):
        assert response.status_code == 503 and response.json()["type"].endswith("embedder_unavailable")
    assert not again["degraded"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OSError("the socket is gone"), "word-hashes: OSError: the socket is gone"),
        (RuntimeError("no socket"), "word-hashes: RuntimeError: no socket"),
        (AttributeError("a bug"), "word-hashes: AttributeError: a bug"),
        (np.full((1, 32), np.nan), "NaN"),
        (np.ones((3, 32)), r"vectors of shape \(3, 32\)"),
        ("no vectors", "not an array"),
    ],
)
def test_whatever_an_own_embedder_does_is_one_error(answer: Any, words: str) -> None:
    """Proves: STORE-2, STORE-5, SEARCH-9. For a write nothing of which is kept, and for a search by words."""

    class Broken(WordHashEmbedder):
        broken = False

        def embed_documents(self, texts: Any) -> Any:
            if self.broken and isinstance(answer, Exception):
                raise answer
            return answer if self.broken else super().embed_documents(texts)

        embed_queries = embed_documents

    with filled_store(Broken()) as store:
        count = store.count(IN_VALLEY)
        store.embedder.broken = True
        with pytest.raises(EmbedderError, match=words) as caught:
            store.upsert([{"id": "new", "kind": "fact", "text": "Half."}], tenant=VALLEY)
        if isinstance(answer, Exception):
            assert caught.value.__cause__ is answer and "socket" not in caught.value.told
            assert type(answer) is not RuntimeError or caught.value.told.endswith("embedded: RuntimeError")
        assert search(store, "granary of Pelle Lund", scope=IN_VALLEY).hits[0].record.id == "f-granary"
        assert retrieve(valley_request(DIRECT), store=store, settings=QUICK).degraded
        store.embedder.broken = False
        assert store.count(IN_VALLEY) == count and store.maintenance.verify().sound
        assert not store.get(["new"], scope=IN_VALLEY)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_what_no_embedder_is_to_blame_for_is_passed_on(kind: type[BaseException]) -> None:
    """Proves: SEARCH-9."""

    class Interrupted(WordHashEmbedder):
        def embed_queries(self, texts: Any) -> Any:
            raise kind

    with filled_store(Interrupted()) as store, pytest.raises(kind):
        search(store, "granary", scope=IN_VALLEY)
