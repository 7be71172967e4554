"""Doors to models that are no OpenAI: langchain's fakes, foreign errors, other makes of structured output."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest
from langchain_core.language_models import (
    BaseChatModel,
    FakeListChatModel,
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, Field

from recall_loop.llm.client import ChatClient, chat_model, make_chat_client
from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.llm.endpoint.failures import FailureReason
from recall_loop.llm.endpoint.wrapped_models import BoundModel
from recall_loop.llm.structured.call_bounds import call_bounds
from recall_loop.llm.structured.output_methods import endpoint_name
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings

PLENTY = Limits(calls=100, tokens=1_000_000, seconds=60.0)
PROMPT = RenderedPrompt("plan", "1", "You plan.", "secret question")


class Plan(BaseModel):
    """Searches to make."""

    queries: list[str]


JSON = '{"queries": ["a"]}'


class Scripted(BaseChatModel):
    """A model that does what its function does, without streams or an asynchronous way."""

    act: object
    bound: list = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.bound.append(kwargs)
        return ChatResult(generations=[ChatGeneration(message=self.act(messages))])


@pytest.fixture
def ask():
    def asked(client, limits=PLENTY, on_text=None):
        return client.ask(PROMPT, Plan, limits, on_text)

    return asked


@pytest.mark.parametrize(
    "make",
    [
        lambda: FakeListChatModel(responses=[JSON]),
        lambda: GenericFakeChatModel(messages=iter([AIMessage(JSON)])),
        lambda: FakeMessagesListChatModel(responses=[AIMessage(JSON)]),
        lambda: Scripted(act=lambda messages: AIMessage(JSON)),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_without_structured_output_is_asked_by_prompt(ask, make, streamed):
    """Proves: LOOP-8."""
    heard = []
    reply = ask(ChatClient(make()), on_text=heard.append if streamed else None)
    assert (reply.value, reply.method, reply.usage.calls) == (Plan(queries=["a"]), "prompt", 1)
    assert reply.usage.tokens > 20
    assert heard[-1:] == ([JSON] if streamed else [])


def test_the_schema_is_in_the_prompt_once():
    """Proves: LOOP-8."""
    seen = []

    def act(messages):
        seen.append(messages[0].content)
        return AIMessage(JSON)

    client = ChatClient(Scripted(act=act))
    client.ask(PROMPT, Plan, PLENTY)
    client.ask(RenderedPrompt("plan", "1", 'Follow {"title": "Plan", "properties": {}}', "x"), Plan, PLENTY)
    assert [text.count('"properties"') for text in seen] == [1, 1]
    assert seen[0].startswith("You plan.\n\nAnswer with one JSON object")


def test_a_foreign_error_is_a_failure_without_its_words(ask, caplog):
    """Proves: LOOP-8."""

    class VendorError(Exception):
        pass

    def act(messages):
        raise VendorError("secret question was bad")

    with caplog.at_level(logging.DEBUG, logger="recall_loop"):
        reply = ask(ChatClient(Scripted(act=act)))
    assert (reply.failure.reason, reply.attempts) == (FailureReason.ERROR, (("prompt", "error"),))
    assert reply.failure.detail == "the model's client failed"
    assert [record.error_type for record in caplog.records if hasattr(record, "error_type")] == ["VendorError"]
    assert "secret" not in reply.failure.detail + caplog.text


class Rude(Exception):
    """An error of which nothing can be read."""

    def __str__(self):
        raise LookupError("secret question")

    __repr__ = __str__


class Ruder(Rude):
    @property
    def status_code(self):
        raise LookupError("secret question")


class Bad(Rude):
    status_code = 400


@pytest.mark.parametrize("error", [Rude(), Ruder(), Bad(), RuntimeError(Rude())])
def test_an_error_that_cannot_be_read_is_a_failure(ask, error):
    """Proves: LOOP-8."""

    def act(messages):
        raise error

    reply = ask(ChatClient(Scripted(act=act)))
    assert (reply.failure.reason, reply.usage.calls) == (FailureReason.ERROR, 1)
    assert "secret" not in reply.failure.detail


def test_a_reply_that_cannot_be_read_is_a_failure(ask):
    """Proves: LOOP-8."""

    class Own(Scripted):
        def with_structured_output(self, schema, *, include_raw=False):
            return RunnableLambda(lambda messages: AIMessage.model_construct(content=7, response_metadata=None))

    reply = ask(ChatClient(Own(act=None)))
    assert (reply.failure.reason, reply.attempts) == (FailureReason.ERROR, (("native", "error"),))
    assert reply.usage.tokens > 0


def test_a_model_that_cannot_be_prepared_is_a_failure(ask):
    """Proves: LOOP-8."""

    class Unready(Scripted):
        def with_structured_output(self, schema, **options):
            raise ImportError("secret question")

    reply = ask(ChatClient(Unready(act=None)))
    assert (reply.failure.reason, reply.usage.calls) == (FailureReason.ERROR, 0)
    assert "secret" not in reply.failure.detail


def test_a_system_without_threads_left_is_a_failure(ask, monkeypatch):
    """Proves: LOOP-8."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    client = ChatClient(Scripted(act=None))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert ask(client).failure.reason is FailureReason.ERROR


@pytest.mark.parametrize("total", [0, -5, True, 3.5, "7", None, [1]])
def test_odd_counts_of_tokens_are_estimated(ask, total):
    """Proves: LOOP-8."""

    def act(messages):
        message = AIMessage(JSON)
        message.usage_metadata = {"total_tokens": total}
        return message

    reply = ask(ChatClient(Scripted(act=act)))
    assert reply.value is not None
    assert 20 < reply.usage.tokens < 500


def test_a_thread_that_dies_is_a_failure(ask, monkeypatch):
    """Proves: LOOP-8 (what isn't even an Exception)."""
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda args: died.set())

    def act(messages):
        raise SystemExit(3)

    reply = ask(ChatClient(Scripted(act=act)), limits=Limits(1, 10**6, 60))
    assert died.wait(10)
    assert reply.failure is not None
    assert reply.usage.calls == 1


@pytest.mark.timeout(60)
def test_a_blocking_model_does_not_hang_the_ask(ask):
    """Proves: LOOP-8."""
    go = threading.Event()
    client = ChatClient(Scripted(act=lambda messages: AIMessage(JSON) if go.wait(300) else None), timeout_seconds=0.2)
    try:
        assert ask(client).failure.reason is FailureReason.TIMEOUT
        assert ask(client).failure.reason is FailureReason.CIRCUIT_OPEN
    finally:
        go.set()


def test_langchains_own_structured_output_is_the_native_rung(ask):
    """Proves: LOOP-8."""

    class WithTools(Scripted):
        def bind_tools(self, tools, **kwargs):
            return self.bind(tools=tools)

    call = {"name": "Plan", "args": {"queries": ["a"]}, "id": "1"}
    model = WithTools(act=lambda messages: AIMessage("", tool_calls=[call]))
    reply = ask(ChatClient(model))
    assert (reply.value, reply.method) == (Plan(queries=["a"]), "native")


@pytest.mark.parametrize("result", [Plan(queries=["a"]), {"queries": ["a"]}, {"raw": AIMessage(JSON), "parsed": None}])
def test_other_makes_of_structured_output_are_taken_as_they_come(ask, result):
    """Proves: LOOP-8."""

    class Own(Scripted):
        def with_structured_output(self, schema, *, include_raw=False):
            return RunnableLambda(lambda messages: result)

    heard = []
    reply = ask(ChatClient(Own(act=None)), on_text=heard.append)
    assert (reply.value, reply.method) == (Plan(queries=["a"]), "native")
    assert heard == ['{"queries":["a"]}']


def test_methods_that_a_model_lacks_are_skipped_without_a_call(ask):
    """Proves: LOOP-8."""

    class Picky(Scripted):
        def with_structured_output(self, schema, *, method="json_mode", include_raw=False):
            if method != "json_mode":
                raise ValueError(method)
            return RunnableLambda(lambda messages: None)

    reply = ask(ChatClient(Picky(act=lambda messages: AIMessage(JSON))))
    assert reply.attempts == (("json_mode", "empty"), ("prompt", "ok"))


def test_anonymous_models_share_no_memory():
    """Proves: LOOP-8."""
    first, second = (ChatClient(FakeListChatModel(responses=["no"])) for _ in range(2))
    assert first.endpoint != second.endpoint
    assert first.name == "FakeListChatModel"


def test_the_settings_make_the_model_and_the_door():
    """Proves: LOOP-8, OPS-2."""
    settings = Settings(llm_model="m", llm_base_url="http://127.0.0.1:9/v1", llm_temperature=0.1)
    model = chat_model(settings)
    assert (model.model_name, model.openai_api_base, model.temperature, model.max_retries) == (
        "m",
        "http://127.0.0.1:9/v1",
        0.1,
        0,
    )
    assert model.openai_api_key.get_secret_value() == "none"
    assert make_chat_client(settings).name == "m"
    keyed = chat_model(Settings(llm_model="m", llm_base_url="http://127.0.0.1:9/v1", llm_api_key="sesame"))
    assert "sesame" not in endpoint_name(BoundModel(keyed))
    assert endpoint_name(BoundModel(keyed)) != endpoint_name(BoundModel(model))
    assert endpoint_name(BoundModel(chat_model(settings))) == endpoint_name(BoundModel(model))
    assert make_chat_client(Settings(), FakeListChatModel(responses=["x"])).name == "FakeListChatModel"


@pytest.mark.parametrize(
    ("url", "own"),
    [
        (None, True),
        ("", True),
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1/", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com.example/v1", False),
        ("https://api.openai.com@example.org/v1", False),
        ("https://api.openai.com\\@example.org/v1", False),
        ("https://example.org/https://api.openai.com/v1", False),
        ("https://api.openai.com:444/v1", False),
    ],
)
def test_the_environments_key_is_for_openais_own_address(monkeypatch, url, own):
    """Proves: OPS-2."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    for given, key in ((None, "secret" if own else "none"), ("sesame", "sesame")):
        model = chat_model(Settings(llm_model="m", llm_base_url=url, llm_api_key=given))
        assert model.openai_api_key.get_secret_value() == key
        assert {model.root_client.organization, model.root_async_client.organization} == {"org" if own else None}


def test_missing_settings_are_named():
    """Proves: OPS-2."""
    with pytest.raises(InvalidInputError, match="llm_model"):
        make_chat_client(Settings())
    with pytest.raises(InvalidInputError, match="llm_api_key"):
        chat_model(Settings(llm_model="m"))
    for url in ("https://api.openai.com/v1\n", "http://[::1", "http://x:y"):
        with pytest.raises(InvalidInputError, match="llm_base_url"):
            chat_model(Settings(llm_model="m", llm_base_url=url))


def test_a_models_own_smaller_bound_stays():
    """Proves: LOOP-8."""
    model = chat_model(Settings(llm_model="m", llm_api_key="x"))
    assert call_bounds(BoundModel(model), frozenset(), 800, 2.0) == {"max_completion_tokens": 800, "timeout": 2.0}
    smaller = model.model_copy(update={"max_tokens": 50})
    assert call_bounds(BoundModel(smaller), frozenset(), 800, 2.0)["max_completion_tokens"] == 50
    assert call_bounds(BoundModel(FakeListChatModel(responses=["x"])), frozenset(), 800, 2.0) == {}


def test_the_door_is_light_until_a_model_is_made():
    """Proves: LOOP-8 (nothing of a vendor is loaded without a model)."""
    code = (
        "import sys, recall_loop.llm.client, recall_loop.llm.client\n"
        "print([name for name in ('langchain_openai', 'openai', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip().startswith("[")
    assert "openai" not in done.stdout
