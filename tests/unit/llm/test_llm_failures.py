"""What errors of models mean, and what an endpoint's memory makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import httpx
import pytest
from langchain_core.exceptions import ModelConnectionError, ModelRateLimitError, OutputParserException

from recall_loop.llm.endpoint.circuit_breaker import (
    MAX_ENDPOINTS,
    Admission,
    EndpointHealth,
    Limits,
    Usage,
    shared_endpoint_health,
)
from recall_loop.llm.endpoint.failures import FailureReason, classify_error
from recall_loop.llm.endpoint.reported_errors import reported_error

LADDER = ("json_schema", "function_calling", "json_mode", "prompt")


class Vendor(Exception):
    """An error of some vendor's package, with the usual fields."""

    def __init__(self, status=None, headers=None, **fields):
        super().__init__(fields.pop("message", "secret words of the prompt"))
        if status is not None:
            self.status_code = status
            self.response = httpx.Response(status, headers=headers or {})
        for name, value in fields.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("error", "reason", "retry", "next_rung"),
    [
        (Vendor(400), "bad_request", False, True),
        (Vendor(404), "bad_request", False, True),
        (Vendor(422), "bad_request", False, True),
        (Vendor(413), "bad_request", False, False),
        (Vendor(400, code="context_length_exceeded"), "bad_request", False, False),
        (Vendor(400, message="This model's maximum context length is 8192 tokens"), "bad_request", False, False),
        (Vendor(400, message="API key not valid. Please pass a valid API key."), "authentication", False, False),
        (Vendor(400, code="content_filter"), "refused", False, False),
        (Vendor(401), "authentication", False, False),
        (Vendor(403), "authentication", False, False),
        (Vendor(408), "server_error", True, False),
        (Vendor(409), "server_error", True, False),
        (Vendor(429), "rate_limited", True, False),
        (Vendor(429, code="insufficient_quota"), "rate_limited", False, False),
        (Vendor(500), "server_error", True, False),
        (Vendor(503), "server_error", True, False),
        (Vendor(None, body={"code": 503}), "server_error", True, False),
        (Vendor(None, body={"error": {"code": 400}}), "bad_request", False, True),
        (TimeoutError(), "timeout", False, False),
        (httpx.ReadTimeout("secret"), "timeout", False, False),
        (httpx.ConnectError("secret"), "connection", True, False),
        (httpx.RemoteProtocolError("secret"), "connection", True, False),
        (ConnectionResetError("secret"), "connection", True, False),
        (ModelConnectionError("secret"), "connection", True, False),
        (ModelRateLimitError("secret"), "rate_limited", True, False),
        (OutputParserException("secret"), "not_json", False, True),
        (NotImplementedError("secret"), "unsupported", False, True),
        (KeyError("secret"), "error", False, False),
        (RecursionError("secret"), "not_json", False, True),
    ],
)
def test_an_error_means(error, reason, retry, next_rung):
    """Proves: LOOP-8."""
    trouble = classify_error(error)
    assert (trouble.reason.value, trouble.retry, trouble.try_next_method) == (reason, retry, next_rung)
    assert "secret" not in trouble.failure.detail
    assert 0 < len(trouble.failure.detail) <= 200


def stumbled(reply, kind=TypeError):
    """Return the error of a client over a reply of HTTP 200, as langchain-openai raises it."""
    error = kind("'NoneType' object is not iterable")
    error.response = httpx.Response(200, **({"text": reply} if isinstance(reply, str) else {"json": reply}))
    return error


@pytest.mark.parametrize(
    ("error", "reason", "retry", "detail"),
    [
        (stumbled({"error": {"message": "secret", "code": 503}}), "server_error", True, ", code 503"),
        (stumbled({"error": {"message": "secret", "type": "overloaded_error"}}), "server_error", True, ""),
        (stumbled({"error": {"code": "model_not_found"}}), "bad_request", False, ", code model_not_found"),
        (stumbled({"error": {"code": "rate_limit_exceeded"}}), "rate_limited", True, ", code rate_limit_exceeded"),
        (stumbled({"error": {"code": "insufficient_quota"}}), "rate_limited", False, ", code insufficient_quota"),
        (stumbled({"error": {"code": "invalid_api_key"}}), "authentication", False, ", code invalid_api_key"),
        (stumbled({"error": "secret"}), "bad_request", False, ""),
        (stumbled({"object": "error", "message": "secret", "code": 400}), "bad_request", False, ", code 400"),
        (ValueError({"message": "secret", "code": 503}), "server_error", True, ", code 503"),
    ],
)
def test_an_error_in_a_reply_of_http_200_is_what_it_says(error, reason, retry, detail):
    """Its message may quote a prompt: the typed error has it, a failure's detail never. Proves: LOOP-8."""
    found = classify_error(error)
    assert (found.reason.value, found.retry) == (reason, retry)
    assert found.failure.detail == f"an error in a reply of HTTP 200{detail}"


def test_the_error_of_a_reply_carries_its_message():
    """Proves: LOOP-8."""
    assert str(reported_error(stumbled({"error": {"message": "no such model"}}))) == "no such model"
    for reply in ("<html>", {"choices": None, "error": None}, {"error": {}}, [1]):
        assert reported_error(stumbled(reply)) is None
    assert reported_error(ValueError({"choices": []})) is None


def test_a_detail_has_code_and_parameter_but_no_free_words():
    """Proves: LOOP-8."""
    told = classify_error(Vendor(400, code="unsupported_value", param="messages.[0].role"))
    assert told.failure.detail == "HTTP 400, code unsupported_value, param messages.[0].role"
    assert classify_error(Vendor(400, code="what the user said")).failure.detail == "HTTP 400"
    assert classify_error(Vendor(400, body={"error": {"param": "temperature"}})).parameter == "temperature"


def test_retry_after_is_seconds_or_a_date():
    """Proves: LOOP-8."""
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert classify_error(Vendor(429, {"Retry-After": "1.5"})).retry_after == 1.5
    assert classify_error(Vendor(503, {"retry-after": soon})).retry_after == pytest.approx(20, abs=2)
    assert classify_error(Vendor(429, {"Retry-After": "Fri, 01 Jan 2021 00:00:00 GMT"})).retry_after == 0.0
    assert classify_error(Vendor(429, {"Retry-After": "soon"})).retry_after is None
    assert classify_error(Vendor(429, {"Retry-After": "-3"})).retry_after == 0.0
    assert classify_error(Vendor(429)).retry_after is None
    for headers in (["Retry-After: 1"], {"retry-after": 7}, {"retry-after": ["1"]}, 3, "text"):
        error = Vendor(429)
        error.response = SimpleNamespace(headers=headers)
        assert (classify_error(error).reason.value, classify_error(error).retry_after) == ("rate_limited", None)


def test_the_breaker_gives_one_trial_after_the_cooldown():
    """Proves: LOOP-8."""
    endpoint = EndpointHealth()
    assert endpoint.admit(0.0, 5.0) is Admission.CLOSED
    endpoint.open_circuit(0.0, 30.0)
    assert endpoint.admit(29.9, 5.0) is Admission.OPEN
    assert endpoint.admit(30.0, 5.0) is Admission.HALF_OPEN
    assert endpoint.admit(30.0, 5.0) is Admission.OPEN
    endpoint.release_trial()
    assert endpoint.admit(30.0, 5.0) is Admission.HALF_OPEN
    endpoint.open_circuit(31.0, 30.0)
    assert endpoint.admit(60.9, 5.0) is Admission.OPEN
    assert endpoint.admit(61.0, 5.0) is Admission.HALF_OPEN
    endpoint.close_circuit()
    assert endpoint.admit(61.0, 5.0) is Admission.CLOSED


def test_two_calls_in_a_row_that_were_cut_short_open_the_circuit():
    """Proves: LOOP-8."""
    endpoint = EndpointHealth()
    assert not endpoint.record_short_timeout(0.0, 30.0, 0.5)
    endpoint.close_circuit()
    assert not endpoint.record_short_timeout(1.0, 30.0, 0.5)
    assert endpoint.admit(1.0, 0.5) is Admission.CLOSED
    assert endpoint.record_short_timeout(2.0, 30.0, 0.4)
    assert endpoint.admit(31.0, 1.0) is Admission.OPEN
    assert endpoint.admit(31.0, 1.1) is Admission.CLOSED, "more than twice the time that calls had"
    assert endpoint.admit(32.0, 0.5) is Admission.HALF_OPEN
    assert endpoint.record_short_timeout(33.0, 30.0, 0.5), "a trial cut short is the third in a row"
    assert endpoint.admit(62.0, 0.5) is Admission.OPEN
    endpoint.open_circuit(63.0, 30.0)
    assert endpoint.admit(64.0, 3600.0) is Admission.OPEN, "a whole timeout is a fault for all"


def test_rungs_are_remembered():
    """Proves: LOOP-8."""
    endpoint = EndpointHealth()
    assert endpoint.methods_to_try(LADDER) == LADDER
    endpoint.record_refusal("json_schema")
    endpoint.record_success("json_mode")
    assert endpoint.methods_to_try(LADDER) == ("json_mode", "function_calling", "prompt")
    endpoint.record_failure(frozenset(), frozenset({"json_mode", "function_calling", "prompt"}))
    assert endpoint.methods_to_try(LADDER) == ("prompt",)
    endpoint.record_success("prompt")
    assert endpoint.methods_to_try(LADDER) == ("prompt", "function_calling", "json_mode")


def test_refusing_everything_is_not_held_against_the_rungs():
    """Proves: LOOP-8."""
    endpoint = EndpointHealth()
    for rung in LADDER:
        endpoint.record_refusal(rung)
    endpoint.record_failure(frozenset(LADDER), frozenset(LADDER))
    assert endpoint.methods_to_try(LADDER) == ("prompt",)
    endpoint.record_success("prompt")
    assert endpoint.methods_to_try(LADDER) == LADDER


def test_parameters_are_adapted_once():
    """Proves: LOOP-8."""
    endpoint = EndpointHealth()
    assert endpoint.learn_quirk("temperature")
    assert not endpoint.learn_quirk("temperature")
    assert endpoint.learn_quirk("max_tokens")
    assert not endpoint.learn_quirk("max_completion_tokens")
    assert not endpoint.learn_quirk("messages")


def test_one_memory_for_each_endpoint_of_the_process():
    """Proves: LOOP-8."""
    first = shared_endpoint_health("a test's endpoint")
    assert shared_endpoint_health("a test's endpoint") is first
    shared_endpoint_health.cache_clear()
    assert shared_endpoint_health("a test's endpoint") is not first


def test_the_endpoints_that_are_remembered_are_bounded():
    """Proves: LOOP-8 (callers may name any number of models and addresses)."""
    shared_endpoint_health.cache_clear()
    kept, first = shared_endpoint_health("kept"), shared_endpoint_health("0")
    for number in range(1, 2 * MAX_ENDPOINTS):
        shared_endpoint_health(str(number))
        assert shared_endpoint_health("kept") is kept
    assert len(shared_endpoint_health.cache) == MAX_ENDPOINTS
    assert shared_endpoint_health("0") is not first
    shared_endpoint_health.cache_clear()


def test_usage_adds_up_and_limits_shrink():
    """Proves: LOOP-8."""
    used = Usage(1, 10, 0.5) + Usage(2, 20, 1.0)
    assert used == Usage(3, 30, 1.5)
    assert Limits(4, 100, 2.0).less(used) == Limits(1, 70, 0.5)
    assert Limits(1, 5, 1.0).less(used) == Limits(0, 0, 0.0)


def test_every_reason_is_its_lower_case_name():
    """Proves: LOOP-8."""
    assert all(reason.value == reason.name.lower() for reason in FailureReason)
