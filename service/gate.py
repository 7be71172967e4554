"""The gate that every request passes: an id, who calls, its time, and errors as problem documents."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from recall_loop.service.deps import Caller, Role
from recall_loop.service.problems import MEDIA_TYPE, plain_problem, problem_of, problem_response
from recall_loop.service.work import working

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from recall_loop.service.running import Service

_log = logging.getLogger(__name__)


class Gate:
    """Pure ASGI: nothing is buffered, and a stream's events go out as they come."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan events go through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        reply = _Reply(send, request_id)
        try:
            state["caller"] = Caller(self.service.settings.tenant, None, Role.ADMIN)
            with working(self.service.work(self.service.config.timeout_seconds)):
                await self.app(scope, receive, reply.send)
        except Exception as error:
            if reply.started:
                raise
            problem = problem_of(error)
            if problem.status == 500:
                _log.exception("request %s failed", request_id)
            await problem_response(problem, request_id)(scope, receive, reply.send)


class _Reply:
    """A response on its way: it gets the request's id, and an error that isn't a problem document becomes one."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self._replaced = False
        self.started = False
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a message on."""
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            headers = [*message.get("headers", []), (b"x-request-id", self._request_id.encode())]
            message = {**message, "headers": headers}
            media = next((value for name, value in headers if name.lower() == b"content-type"), b"")
            if self.status >= 400 and not media.startswith(MEDIA_TYPE.encode()):
                self._replaced = True
                await self._replace()
                return
        if not self._replaced:
            await self._send(message)

    async def _replace(self) -> None:
        body = problem_response(plain_problem(self.status), self._request_id)
        headers = [*body.raw_headers, (b"x-request-id", self._request_id.encode())]
        await self._send({"type": "http.response.start", "status": self.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body.body})
