"""RecallLoopRetriever: memory behind LangChain's interface of retrievers."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from recall_loop import RecallLoopRetriever
from recall_loop.graph.run import retrieve
from recall_loop.memory.search.engine import search
from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from tests.integration.graph.planners import ScriptedPlanner, quick_settings
from tests.integration.graph.worlds import DIRECT, NOW, VALLEY, filled_store, valley_request
from tests.llm_endpoint import ChatEndpoint


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


async def test_a_search_as_a_retriever(world):
    """Proves: GRAPH-3 (sync, async and in batches; ids, figures and fields as metadata)."""
    retriever = RecallLoopRetriever(world, tenant=VALLEY)
    assert isinstance(retriever, BaseRetriever)
    documents = retriever.invoke(DIRECT)
    assert ids(await retriever.ainvoke(DIRECT)) == ids(documents)
    assert [ids(each) for each in retriever.batch([DIRECT, DIRECT])] == [ids(documents)] * 2
    hits = search(world, DIRECT, scope=Scope(tenant=VALLEY), params=SearchParams(limit=10, limit_per_type=False)).hits
    assert ids(documents) == [hit.record.id for hit in hits]
    first = documents[0]
    assert first.page_content == hits[0].record.text
    assert (first.metadata["similarity"], first.metadata["score"]) == (hits[0].similarity, hits[0].score)
    fact = next(document for document in documents if document.id == "f-tallinn")
    wanted = {"id": "f-tallinn", "kind": "fact", "user_id": "u-mara", "agent_id": "lena", "conversation_id": "c-mara"}
    assert wanted.items() <= fact.metadata.items()
    assert fact.metadata["created_at"].startswith("2024-01-12T09:00:00")
    json.dumps([document.metadata for document in documents])


async def test_the_loop_as_a_retriever(world):
    """Proves: GRAPH-3 (mode recall: the facts of retrieve, and how sure they are)."""
    params = {"limit": 3, "content_types": ["fact"], "reference_time": NOW}
    retriever = RecallLoopRetriever(world, mode="recall", tenant=VALLEY, params=params)
    documents = retriever.invoke(DIRECT)
    result = retrieve(valley_request(DIRECT, max_facts=3, content_types=["fact"]), store=world)
    assert ids(documents) == [fact.id for fact in result.facts] == ids(await retriever.ainvoke(DIRECT))
    metadata = documents[0].metadata
    assert (metadata["id"], metadata["kind"], metadata["user_id"]) == ("f-tallinn", "fact", "u-mara")
    assert metadata["confidence"] == result.confidence.label.value
    assert metadata["stop_reason"] == result.stop.reason.value
    assert metadata["similarity"] == result.facts[0].similarity
    assert RecallLoopRetriever(world, mode="recall", tenant="nobody").invoke(DIRECT) == []


@pytest.mark.parametrize("mode", ["search", "recall"])
def test_scope_and_filters_bind(world, mode):
    """Proves: GRAPH-3, STORE-3."""
    mine = RecallLoopRetriever(world, mode=mode, tenant=VALLEY, user_id="u-joel").invoke(DIRECT)
    assert mine
    assert {document.metadata["user_id"] for document in mine} == {"u-joel"}
    tagged = SearchParams(filters=Filters(tags=("travel",)))
    assert ids(RecallLoopRetriever(world, mode=mode, tenant=VALLEY, params=tagged).invoke("ferry")) == ["f-birk"]


def test_the_loop_takes_what_a_request_does(world):
    """Proves: GRAPH-3 (goal, rounds, spelling and debug reach the request, and change what it would)."""
    given = {"limit": 5, "reference_time": NOW}
    options = {"mode": "recall", "tenant": VALLEY}
    more = {"goal": "oil the accordion", "max_iterations": 2}
    (found, *_) = RecallLoopRetriever(world, params=given, **more, **options).invoke(DIRECT)
    alone = retrieve(valley_request(DIRECT, max_facts=5, **more), store=world)
    assert found.metadata["confidence_score"] == alone.confidence.score
    (plain, *_) = RecallLoopRetriever(world, params=given, **options).invoke(DIRECT)
    assert plain.metadata["confidence_score"] != alone.confidence.score
    assert "debug" not in plain.metadata
    spelling = {"fuzzy": 2, "debug": True}
    (misspelt, *_) = RecallLoopRetriever(world, params={**given, **spelling}, **options).invoke("accordeyon")
    wanted = retrieve(valley_request("accordeyon", max_facts=5, **spelling), store=world).facts[0]
    assert misspelt.metadata["debug"] == wanted.debug
    json.dumps(misspelt.metadata)


def test_a_search_shows_its_scores(world):
    """Proves: SEARCH-6 (with debug the scores of each retriever)."""
    (first, *_) = RecallLoopRetriever(world, tenant=VALLEY, params={"debug": True}).invoke(DIRECT)
    assert first.metadata["debug"]
    json.dumps(first.metadata)


def test_no_answer_is_written_that_documents_have_no_place_for(world):
    """Proves: GRAPH-3 (a chat model plans; writing would cost a call and its time)."""
    with ChatEndpoint(ScriptedPlanner(answer={"answer": "In March.", "cited": [1]})) as endpoint:
        settings = quick_settings(write_answer=True)
        model = endpoint.model()
        documents = RecallLoopRetriever(world, mode="recall", tenant=VALLEY, llm=model, settings=settings).invoke(
            DIRECT
        )
        assert documents
        assert "plan" in {asked.schema for asked in endpoint.asked}
        assert "answer" not in {asked.schema for asked in endpoint.asked}


@pytest.mark.parametrize(("fields", "allowed"), [({"mode": "guess"}, "one of search, recall"), ({"k": 4}, "tenant, ")])
def test_an_error_says_what_is_allowed(world, fields, allowed):
    """Proves: GRAPH-3."""
    with pytest.raises(InvalidInputError) as caught:
        RecallLoopRetriever(world, **fields)
    assert allowed in caught.value.allowed


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"mode": "guess"}, "mode"),
        ({"tenant": ""}, "tenant"),
        ({"user": "u-joel"}, "user"),
        ({"params": {"limit": 0}}, "params.limit"),
        ({"params": {"k": 4}}, "params.k"),
        ({"params": 4}, "params"),
        ({"scope": "constellation"}, "scope"),
        ({"mode": "recall", "params": {"order_by": "created_at"}}, "params.order_by"),
        ({"mode": "recall", "max_iterations": 0}, "max_iterations"),
        ({"mode": "recall", "goal": " "}, "goal"),
        ({"mode": "recall", "max_context_tokens": 300}, "max_context_tokens"),
        ({"mode": "recall", "write_answer": True}, "write_answer"),
        ({"goal": "pack"}, "goal.*absent with mode=search"),
        ({"max_iterations": 2}, "max_iterations.*absent with mode=search"),
        ({"params": {"fuzzy": 1, "mode": "vector"}}, "fuzzy"),
    ],
)
def test_bad_options_are_errors(world, fields, named):
    """Proves: GRAPH-3 (named when the retriever is made)."""
    with pytest.raises(InvalidInputError, match=named) as caught:
        RecallLoopRetriever(world, **fields)
    assert isinstance(caught.value, UnsupportedOptionError) == (
        "fuzzy" in named or "order_by" in named or "absent" in named
    )
    with pytest.raises(InvalidInputError, match="store"):
        RecallLoopRetriever("memory")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="query"):
        RecallLoopRetriever(world).invoke(None)  # type: ignore[arg-type]
