"""Chat models inside LangChain's wrappers: bind, with_config, with_retry and with_fallbacks, against real servers."""

from __future__ import annotations

import time

import httpx
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from recall_loop import build_graph, retrieve
from recall_loop.graph.run import stream_retrieve
from recall_loop.llm.client import ChatClient
from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.llm.endpoint.failures import FailureReason
from tests.integration.graph.planners import ScriptedPlanner, quick_settings
from tests.integration.graph.worlds import DIRECT, VALLEY, filled_store, valley_request
from tests.integration.model.test_llm_client_server import PLENTY, PROMPT, QUICK, Plan, plan
from tests.llm_endpoint import Behaviour, ChatEndpoint, RawReply

pytestmark = pytest.mark.slow


class Heard(BaseCallbackHandler):
    """Notes the tags and names of the chat models' runs."""

    def __init__(self):
        self.runs = []

    def on_chat_model_start(self, serialized, messages, *, tags=None, metadata=None, **more):
        self.runs.append((more.get("name"), set(tags or ()), (metadata or {}).get("team")))


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Have everything imported that a first call imports: short timeouts are for the server alone."""
    with ChatEndpoint(plan) as endpoint:
        for on_text in (None, lambda text: None):
            assert ask(endpoint.model(), on_text=on_text).value is not None


@pytest.fixture
def good():
    with ChatEndpoint(plan) as endpoint:
        yield endpoint


def ask(model, limits=PLENTY, on_text=None, **values):
    return ChatClient(model, **(QUICK | values)).ask(PROMPT, Plan, limits, on_text)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (Behaviour.SERVER_ERROR, "server_error"),
        (Behaviour.DEAD, "connection"),
        (Behaviour.HANGS, "timeout"),
        (Behaviour.PROSE, "not_json"),
        (Behaviour.WRONG_JSON, "invalid"),
        (Behaviour.TRUNCATES, "truncated"),
        (Behaviour.REFUSES, "refused"),
    ],
)
def test_a_fallback_answers_where_the_first_model_fails(good, behaviour, outcome, streamed):
    """Proves: LOOP-8 (calls and tokens of both are counted)."""
    heard = []
    with ChatEndpoint(plan, behaviour) as bad:
        model = bad.model().with_fallbacks([good.model()])
        seconds = 1.0 if behaviour is Behaviour.HANGS else 20.0
        reply = ask(model, on_text=heard.append if streamed else None, retries=1, timeout_seconds=seconds)
        alone = ask(good.model())
        assert reply.value == Plan(**plan(None)) == alone.value
        assert (reply.failure, reply.attempts[-1]) == (None, ("json_schema", "ok"))
        assert {said for _, said in reply.attempts[:-1]} == {outcome}
        assert good.count() == 2
        assert reply.usage.calls == len(reply.attempts) >= 2
        if behaviour is not Behaviour.DEAD:
            assert reply.usage.calls == bad.count() + 1
        if behaviour not in (Behaviour.DEAD, Behaviour.SERVER_ERROR):
            assert reply.usage.tokens > alone.usage.tokens > 0
    assert not streamed or "Atlas lead" in heard[-1]


def test_a_model_that_is_left_alone_is_passed_over(good):
    """Proves: LOOP-8 (each model inside has a record of its own)."""
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as bad:
        model = bad.model().with_fallbacks([good.model()])
        calls = [ask(model, retries=0).usage.calls for _ in range(3)]
        assert (calls, bad.count(), good.count()) == ([2, 1, 1], 1, 3)
        bad.behaviour = Behaviour.GOOD
        other = bad.model().bind(model="other-model")
        assert ask(other).value is not None
        assert bad.asked[-1].body["model"] == "other-model"


def test_limits_hold_over_all_models(good):
    """Proves: LOOP-8 (the reason is what went wrong, not the limit that ended it)."""
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as bad, ChatEndpoint(plan, Behaviour.HANGS) as slow:
        model = bad.model().with_fallbacks([good.model(model="spare")])
        reply = ask(model, Limits(2, 10**6, 60.0), retries=5)
        assert (reply.usage.calls, bad.count(), good.count()) == (2, 2, 0)
        assert reply.failure.reason is FailureReason.SERVER_ERROR
        assert "call_limit (spare): all 0 calls are used" in reply.failure.detail
        began = time.monotonic()
        hanging = slow.model().with_fallbacks([slow.model(model="b"), slow.model(model="c")])
        reply = ask(hanging, Limits(9, 10**6, 1.0))
        assert (reply.value, reply.failure.reason) == (None, FailureReason.TIME_LIMIT)
        assert time.monotonic() - began < 2.0
        prose = ask(FakeListChatModel(responses=["no"]).with_fallbacks([good.model()]), Limits(9, 1000, 60.0))
        assert prose.failure.reason is FailureReason.NOT_JSON
        assert "token_limit" in prose.failure.detail


def test_bound_arguments_arrive_within_the_bounds(good):
    """Proves: LOOP-8 (a bound limit may be smaller than the client's, never larger)."""
    base = good.model(temperature=0.9)
    for model, sent in (
        (base.bind(temperature=0, seed=7), {"temperature": 0, "seed": 7, "max_completion_tokens": 800}),
        (base.bind(max_tokens=50), {"temperature": 0.9, "max_completion_tokens": 50}),
        (base.bind(max_completion_tokens=10**6), {"max_completion_tokens": 800}),
        (base.bind(temperature=0.5).with_retry().bind(temperature=0.1), {"temperature": 0.1}),
        (base.with_fallbacks([base]).bind(seed=3).with_config(tags=["x"]), {"seed": 3}),
    ):
        assert ask(model).method == "json_schema"
        assert sent.items() <= good.asked[-1].body.items()
        assert "max_tokens" not in good.asked[-1].body


@pytest.mark.parametrize(
    ("fields", "bound", "sent"),
    [
        ({"extra_body": {"max_tokens": 9999, "top_k": 5}}, {}, {"max_tokens": 800, "top_k": 5}),
        ({"extra_body": {"max_completion_tokens": -1}}, {}, {"max_completion_tokens": 800}),
        ({"extra_body": {"max_tokens": 9}}, {}, {"max_tokens": 9}),
        ({"extra_body": {"max_tokens": 9}}, {"max_tokens": 60}, {"max_tokens": 9, "max_completion_tokens": 60}),
        ({}, {"extra_body": {"max_tokens": "9999"}}, {"max_tokens": 800}),
        ({"extra_body": {"top_k": 5}}, {"extra_body": {"max_tokens": None}}, {"max_tokens": 800}),
        ({}, {"max_output_tokens": 10**6}, {"max_completion_tokens": 800}),
        ({}, {"max_output_tokens": 60}, {"max_completion_tokens": 60}),
    ],
)
def test_no_field_of_a_request_lifts_the_token_limit(good, fields, bound, sent):
    """Proves: LOOP-8 (what goes into the body as it is overrides arguments)."""
    model = good.model(**fields)
    assert ask(model.bind(**bound) if bound else model).method == "json_schema"
    assert sent.items() <= good.asked[-1].body.items()


@pytest.mark.parametrize("given", [0.3, (0.3, 0.3), httpx.Timeout(0.3), httpx.Timeout(60, read=0.3)], ids=str)
@pytest.mark.parametrize("way", ["own", "bound"])
def test_a_models_shorter_timeout_holds(given, way):
    """Proves: LOOP-8 (and a longer one doesn't)."""
    with ChatEndpoint(plan, Behaviour.HANGS) as slow:
        model = slow.model(timeout=given) if way == "own" else slow.model(timeout=60).bind(timeout=given)
        began = time.monotonic()
        failure = ask(model, timeout_seconds=20.0).failure
        assert (failure.reason, failure.detail) == (FailureReason.TIMEOUT, "no reply within 0.3 s")
        assert time.monotonic() - began < 10.0
        longer = ask(slow.model(model="other", timeout=httpx.Timeout(60)), timeout_seconds=0.3).failure
        assert longer.detail == "no reply within 0.3 s"


def test_what_an_endpoint_refuses_is_left_out_of_bound_arguments():
    """Proves: LOOP-8."""

    def picky(asked):
        if "temperature" in asked.body:
            return RawReply(status=400, error={"message": "Unsupported parameter", "param": "temperature"})
        if "max_completion_tokens" in asked.body:
            return RawReply(status=400, error={"message": "Unknown parameter", "param": "max_completion_tokens"})
        return plan(asked)

    with ChatEndpoint(picky) as endpoint:
        reply = ask(endpoint.model().bind(temperature=0, max_tokens=60, extra_body={"top_k": 5}))
        body = endpoint.asked[-1].body
        assert reply.value is not None
        assert (body["max_tokens"], body["top_k"], "temperature" in body) == (60, 5, False)


def test_a_bound_timeout_makes_the_fallback_answer_soon(good):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.HANGS) as slow:
        began = time.monotonic()
        reply = ask(slow.model().bind(timeout=0.3).with_fallbacks([good.model()]))
        assert reply.value is not None and time.monotonic() - began < 5.0
        alone = ask(slow.model(model="alone").bind(timeout=0.3)).failure
        assert (alone.reason, alone.detail) == (FailureReason.TIMEOUT, "no reply within 0.3 s")
        began = time.monotonic()
        assert ask(slow.model(model="third").bind(timeout=60), timeout_seconds=0.5).value is None
        assert time.monotonic() - began < 5.0


def test_tries_are_the_clients_own():
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as bad:
        reply = ask(bad.model(max_retries=4).with_retry(stop_after_attempt=7), retries=2)
        assert (reply.usage.calls, bad.count()) == (3, 3)


def test_configuration_of_wrappers_is_heard_beside_that_of_the_graph(world):
    """Proves: GRAPH-3, OPS-7."""
    mine, around, started = Heard(), Heard(), []
    with ChatEndpoint(ScriptedPlanner()) as endpoint:
        model = endpoint.model().with_config(tags=["billed"], metadata={"team": "north"}, callbacks=[mine])
        graph = build_graph(
            world, model.with_listeners(on_start=lambda run: started.append(run.name)), quick_settings()
        )
        messages = [{"role": "user", "content": DIRECT}]
        graph.invoke({"messages": messages}, {"callbacks": [around]}, context={"tenant": VALLEY})
        assert len(mine.runs) == len(around.runs) == len(started) == endpoint.count() > 0
    for heard in (mine, around):
        assert all({"billed", "nostream"} <= tags and team == "north" for _, tags, team in heard.runs)
        assert {"recall_loop.plan", "recall_loop.answer"} <= {name for name, _, _ in heard.runs}


def test_the_answer_of_a_fallback_is_streamed(world):
    """Proves: LOOP-10."""
    with (
        ChatEndpoint(ScriptedPlanner(), Behaviour.SERVER_ERROR) as bad,
        ChatEndpoint(ScriptedPlanner()) as good,
    ):
        model = bad.model().with_retry().with_fallbacks([good.model(model="spare").bind(temperature=0)])
        asked = valley_request(DIRECT, debug=True)
        steps = list(stream_retrieve(asked, store=world, settings=quick_settings(), llm=model))
    pieces = [event["text"] for event in steps if isinstance(event, dict) and event["type"] == "answer_token"]
    assert len(pieces) > 2 and "".join(pieces) == steps[-1].answer
    assert {step["model"] for step in steps[-1].metadata["trace"]["llm_steps"]} == {"spare"}
    assert (steps[-1].degraded, steps[-1].metadata["llm"]) == (False, {"model": "test-model or spare", "failures": []})


def test_a_result_says_why_every_model_failed(world, caplog):
    """Proves: LOOP-8, OPS-3."""
    plain = retrieve(valley_request(DIRECT), store=world, settings=quick_settings())
    with (
        ChatEndpoint(ScriptedPlanner(), Behaviour.SERVER_ERROR) as bad,
        ChatEndpoint(ScriptedPlanner(), Behaviour.PROSE) as prose,
    ):
        model = bad.model().with_fallbacks([prose.model(model="spare")])
        result = retrieve(valley_request(DIRECT), store=world, settings=quick_settings(llm_max_calls=9), llm=model)
        assert result.metadata["llm_calls"] == bad.count() + prose.count()
    assert [fact.id for fact in result.facts] == [fact.id for fact in plain.facts]
    assert result.degraded
    failure = result.metadata["llm"]["failures"][0]
    assert failure["failure"] == "server_error"
    assert "server_error (test-model): " in failure["reason"] and "; not_json (spare): " in failure["reason"]
    assert failure["reason"] in result.warnings[0]
    assert "language model failed: model test-model, server_error" in caplog.messages
