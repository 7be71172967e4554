"""The model client against a real server on loopback: every behaviour, and its memory of endpoints."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from pydantic import BaseModel, ConfigDict

from recall_loop.llm.client import ChatClient, chat_model, make_chat_client
from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.llm.endpoint.failures import FailureReason
from recall_loop.llm.endpoint.providers import without_own_retries
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.state.run.cancellation import RunCancelledError, cancellable
from recall_loop.state.settings.settings import Settings
from tests.llm_endpoint import MODEL, Behaviour, ChatEndpoint, RawReply, ToolReply

PLENTY = Limits(calls=100, tokens=1_000_000, seconds=60.0)
PROMPT = RenderedPrompt("plan", "1", "You plan searches.", "Who leads Atlas, and since when?")
QUICK = {"timeout_seconds": 20.0, "backoff_seconds": 0.01, "cooldown_seconds": 60.0}


class Plan(BaseModel):
    """Searches to make."""

    model_config = ConfigDict(extra="forbid")

    queries: list[str]
    note: str = ""


class Judgement(BaseModel):
    """Whether to stop."""

    stop: bool


def plan(asked):
    return {"queries": ["Atlas lead"], "note": "names first"}


@pytest.fixture
def ask():
    """Ask a client."""

    def asked(client, prompt=PROMPT, schema=Plan, limits=PLENTY, on_text=None):
        return client.ask(prompt, schema, limits, on_text)

    return asked


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Have everything imported that a first call imports: short timeouts are for the server alone."""
    with ChatEndpoint(plan) as endpoint:
        client = ChatClient(endpoint.model())
        for on_text in (None, lambda text: None):
            assert client.ask(PROMPT, Plan, PLENTY, on_text).value is not None


def client_for(endpoint, **values):
    return ChatClient(endpoint.model(), **(QUICK | values))


@pytest.mark.parametrize(
    ("behaviour", "rung", "calls", "calls_again"),
    [
        (Behaviour.GOOD, "json_schema", 1, 1),
        (Behaviour.REJECTS_FORMAT, "function_calling", 2, 1),
        (Behaviour.REJECTS_ALL_FORMATS, "prompt", 4, 1),
        (Behaviour.IGNORES_FORMAT, "json_schema", 1, 1),
        (Behaviour.RATE_LIMITED_ONCE, "json_schema", 2, 1),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_value_comes_and_the_rung_that_gave_it_is_remembered(ask, behaviour, rung, calls, calls_again, streamed):
    """Proves: LOOP-8."""
    heard = []
    on_text = heard.append if streamed else None
    with ChatEndpoint(plan, behaviour, retry_after="0.01") as endpoint:
        reply = ask(client_for(endpoint), on_text=on_text)
        assert reply.value == Plan(queries=["Atlas lead"], note="names first")
        assert (reply.failure, reply.method, reply.usage.calls) == (None, rung, calls)
        assert endpoint.count() == calls == len(reply.attempts)
        assert reply.attempts[-1] == (rung, "ok")
        assert 10 < reply.usage.tokens < 500
        again = ask(client_for(endpoint), on_text=on_text)
        assert (again.method, endpoint.count()) == (rung, calls + calls_again)
        assert all(asked.schema == "Plan" for asked in endpoint.asked)
    assert all("Atlas lead" in text for text in heard[-1:])
    assert bool(heard) is streamed


def test_an_endpoint_that_never_streams_gives_its_answers(ask):
    """Proves: LOOP-8 (it is found out once, and within the limits)."""
    heard: list[str] = []
    with ChatEndpoint(plan, Behaviour.NO_STREAM) as endpoint:
        reply = ask(client_for(endpoint), on_text=heard.append)
        assert reply.value == Plan(queries=["Atlas lead"], note="names first")
        assert reply.attempts == (("json_schema", "error"), ("json_schema", "ok"))
        assert [asked.body.get("stream", False) for asked in endpoint.asked] == [True, False]
        assert len(heard) == 1 and "Atlas lead" in heard[0]
        again = ask(client_for(endpoint), on_text=heard.append)
        assert again.attempts == (("json_schema", "ok"),)
    with ChatEndpoint(plan, Behaviour.NO_STREAM) as endpoint:
        once = ask(client_for(endpoint), limits=replace(PLENTY, calls=1), on_text=heard.append)
        assert (once.value, endpoint.count()) == (None, 1)


@pytest.mark.parametrize(
    ("behaviour", "detail"),
    [
        (Behaviour.HTML, "the endpoint's reply isn't in OpenAI's format"),
        (Behaviour.NO_CHOICES, "the reply has no choices"),
        (Behaviour.DROPS, "no connection to the endpoint, or one that broke off"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_reason_is_in_words_and_names_no_class(ask, behaviour, detail, streamed):
    """Proves: LOOP-8."""
    on_text = (lambda text: None) if streamed else None
    with ChatEndpoint(plan, behaviour) as endpoint:
        assert ask(client_for(endpoint, retries=0), on_text=on_text).failure.detail == detail


@pytest.mark.parametrize(
    ("behaviour", "reason", "calls", "calls_again"),
    [
        (Behaviour.PROSE, FailureReason.NOT_JSON, 4, 1),
        (Behaviour.WRONG_JSON, FailureReason.INVALID, 4, 1),
        (Behaviour.EMPTY, FailureReason.EMPTY, 4, 1),
        (Behaviour.TRUNCATES, FailureReason.TRUNCATED, 1, 1),
        (Behaviour.REFUSES, FailureReason.REFUSED, 1, 1),
        (Behaviour.NO_CHOICES, FailureReason.EMPTY, 4, 1),
        (Behaviour.HTML, FailureReason.ERROR, 1, 1),
        (Behaviour.SERVER_ERROR, FailureReason.SERVER_ERROR, 3, 0),
        (Behaviour.DROPS, FailureReason.CONNECTION, 3, 0),
        (Behaviour.RATE_LIMITED, FailureReason.RATE_LIMITED, 3, 0),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_failure_has_its_reason_and_costs_a_bounded_number_of_calls(
    ask, behaviour, reason, calls, calls_again, streamed
):
    """Proves: LOOP-8."""
    on_text = (lambda text: None) if streamed else None
    if streamed and behaviour in (Behaviour.NO_CHOICES, Behaviour.HTML):  # once more, for a reply in one piece
        calls, calls_again = calls + 1, calls_again + 1
    with ChatEndpoint(plan, behaviour, retry_after="0.01") as endpoint:
        reply = ask(client_for(endpoint), on_text=on_text)
        assert (reply.value, reply.failure.reason, reply.method) == (None, reason, None)
        assert endpoint.count() == calls == reply.usage.calls == len(reply.attempts)
        assert reply.attempts[-1][1] == reason
        assert len(reply.failure.detail) <= 200
        assert "Atlas" not in reply.failure.detail
        for number in (1, 2, 3):
            again = ask(client_for(endpoint), schema=Judgement, on_text=on_text)
            assert endpoint.count() == calls + number * calls_again
            assert again.failure.reason is (reason if calls_again else FailureReason.CIRCUIT_OPEN)


@pytest.mark.parametrize("behaviour", [Behaviour.HANGS, Behaviour.TRICKLES])
@pytest.mark.parametrize("streamed", [False, True])
def test_five_asks_of_a_hung_endpoint_cost_one_timeout(ask, behaviour, streamed):
    """Proves: LOOP-8."""
    on_text = (lambda text: None) if streamed else None
    with ChatEndpoint(plan, behaviour, trickle_seconds=0.05) as endpoint:
        reasons = [
            ask(client_for(endpoint, timeout_seconds=0.5), on_text=on_text).failure.reason.value for _ in range(5)
        ]
        assert reasons == ["timeout"] + ["circuit_open"] * 4
        # A busy machine may not even get the request sent in that time.
        assert endpoint.count() <= 1


def test_a_dead_endpoint_is_left_alone_after_the_retries(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.DEAD) as endpoint:
        replies = [ask(client_for(endpoint)) for _ in range(3)]
    assert [reply.failure.reason.value for reply in replies] == ["connection", "circuit_open", "circuit_open"]
    assert [reply.usage.calls for reply in replies] == [3, 0, 0]


def test_one_trial_call_closes_or_reopens_the_circuit(ask):
    """Proves: LOOP-8."""
    now = [0.0]
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as endpoint:
        client = client_for(endpoint, clock=lambda: now[0], cooldown_seconds=30.0, retries=1, backoff_seconds=0.0)
        assert ask(client).usage.calls == 2
        now[0] = 29.0
        assert ask(client).failure.reason is FailureReason.CIRCUIT_OPEN
        now[0] = 31.0
        trial = ask(client)
        assert (trial.failure.reason, trial.usage.calls) == (FailureReason.SERVER_ERROR, 1)
        now[0] = 60.0
        assert ask(client).failure.reason is FailureReason.CIRCUIT_OPEN
        endpoint.behaviour = Behaviour.GOOD
        now[0] = 62.0
        assert ask(client).value is not None
        now[0] = 62.5
        assert ask(client).value is not None
        assert endpoint.count() == 5


@pytest.mark.parametrize("streamed", [False, True])
def test_a_models_own_retries_do_not_multiply_ours(ask, streamed):
    """Proves: LOOP-8 (each method asks once; the caller's model stays as it is)."""
    for behaviour, requests in ((Behaviour.SERVER_ERROR, 3), (Behaviour.GOOD, 1)):
        with ChatEndpoint(plan, behaviour) as endpoint:
            model = endpoint.model(max_retries=5)
            client = ChatClient(model, **{**QUICK, "retries": 2})
            reply = ask(client, on_text=(lambda text: None) if streamed else None)
            assert (reply.usage.calls, endpoint.count()) == (requests, requests)
            assert (model.max_retries, model.root_client.max_retries) == (5, 5)


def test_a_client_in_place_of_the_models_own_stays():
    """Proves: LOOP-8."""
    with ChatEndpoint(plan) as endpoint:
        model, other = endpoint.model(max_retries=5), endpoint.model()
        model.client = other.client
        assert without_own_retries(model) is model
        assert without_own_retries(other) is other


def test_while_the_trial_runs_others_fail_at_once():
    """Proves: LOOP-8."""
    now, entered, go = [0.0], threading.Event(), threading.Event()

    def slow(asked):
        entered.set()
        assert go.wait(10)
        return plan(asked)

    with ChatEndpoint(slow, Behaviour.SERVER_ERROR) as endpoint, ThreadPoolExecutor(1) as pool:
        client = client_for(endpoint, clock=lambda: now[0], retries=0)
        assert client.ask(PROMPT, Plan, PLENTY).failure.reason is FailureReason.SERVER_ERROR
        endpoint.behaviour = Behaviour.GOOD
        now[0] = 61.0
        trial = pool.submit(client.ask, PROMPT, Plan, PLENTY)
        assert entered.wait(10)
        assert client.ask(PROMPT, Plan, PLENTY).failure.reason is FailureReason.CIRCUIT_OPEN
        go.set()
        assert trial.result().value is not None
        assert client.ask(PROMPT, Plan, PLENTY).value is not None


def test_a_wrong_key_opens_the_circuit_for_that_key_only(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(lambda asked: RawReply(status=401, error={"code": "invalid_api_key"})) as endpoint:
        wrong = ChatClient(endpoint.model(api_key="wrong"), **QUICK)
        reasons = [ask(wrong).failure.reason.value for _ in range(3)]
        assert (reasons, endpoint.count()) == (["authentication", "circuit_open", "circuit_open"], 1)
        endpoint.answer = plan
        assert ask(ChatClient(endpoint.model(api_key="right"), **QUICK)).value is not None


def test_retry_after_is_waited_for_when_it_fits_and_else_ends_the_ask(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.RATE_LIMITED_ONCE, retry_after="0.3") as endpoint:
        began = time.monotonic()
        reply = ask(client_for(endpoint))
        assert time.monotonic() - began >= 0.3
        assert reply.attempts == (("json_schema", "rate_limited"), ("json_schema", "ok"))
        assert reply.usage.seconds >= 0.3
    for later in ("90", format_datetime(datetime.now(UTC) + timedelta(minutes=3), usegmt=True)):
        with ChatEndpoint(plan, Behaviour.RATE_LIMITED_ONCE, retry_after=later) as endpoint:
            reply = ask(client_for(endpoint))
            assert (reply.failure.reason, reply.usage.calls) == (FailureReason.RATE_LIMITED, 1)
            assert reply.usage.seconds < 60


@pytest.mark.parametrize(
    ("said", "timeout", "opened"),
    [("60", 5.0, 60.0), ("6", 30.0, 6.0), ("3", 2.0, 3.0), ("86400", 5.0, 300.0), ("inf", 5.0, 300.0)],
)
def test_a_retry_after_that_is_too_long_to_wait_opens_the_circuit_for_that_time(ask, said, timeout, opened):
    """Proves: LOOP-8 (at most the timeout or 5 s are waited, at most 300 s is the endpoint left alone)."""
    now = [0.0]
    with ChatEndpoint(plan, Behaviour.RATE_LIMITED_ONCE, retry_after=said) as endpoint:
        client = client_for(endpoint, timeout_seconds=timeout, cooldown_seconds=1.0, clock=lambda: now[0])
        assert ask(client).attempts == (("json_schema", "rate_limited"),)
        now[0] = opened - 0.5
        assert ask(client, limits=Limits(9, 10**6, 10**6)).failure.reason is FailureReason.CIRCUIT_OPEN
        now[0] = opened + 0.5
        assert ask(client).value is not None
        assert endpoint.count() == 2


def test_limits_are_kept_before_each_call(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.PROSE) as endpoint:
        client = client_for(endpoint)
        assert ask(client, limits=Limits(0, 10**6, 60)).failure.reason is FailureReason.CALL_LIMIT
        assert ask(client, limits=Limits(9, 500, 60)).failure.reason is FailureReason.TOKEN_LIMIT
        assert ask(client, limits=Limits(9, 10**6, 0)).failure.reason is FailureReason.TIME_LIMIT
        assert endpoint.count() == 0
        reply = ask(client, limits=Limits(2, 10**6, 60))
        assert (reply.failure.reason, reply.usage.calls, endpoint.count()) == (FailureReason.CALL_LIMIT, 2, 2)
        assert [rung for rung, _ in reply.attempts] == ["json_schema", "function_calling"]


def test_retries_stop_at_the_call_limit(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as endpoint:
        reply = ask(client_for(endpoint, retries=9), limits=Limits(2, 10**6, 60))
        assert (reply.usage.calls, endpoint.count()) == (2, 2)


def test_a_call_waits_no_longer_than_the_request_has_left(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.HANGS) as endpoint:
        reply = ask(client_for(endpoint, timeout_seconds=30.0), limits=Limits(9, 10**6, 0.3))
        assert reply.failure.reason is FailureReason.TIME_LIMIT
        # Half of it: the other half is for the search without the model.
        assert "0.15 s" in reply.failure.detail
        assert 0.15 <= reply.usage.seconds < 30
        endpoint.behaviour = Behaviour.GOOD
        # One call cut that short is no proof against the endpoint.
        assert ask(client_for(endpoint)).value is not None


def test_a_hung_endpoint_takes_no_more_from_requests_in_a_hurry_after_two_calls(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.HANGS) as endpoint:
        client = client_for(endpoint, timeout_seconds=30.0)
        hurried = Limits(9, 10**6, 0.3)
        reasons = [ask(client, limits=hurried).failure.reason.value for _ in range(5)]
        assert reasons == ["time_limit"] * 2 + ["circuit_open"] * 3
        assert endpoint.count() <= 2
        endpoint.behaviour = Behaviour.GOOD
        # It says nothing about calls that have much more time; and an answer closes the circuit for all.
        assert ask(client).value is not None
        assert ask(client, limits=Limits(9, 10**6, 29.0)).value is not None


def test_an_answer_between_two_hurried_calls_keeps_the_circuit_closed(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan, Behaviour.HANGS) as endpoint:
        client = client_for(endpoint, timeout_seconds=30.0)
        for _ in range(3):
            endpoint.behaviour = Behaviour.HANGS
            assert ask(client, limits=Limits(9, 10**6, 0.2)).failure.reason is FailureReason.TIME_LIMIT
            endpoint.behaviour = Behaviour.GOOD
            assert ask(client).value is not None


def test_nothing_of_the_environment_is_sent_to_an_address_that_is_not_openais(ask, monkeypatch):
    """Proves: LOOP-8, OPS-2."""
    secrets = {
        "OPENAI_API_KEY": "secret-key",
        "OPENAI_ADMIN_KEY": "secret-admin",
        "OPENAI_ORG_ID": "secret-org",
        "OPENAI_ORGANIZATION": "secret-organization",
        "OPENAI_PROJECT_ID": "secret-project",
        "OPENAI_WEBHOOK_SECRET": "secret-hook",
        "OPENAI_CUSTOM_HEADERS": "X-Own: secret-own\nAuthorization: Bearer secret-bearer\nUser-Agent: secret-agent",
        "LANGSMITH_API_KEY": "secret-smith",
        "LANGSMITH_GATEWAY_API_KEY": "secret-gateway",
        "LANGSMITH_GATEWAY": "true",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    with ChatEndpoint(plan, Behaviour.REJECTS_ALL_FORMATS) as endpoint:
        for key in (None, "the settings' key"):
            settings = Settings(llm_model=MODEL, llm_base_url=endpoint.url, llm_api_key=key, llm_temperature=0.5)
            for on_text in (None, lambda text: None):
                assert ask(make_chat_client(settings), on_text=on_text).value is not None
        sent = [asked.headers for asked in endpoint.asked]
    assert "secret" not in str(sent) + repr(chat_model(settings))
    assert {one["authorization"] for one in sent} == {"Bearer none", "Bearer the settings' key"}
    known = {"accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host"}
    others = {name for one in sent for name in one} - known - {"user-agent"}
    assert all(name.startswith("x-stainless-") for name in others)


DEEP = ["[" * 20_000, '{"a":' * 5000, '{"a":' * 5000 + "1" + "}" * 5000, '{"queries":' + "[" * 3000]


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_deeply_nested_reply_is_no_json(ask, text, streamed):
    """Proves: LOOP-8 (in our reader and in the parsers of langchain and openai)."""

    def answer(asked):
        return ToolReply("Plan", text) if asked.rung == "function_calling" else RawReply(text)

    with ChatEndpoint(answer) as endpoint:
        reply = ask(client_for(endpoint), on_text=(lambda said: None) if streamed else None)
        assert {reason for _, reason in reply.attempts} == {"not_json"}
        assert (reply.failure.reason, endpoint.count()) == (FailureReason.NOT_JSON, 4)


@pytest.mark.parametrize(
    ("parameter", "values", "check"),
    [
        ("temperature", {"temperature": 0.2}, lambda body: "temperature" not in body),
        ("max_completion_tokens", {}, lambda body: body.get("max_tokens") == 800),
    ],
)
def test_a_refused_parameter_is_sent_otherwise_and_remembered(ask, parameter, values, check):
    """Proves: LOOP-8."""

    def answer(asked):
        if parameter in asked.body:
            return RawReply(
                status=400, error={"message": "unsupported", "param": parameter, "code": "unsupported_value"}
            )
        return plan(asked)

    with ChatEndpoint(answer) as endpoint:
        reply = ask(ChatClient(endpoint.model(**values), **QUICK))
        assert reply.attempts == (("json_schema", "bad_request"), ("json_schema", "ok"))
        assert check(endpoint.asked[-1].body)
        assert ask(ChatClient(endpoint.model(**values), **QUICK)).usage.calls == 1


def test_replies_are_bounded_and_the_schema_is_strict(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(plan) as endpoint:
        ask(client_for(endpoint, reply_tokens=123))
        body = endpoint.asked[0].body
    assert body["max_completion_tokens"] == 123
    sent = body["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["queries", "note"]
    assert sent["schema"]["additionalProperties"] is False


def test_a_whole_reply_at_the_limit_is_a_value(ask):
    """Proves: LOOP-8 (LengthFinishReasonError with usable content)."""
    with ChatEndpoint(lambda asked: RawReply('{"queries": ["Atlas lead"]}', finish="length")) as endpoint:
        assert ask(client_for(endpoint)).value == Plan(queries=["Atlas lead"])
        assert ask(client_for(endpoint), on_text=lambda text: None).value == Plan(queries=["Atlas lead"])


def test_a_cut_off_tool_call_is_not_completed_by_guesses(ask):
    """Proves: LOOP-8."""

    def cut(asked):
        if asked.rung == "json_schema":
            return RawReply(status=400, error={"message": "unsupported"})
        return plan(asked)

    with ChatEndpoint(cut, Behaviour.TRUNCATES) as endpoint:
        reply = ask(client_for(endpoint), on_text=lambda text: None)
        assert reply.attempts == (("json_schema", "bad_request"), ("function_calling", "truncated"))
        assert reply.failure.reason is FailureReason.TRUNCATED


@pytest.mark.parametrize("error", [{"code": "context_length_exceeded"}, {"message": "the prompt is too long"}])
def test_a_prompt_that_is_too_long_ends_the_ask(ask, error):
    """Proves: LOOP-8."""
    with ChatEndpoint(lambda asked: RawReply(status=400, error={"message": "no", **error})) as endpoint:
        reply = ask(client_for(endpoint))
        assert (reply.failure.reason, endpoint.count()) == (FailureReason.BAD_REQUEST, 1)


def test_a_request_that_is_bad_in_every_form_is_not_held_against_the_forms(ask):
    """Proves: LOOP-8."""
    with ChatEndpoint(lambda asked: RawReply(status=400, error={"message": "no"})) as endpoint:
        assert ask(client_for(endpoint)).usage.calls == 4
        assert ask(client_for(endpoint)).attempts == (("prompt", "bad_request"),)
        endpoint.answer = plan
        assert [ask(client_for(endpoint)).method for _ in range(2)] == ["prompt", "json_schema"]


def test_the_text_grows_as_it_streams(ask):
    """Proves: LOOP-8, LOOP-10."""
    for behaviour in (Behaviour.GOOD, Behaviour.REJECTS_FORMAT, Behaviour.REJECTS_ALL_FORMATS):
        heard = []
        with ChatEndpoint(plan, behaviour) as endpoint:
            assert ask(client_for(endpoint), on_text=heard.append).value is not None
        assert len(heard) >= 4
        assert all(later.startswith(earlier) for earlier, later in pairwise(heard))
        assert heard[-1] == '{"queries": ["Atlas lead"], "note": "names first"}'


def test_the_text_is_heard_while_the_server_still_writes(ask):
    """Proves: LOOP-8, LOOP-10."""
    held = threading.Event()
    with ChatEndpoint(plan, held=held) as endpoint:
        # The server writes on only after the first text was heard.
        assert ask(client_for(endpoint, timeout_seconds=20.0), on_text=lambda text: held.set()).value is not None


def test_a_stream_that_was_left_behind_ends_at_its_next_piece():
    """Proves: LOOP-8."""
    heard = []
    with ChatEndpoint(plan, piece_seconds=0.2) as endpoint:
        reply = client_for(endpoint, timeout_seconds=0.7).ask(PROMPT, Plan, PLENTY, heard.append)
        assert reply.failure.reason is FailureReason.TIMEOUT
        count, end = len(heard), time.monotonic() + 60
        while any(thread.name == "recall-loop-llm" for thread in threading.enumerate()):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert len(heard) == count


def test_a_model_that_cannot_stream_says_its_text_once(ask):
    """Proves: LOOP-8."""
    heard = []
    with ChatEndpoint(plan) as endpoint:
        assert ask(ChatClient(endpoint.model(disable_streaming=True), **QUICK), on_text=heard.append).value is not None
    assert heard == ['{"queries": ["Atlas lead"], "note": "names first"}']


def test_a_listeners_error_is_the_callers(ask):
    """Proves: LOOP-8."""

    def broken(text):
        raise LookupError("the listener's own")

    with ChatEndpoint(plan) as endpoint:
        with pytest.raises(LookupError, match="the listener's own"):
            ask(client_for(endpoint), on_text=broken)
        assert ask(client_for(endpoint)).value is not None


def test_the_same_prompt_is_answered_from_the_cache(ask):
    """Proves: LOOP-8."""
    heard = []
    with ChatEndpoint(plan) as endpoint:
        client = client_for(endpoint, cache_entries=1)
        first, second = ask(client), ask(client, on_text=heard.append)
        assert (first.cached, second.cached, second.usage.calls, endpoint.count()) == (False, True, 0, 1)
        assert second.value == first.value
        assert "Atlas lead" in heard[0]
        assert not ask(client, prompt=RenderedPrompt("plan", "1", PROMPT.system, "Another question")).cached
        assert not ask(client).cached
        endpoint.answer = lambda asked: {"wrong": 1}
        for _ in range(2):
            assert not ask(client, prompt=RenderedPrompt("plan", "1", PROMPT.system, "A third")).cached


def test_many_asks_at_once_on_one_door():
    """Proves: LOOP-8."""
    with ChatEndpoint(lambda asked: {"queries": [asked.user]}, Behaviour.REJECTS_FORMAT) as endpoint:
        client = client_for(endpoint, timeout_seconds=30.0)

        def one(number):
            return client.ask(RenderedPrompt("plan", "1", "You plan.", f"question {number}"), Plan, PLENTY)

        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(one, range(32)))
        assert [reply.value.queries for reply in replies] == [[f"question {number}"] for number in range(32)]
        assert all(reply.method == "function_calling" for reply in replies)
        assert endpoint.count("json_schema") <= 8


def test_a_cancelled_ask_gives_the_trial_back():
    """Proves: LOOP-8."""
    now = [0.0]
    with ChatEndpoint(plan, Behaviour.SERVER_ERROR) as endpoint:
        client = client_for(endpoint, clock=lambda: now[0], retries=0)
        client.ask(PROMPT, Plan, PLENTY)
        now[0] = 61.0
        endpoint.behaviour = Behaviour.HANGS

        cancelled = threading.Event()

        def cancel():
            while endpoint.count() < 2:
                time.sleep(0.01)
            cancelled.set()

        with ThreadPoolExecutor(1) as pool, cancellable(cancelled):
            pool.submit(cancel)
            with pytest.raises(RunCancelledError):
                client.ask(PROMPT, Plan, PLENTY)
        endpoint.behaviour = Behaviour.GOOD
        assert client.ask(PROMPT, Plan, PLENTY).value is not None


def test_inside_a_graph_callbacks_see_the_call_and_tokens_stay_hidden():
    """Proves: LOOP-8."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langgraph.graph import END, START, StateGraph

    class Seen(BaseCallbackHandler):
        def __init__(self):
            self.runs = []

        def on_chat_model_start(self, serialized, messages, *, tags=None, name=None, **_):
            self.runs.append((name, tags))

    with ChatEndpoint(plan) as endpoint:
        client = client_for(endpoint)

        def node(state: dict) -> dict:
            return {"rung": client.ask(PROMPT, Plan, PLENTY).method}

        async def anode(state: dict) -> dict:
            return await asyncio.to_thread(node, state)

        for made in (node, anode):
            builder = StateGraph(dict)
            builder.add_node("ask", made)
            builder.add_edge(START, "ask")
            builder.add_edge("ask", END)
            graph, seen = builder.compile(), Seen()
            config = {"callbacks": [seen], "tags": ["mine"]}
            if made is node:
                parts = list(graph.stream({}, config, stream_mode=["messages", "updates"]))
            else:
                parts = asyncio.run(_listed(graph.astream({}, config, stream_mode=["messages", "updates"])))
            assert parts == [("updates", {"ask": {"rung": "json_schema"}})]
            [(name, tags)] = seen.runs
            assert name == "recall_loop.plan"
            assert {"nostream", "mine"} <= set(tags)


async def _listed(parts):
    return [part async for part in parts]
