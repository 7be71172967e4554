"""A chat model inside LangChain's wrappers, handed in wherever one may be; and what is none."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import AsyncMemory, Memory, RecallLoopRetriever, build_graph, remember, retrieve
from recall_loop.graph.loop_tools import retrieve_tool
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.planners import quick_settings
from tests.integration.graph.worlds import DIRECT, VALLEY, filled_store, valley_request
from tests.integration.model.test_llm_client_server import Plan, plan
from tests.llm_endpoint import Behaviour, ChatEndpoint
from tests.service_server import running_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def ways(world, model):
    """Every way to hand a model in; each is called to have it asked."""
    settings, ask_valley = quick_settings(), {"context": {"tenant": VALLEY}}
    messages = {"messages": [{"role": "user", "content": DIRECT}]}

    def remembered():
        builder = StateGraph(MessagesState)
        builder.add_node("remember", remember(world, model, settings, facts=True, tenant="acme", user_id="u9"))
        builder.add_edge(START, "remember")
        builder.compile().invoke(messages, {"configurable": {"thread_id": "t9"}})

    def served():
        with (
            running_service(embedder=world.embedder, settings=settings, llm=model) as service,
            service.client() as http,
        ):
            added = http.post("/api/memory/add", json={"content": "I moved to Bergen.", "user_id": "u9", "infer": True})
            assert added.json()["ids"]

    options = {"settings": settings, "llm": model}
    return {
        "retrieve": lambda: retrieve(valley_request(DIRECT), store=world, **options),
        "graph": lambda: build_graph(world, model, settings).invoke(messages, **ask_valley),
        "memory": lambda: Memory(store=world, **options).recall(DIRECT, tenant=VALLEY),
        "async": lambda: asyncio.run(AsyncMemory(store=world, **options).recall(DIRECT, tenant=VALLEY)),
        "retriever": lambda: RecallLoopRetriever(world, mode="recall", tenant=VALLEY, **options).invoke(DIRECT),
        "tool": lambda: retrieve_tool(world, Scope(tenant=VALLEY), **options).invoke({"question": DIRECT}),
        "remember": remembered,
        "service": served,
    }


WAYS = ("retrieve", "graph", "memory", "async", "retriever", "tool", "remember", "service")


@pytest.mark.parametrize("way", WAYS)
def test_it_is_taken_wherever_a_model_is(world, way):
    """Proves: GRAPH-3."""
    with ChatEndpoint(lambda asked: {}, Behaviour.SERVER_ERROR) as bad, ChatEndpoint(lambda asked: {}) as good:
        model = bad.model().with_retry().with_fallbacks([good.model().bind(temperature=0)]).with_config(tags=["x"])
        ways(world, model)[way]()
        assert bad.count() > 0 and good.count() > 0
        assert all(asked.body["temperature"] == 0 for asked in good.asked)


def unfit(model):
    """What is no chat model, or would change its replies: it, and what the error says of it."""
    other = FakeListChatModel(responses=["no"])
    return {
        "function": (RunnableLambda(lambda given: given), "RunnableLambda"),
        "chain": (model | StrOutputParser(), "RunnableSequence"),
        "chain as a fallback": (model.with_fallbacks([other | StrOutputParser()]), "RunnableSequence"),
        "chain tried again": ((other | StrOutputParser()).with_retry().bind(stop=["x"]), "RunnableSequence"),
        "tools": (model.bind_tools([Plan]), "a model with tools bound"),
        "tools of a fallback": (other.with_fallbacks([model.bind_tools([Plan]).with_retry()]), "with tools bound"),
        "output format": (model.bind(response_format={"type": "json_object"}), "with response_format bound"),
        "structured output": (model.with_structured_output(Plan), "RunnableSequence"),
        "configurable": (model.configurable_fields(temperature=ConfigurableField("t")), "RunnableConfigurableFields"),
    }


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_chat_model_inside_is_refused_before_anything_is_asked(world, way):
    """Proves: GRAPH-3 (the error names field, value and what is allowed)."""
    with ChatEndpoint(plan) as endpoint:
        for given, shown in unfit(endpoint.model()).values():
            with pytest.raises(InvalidInputError) as caught:
                ways(world, given)[way]()
            assert caught.value.field == "llm"
            assert shown in str(caught.value)
            assert "chat model" in str(caught.value.allowed)
        assert endpoint.count() == 0


def test_a_model_that_is_gone_lends_its_client_to_no_other():
    """Proves: GRAPH-3 (clients are found by the id of the model, which is kept as long as they are)."""
    resources = GraphResources(None, Settings())
    with ChatEndpoint(plan) as endpoint:
        for wrap in (lambda model: model, lambda model: model.bind(temperature=0)):
            given = wrap(endpoint.model(max_retries=3))  # the client uses a copy without retries
            client, kept = resources.chat_client_for(Context(), Settings(), given), weakref.ref(given)
            assert resources.chat_client_for(Context(), Settings(), given) is client
            del given
            gc.collect()
            assert kept() is not None
