"""An endpoint on loopback for chat and embeddings, which speaks OpenAI's protocol well or badly, for tests.

    with ChatEndpoint(lambda asked: {"queries": ["who leads Atlas"]}) as endpoint:
        graph = build_graph(llm=endpoint.model())
        ...
        assert endpoint.asked[0].rung == "json_schema"

The answer function is called in a thread of the server, once for each request that is answered properly; what it
raises is raised again when the `with` block ends. Each endpoint has an address of its own that is never used again in
the process, so that what a door remembers of one test's endpoint can't reach the next test.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.embedders import WordHashEmbedder
from tests.ports import free_port

_NUMBERS = itertools.count(1)
MODEL = "test-model"


class Behaviour(StrEnum):
    """How the endpoint treats requests."""

    GOOD = "good"
    REJECTS_FORMAT = "rejects_format"  # 400 on response_format; tools work
    REJECTS_ALL_FORMATS = "rejects_all_formats"  # 400 on response_format and on tools
    IGNORES_FORMAT = "ignores_format"  # prose with fenced JSON inside, whatever was asked
    TRUNCATES = "truncates"  # finish_reason length, half the JSON
    REFUSES = "refuses"  # message.refusal
    PROSE = "prose"  # no JSON at all
    WRONG_JSON = "wrong_json"  # JSON of another shape
    EMPTY = "empty"  # content null
    RATE_LIMITED = "rate_limited"  # 429 with Retry-After
    RATE_LIMITED_ONCE = "rate_limited_once"
    HANGS = "hangs"  # accepts, and never answers
    TRICKLES = "trickles"  # one byte a second
    DROPS = "drops"  # closes the connection in the middle of the reply
    NO_STREAM = "no_stream"  # plain JSON, also where a stream is asked for
    NO_CHOICES = "no_choices"  # an empty list of choices
    HTML = "html"  # 200 with a web page, as a proxy's login page
    SERVER_ERROR = "server_error"  # 500
    DEAD = "dead"  # nobody listens


@dataclass(frozen=True)
class RecordedRequest:
    """One request as the server got it; `number` counts from 1, and `schema` is the title of the asked-for schema.

    `headers` have lower-case names.
    """

    body: dict[str, Any]
    rung: str
    schema: str | None
    system: str
    user: str
    number: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RawReply:
    """A reply that is sent as it is, not wrapped as the request's form wants it.

    `content` is the message's text. A `status` other than 200 sends `error` as OpenAI's error object, for example
    `RawReply(status=400, error={"message": "no temperature", "param": "temperature"})`. `delay` is in seconds.
    """

    content: str | None = None
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    finish: str = "stop"
    refusal: str | None = None
    delay: float = 0.0


@dataclass(frozen=True)
class ToolReply:
    """A reply by a call of the offered tool, its arguments as text."""

    name: str
    arguments: str
    finish: str = "stop"


ReplyFunction = Callable[[RecordedRequest], Any]
_PROSE = "I would be glad to help you with that, but first tell me more about it."


class ChatEndpoint:
    """The server, running between `with` and its end; ending never waits for requests that hang.

    `behaviour` may be changed at any time. `retry_after` is the header of a 429, and `piece_seconds` the pause between
    two pieces of a streamed reply; the last half of the pieces waits for the event `held`. `embeds` is how requests for
    embeddings are treated: `GOOD`, `SERVER_ERROR` (503), `HANGS`, or `TRUNCATES` (a vector too few).
    """

    def __init__(
        self,
        answer: ReplyFunction,
        behaviour: Behaviour = Behaviour.GOOD,
        *,
        retry_after: str = "1",
        piece_seconds: float = 0.0,
        trickle_seconds: float = 1.0,
        held: threading.Event | None = None,
    ) -> None:
        self.answer = answer
        self.behaviour = behaviour
        self.embeds = Behaviour.GOOD
        self.retry_after = retry_after
        self.piece_seconds = piece_seconds
        self.trickle_seconds = trickle_seconds
        self.held = held
        self.asked: list[RecordedRequest] = []
        self.embedded: list[dict[str, Any]] = []
        self.errors: list[Exception] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._path = f"/endpoint-{next(_NUMBERS)}/v1"
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL, which ends in /v1."""
        return f"http://127.0.0.1:{self._port}{self._path}"

    def __enter__(self) -> ChatEndpoint:
        if self.behaviour is Behaviour.DEAD:
            self._port = free_port()
            return self
        self._server = _Server(self)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self.errors and kind is None:
            raise self.errors[0]

    def model(self, **values: Any) -> Any:
        """Return a ChatOpenAI for this endpoint, without retries of its own."""
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(**{"model": MODEL, "base_url": self.url, "api_key": "x", "max_retries": 0} | values)

    def count(self, rung: str | None = None) -> int:
        """Return how many chat requests came, of one rung or of all."""
        with self._lock:
            return sum(rung in (None, asked.rung) for asked in self.asked)

    def record(self, body: dict[str, Any], headers: dict[str, str]) -> RecordedRequest:
        """Note a request."""
        texts = {str(message["role"]): _text(message.get("content")) for message in body.get("messages", [])}
        system, user = texts.get("system", texts.get("developer", "")), texts.get("user", "")
        rung, schema = _form(body)
        with self._lock:
            asked = RecordedRequest(
                body, rung, schema or _title_in(system + user), system, user, len(self.asked) + 1, headers
            )
            self.asked.append(asked)
        return asked

    def reply(self, asked: RecordedRequest) -> RawReply | ToolReply:
        """Return what to say to a request, whichever way the bytes then go."""
        fixed = {
            Behaviour.REFUSES: RawReply(refusal="I can't help with that."),
            Behaviour.PROSE: RawReply(_PROSE),
            Behaviour.EMPTY: RawReply(None),
            Behaviour.SERVER_ERROR: RawReply(status=500, error={"message": "the server had an error"}),
            Behaviour.RATE_LIMITED: self._limited(),
        }
        if self.behaviour in fixed:
            return fixed[self.behaviour]
        if self.behaviour is Behaviour.RATE_LIMITED_ONCE and asked.number == 1:
            return self._limited()
        if self._rejects(asked):
            return RawReply(
                status=400, error={"message": "this form is not supported", "type": "invalid_request_error"}
            )
        answer = {"unexpected": [1, 2]} if self.behaviour is Behaviour.WRONG_JSON else self.answer(asked)
        return answer if isinstance(answer, RawReply | ToolReply) else self._wrapped(asked, json.dumps(answer))

    def _limited(self) -> RawReply:
        return RawReply(status=429, error={"message": "slow down"}, headers={"Retry-After": self.retry_after})

    def _rejects(self, asked: RecordedRequest) -> bool:
        if self.behaviour is Behaviour.REJECTS_ALL_FORMATS:
            return asked.rung != "prompt"
        return self.behaviour is Behaviour.REJECTS_FORMAT and "response_format" in asked.body

    def _wrapped(self, asked: RecordedRequest, text: str) -> RawReply | ToolReply:
        """Return JSON text in the form that the request wants."""
        if self.behaviour is Behaviour.IGNORES_FORMAT:
            return RawReply(
                f"Of course! Here is what you asked for:\n\n```json\n{text}\n```\n\nTell me if {{this}} helps."
            )
        finish = "stop"
        if self.behaviour is Behaviour.TRUNCATES:
            text, finish = text[: len(text) // 2], "length"
        if asked.rung == "function_calling":
            return ToolReply(str(asked.body["tools"][0]["function"]["name"]), text, finish)
        return RawReply(text, finish=finish)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that gave up close their end while the reply is written."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "tests"}]
        self._send(200, json.dumps({"object": "list", "data": models}).encode())

    def do_POST(self) -> None:
        endpoint = self.server.endpoint
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            endpoint.embedded.append({name.lower(): value for name, value in self.headers.items()} | body)
            self._embed(_embeddings(body))
            return
        asked = endpoint.record(body, {name.lower(): value for name, value in self.headers.items()})
        behaviour = endpoint.behaviour
        if behaviour is Behaviour.HANGS:
            endpoint.stopping.wait()
            self.close_connection = True
            return
        if behaviour is Behaviour.HTML:
            self._send(200, b"<!doctype html><title>Log in</title><p>Please log in.", kind="text/html")
            return
        try:
            reply = endpoint.reply(asked)
        except Exception as error:  # noqa: BLE001 - raised again at the end of the test
            endpoint.errors.append(error)
            reply = RawReply(status=500, error={"message": "the test's answer function failed"})
        self._answer(asked, reply)

    def _embed(self, reply: dict[str, Any]) -> None:
        endpoint = self.server.endpoint
        if endpoint.embeds is Behaviour.HANGS:
            endpoint.stopping.wait()
            self.close_connection = True
        elif endpoint.embeds is Behaviour.SERVER_ERROR:
            self._send(503, json.dumps({"error": {"message": "the model is being loaded"}}).encode())
        else:
            reply["data"] = reply["data"][: -1 if endpoint.embeds is Behaviour.TRUNCATES else None]
            self._send(200, json.dumps(reply).encode())

    def _answer(self, asked: RecordedRequest, reply: RawReply | ToolReply) -> None:
        if isinstance(reply, RawReply):
            self.server.endpoint.stopping.wait(reply.delay)
            if reply.status != 200:
                self._send(reply.status, json.dumps({"error": reply.error}).encode(), headers=reply.headers)
                return
        behaviour = self.server.endpoint.behaviour
        if asked.body.get("stream") and behaviour not in (Behaviour.NO_STREAM, Behaviour.NO_CHOICES):
            self._stream(list(_events(asked, reply)))
            return
        completion = _completion(asked, reply)
        if behaviour is Behaviour.NO_CHOICES:
            completion["choices"] = []
        self._send(200, json.dumps(completion).encode())

    def _send(
        self, status: int, body: bytes, *, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self._end_headers()
        self._body(body)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self._end_headers()
        endpoint = self.server.endpoint
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        if endpoint.behaviour is Behaviour.DROPS:
            lines = lines[: len(lines) // 2]
        for number, line in enumerate(lines):
            if endpoint.held is not None and number == len(lines) // 2:
                endpoint.held.wait(30)
            self._body(b"%x\r\n%b\r\n" % (len(line), line.encode()))
            if endpoint.piece_seconds and endpoint.stopping.wait(endpoint.piece_seconds):
                return
        if endpoint.behaviour is not Behaviour.DROPS:
            self.wfile.write(b"0\r\n\r\n")

    def _end_headers(self) -> None:
        # Each reply ends its connection: no thread of the server outlives the test in a read.
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _body(self, body: bytes) -> None:
        endpoint = self.server.endpoint
        if endpoint.behaviour is Behaviour.DROPS and not body[:8].strip(b"0123456789abcdef").startswith(b"\r\n"):
            body = body[: len(body) // 2]
        if endpoint.behaviour is not Behaviour.TRICKLES:
            self.wfile.write(body)
            return
        for at in range(len(body)):
            self.wfile.write(body[at : at + 1])
            self.wfile.flush()
            if endpoint.stopping.wait(endpoint.trickle_seconds):
                return


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Return vectors that are near where words are shared; in base64 where the client wants them so."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = WordHashEmbedder().embed_documents(texts)
    encoded = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(vector.tobytes()).decode() if encoded else vector.tolist(),
        }
        for at, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def _form(body: dict[str, Any]) -> tuple[str, str | None]:
    """Return the rung that a request stands on, and the title of its schema where the form names it."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return "json_schema", form["json_schema"]["name"]
    if body.get("tools"):
        return "function_calling", body["tools"][0]["function"]["name"]
    return ("json_mode" if form.get("type") == "json_object" else "prompt"), None


def _title_in(text: str) -> str | None:
    """Return the title of the JSON schema that stands in a prompt."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except ValueError:
            found = None
        if isinstance(found, dict) and "properties" in found and isinstance(found.get("title"), str):
            return str(found["title"])
        at = text.find("{", at + 1)
    return None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content)
    return str(content or "")


def _usage(asked: RecordedRequest, text: str) -> dict[str, int]:
    read, written = math.ceil(len(asked.system + asked.user) / 4), math.ceil(len(text) / 4)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _message(asked: RecordedRequest, reply: RawReply | ToolReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if isinstance(reply, RawReply):
        return message | {"content": reply.content, "refusal": reply.refusal}
    call = {"name": reply.name, "arguments": reply.arguments}
    return message | {"tool_calls": [{"id": f"call_{asked.number}", "type": "function", "function": call}]}


def _head(asked: RecordedRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chat-{asked.number}", "object": kind, "created": int(time.time()), "model": MODEL}


def _completion(asked: RecordedRequest, reply: RawReply | ToolReply) -> dict[str, Any]:
    text = (reply.content or "") if isinstance(reply, RawReply) else reply.arguments
    choice = {"index": 0, "message": _message(asked, reply), "finish_reason": reply.finish, "logprobs": None}
    return _head(asked, "chat.completion") | {"choices": [choice], "usage": _usage(asked, text)}


def _deltas(asked: RecordedRequest, reply: RawReply | ToolReply) -> Iterator[dict[str, Any]]:
    """Yield the message in pieces."""
    text = (reply.content or "") if isinstance(reply, RawReply) else reply.arguments
    width = max(1, math.ceil(len(text) / 8))
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    if isinstance(reply, ToolReply):
        call = {"index": 0, "id": f"call_{asked.number}", "type": "function"}
        yield {"role": "assistant", "tool_calls": [call | {"function": {"name": reply.name, "arguments": ""}}]}
        for piece in pieces:
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        return
    yield {"role": "assistant", "content": ""}
    if reply.refusal:
        yield {"refusal": reply.refusal}
    for piece in pieces:
        yield {"content": piece}


def _events(asked: RecordedRequest, reply: RawReply | ToolReply) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed reply."""
    head = _head(asked, "chat.completion.chunk")
    for delta in _deltas(asked, reply):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]}
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        text = (reply.content or "") if isinstance(reply, RawReply) else reply.arguments
        yield head | {"choices": [], "usage": _usage(asked, text)}
