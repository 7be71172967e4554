"""What errors of models mean, and what an endpoint's memory makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import httpx
import pytest
from langchain_core.exceptions import ModelConnectionError, ModelRateLimitError, OutputParserException

from recall_loop.llm.endpoint import circuit_breaker
from recall_loop.llm.endpoint.call_limits import Limits, Usage
from recall_loop.llm.endpoint.circuit_breaker import (
    MOST_ENDPOINTS,
    Admission,
    Endpoint,
    endpoint_memory,
    forget_endpoints,
)
from recall_loop.llm.endpoint.failures import FailureReason, classify

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
    trouble = classify(error)
    assert (trouble.reason.value, trouble.retry, trouble.next_rung) == (reason, retry, next_rung)
    assert "secret" not in trouble.failure.detail
    assert 0 < len(trouble.failure.detail) <= 200


def test_a_detail_has_code_and_parameter_but_no_free_words():
    """Proves: LOOP-8."""
    told = classify(Vendor(400, code="unsupported_value", param="messages.[0].role"))
    assert told.failure.detail == "HTTP 400, code unsupported_value, param messages.[0].role"
    assert classify(Vendor(400, code="what the user said")).failure.detail == "HTTP 400"
    assert classify(Vendor(400, body={"error": {"param": "temperature"}})).parameter == "temperature"


def test_retry_after_is_seconds_or_a_date():
    """Proves: LOOP-8."""
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert classify(Vendor(429, {"Retry-After": "1.5"})).retry_after == 1.5
    assert classify(Vendor(503, {"retry-after": soon})).retry_after == pytest.approx(20, abs=2)
    assert classify(Vendor(429, {"Retry-After": "Fri, 01 Jan 2021 00:00:00 GMT"})).retry_after == 0.0
    assert classify(Vendor(429, {"Retry-After": "soon"})).retry_after is None
    assert classify(Vendor(429, {"Retry-After": "-3"})).retry_after == 0.0
    assert classify(Vendor(429)).retry_after is None
    for headers in (["Retry-After: 1"], {"retry-after": 7}, {"retry-after": ["1"]}, 3, "text"):
        error = Vendor(429)
        error.response = SimpleNamespace(headers=headers)
        assert (classify(error).reason.value, classify(error).retry_after) == ("rate_limited", None)


def test_the_breaker_gives_one_trial_after_the_cooldown():
    """Proves: LOOP-8."""
    endpoint = Endpoint()
    assert endpoint.admit(0.0, 5.0) is Admission.CLOSED
    endpoint.trip(0.0, 30.0)
    assert endpoint.admit(29.9, 5.0) is Admission.OPEN
    assert endpoint.admit(30.0, 5.0) is Admission.TRIAL
    assert endpoint.admit(30.0, 5.0) is Admission.OPEN
    endpoint.give_back()
    assert endpoint.admit(30.0, 5.0) is Admission.TRIAL
    endpoint.trip(31.0, 30.0)
    assert endpoint.admit(60.9, 5.0) is Admission.OPEN
    assert endpoint.admit(61.0, 5.0) is Admission.TRIAL
    endpoint.answered()
    assert endpoint.admit(61.0, 5.0) is Admission.CLOSED


def test_two_calls_in_a_row_that_were_cut_short_open_the_circuit():
    """Proves: LOOP-8."""
    endpoint = Endpoint()
    assert not endpoint.cut_short(0.0, 30.0, 0.5)
    endpoint.answered()
    assert not endpoint.cut_short(1.0, 30.0, 0.5)
    assert endpoint.admit(1.0, 0.5) is Admission.CLOSED
    assert endpoint.cut_short(2.0, 30.0, 0.4)
    assert endpoint.admit(31.0, 1.0) is Admission.OPEN
    assert endpoint.admit(31.0, 1.1) is Admission.CLOSED, "more than twice the time that calls had"
    assert endpoint.admit(32.0, 0.5) is Admission.TRIAL
    assert endpoint.cut_short(33.0, 30.0, 0.5), "a trial cut short is the third in a row"
    assert endpoint.admit(62.0, 0.5) is Admission.OPEN
    endpoint.trip(63.0, 30.0)
    assert endpoint.admit(64.0, 3600.0) is Admission.OPEN, "a whole timeout is a fault for all"


def test_rungs_are_remembered():
    """Proves: LOOP-8."""
    endpoint = Endpoint()
    assert endpoint.plan(LADDER) == LADDER
    endpoint.refuses("json_schema")
    endpoint.works("json_mode")
    assert endpoint.plan(LADDER) == ("json_mode", "function_calling", "prompt")
    endpoint.fails(frozenset(), frozenset({"json_mode", "function_calling", "prompt"}))
    assert endpoint.plan(LADDER) == ("prompt",)
    endpoint.works("prompt")
    assert endpoint.plan(LADDER) == ("prompt", "function_calling", "json_mode")


def test_refusing_everything_is_not_held_against_the_rungs():
    """Proves: LOOP-8."""
    endpoint = Endpoint()
    for rung in LADDER:
        endpoint.refuses(rung)
    endpoint.fails(frozenset(LADDER), frozenset(LADDER))
    assert endpoint.plan(LADDER) == ("prompt",)
    endpoint.works("prompt")
    assert endpoint.plan(LADDER) == LADDER


def test_parameters_are_adapted_once():
    """Proves: LOOP-8."""
    endpoint = Endpoint()
    assert endpoint.adapt("temperature")
    assert not endpoint.adapt("temperature")
    assert endpoint.adapt("max_tokens")
    assert not endpoint.adapt("max_completion_tokens")
    assert not endpoint.adapt("messages")


def test_one_memory_for_each_endpoint_of_the_process():
    """Proves: LOOP-8."""
    first = endpoint_memory("a test's endpoint")
    assert endpoint_memory("a test's endpoint") is first
    forget_endpoints()
    assert endpoint_memory("a test's endpoint") is not first


def test_the_endpoints_that_are_remembered_are_bounded():
    """Proves: LOOP-8 (callers may name any number of models and addresses)."""
    forget_endpoints()
    kept, first = endpoint_memory("kept"), endpoint_memory("0")
    for number in range(1, 2 * MOST_ENDPOINTS):
        endpoint_memory(str(number))
        assert endpoint_memory("kept") is kept
    assert len(circuit_breaker._known) == MOST_ENDPOINTS
    assert endpoint_memory("0") is not first
    forget_endpoints()


def test_usage_adds_up_and_limits_shrink():
    """Proves: LOOP-8."""
    used = Usage(1, 10, 0.5) + Usage(2, 20, 1.0)
    assert used == Usage(3, 30, 1.5)
    assert Limits(4, 100, 2.0).less(used) == Limits(1, 70, 0.5)
    assert Limits(1, 5, 1.0).less(used) == Limits(0, 0, 0.0)


def test_every_reason_is_its_lower_case_name():
    """Proves: LOOP-8."""
    assert all(reason.value == reason.name.lower() for reason in FailureReason)
