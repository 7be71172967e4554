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
from tests.integration.graph.worlds import DIRECT, NOW, VALLEY, filled_store, valley_request


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
        ({"mode": "recall", "params": {"fuzzy": 1}}, "params.fuzzy"),
        ({"params": {"fuzzy": 1, "mode": "vector"}}, "fuzzy"),
    ],
)
def test_bad_options_are_errors(world, fields, named):
    """Proves: GRAPH-3 (named when the retriever is made)."""
    with pytest.raises(InvalidInputError, match=named) as caught:
        RecallLoopRetriever(world, **fields)
    assert isinstance(caught.value, UnsupportedOptionError) == ("fuzzy" in named)
    with pytest.raises(InvalidInputError, match="store"):
        RecallLoopRetriever("memory")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="query"):
        RecallLoopRetriever(world).invoke(None)  # type: ignore[arg-type]
