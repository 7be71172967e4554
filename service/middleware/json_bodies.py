"""JSON bodies in which a key comes twice are refused: which of the values was meant isn't for the service to guess."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from recall_loop.service.middleware.dependencies import JsonBody
from recall_loop.service.middleware.request_validation import CheckedQueryParams
from recall_loop.state.errors import InvalidInputError

_SHOWN_CHARACTERS = 200


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's pairs as a dictionary, for `json.loads`; a key that comes twice raises `InvalidInputError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        values = [value for name, value in pairs if name == twice]
        raise InvalidInputError(twice[:_SHOWN_CHARACTERS], values, "this key once in an object")
    return found


class _UniqueKeysRequest(Request):
    _parsed: Any

    async def json(self) -> Any:
        """Return the body as JSON."""
        if not hasattr(self, "_parsed"):
            self._parsed = json.loads(await self.body(), object_pairs_hook=unique_keys)
        return self._parsed


class UniqueKeysRoute(APIRoute):
    """A route whose body may name each key of an object only once."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(_UniqueKeysRequest(request.scope, request.receive))
            except HTTPException as error:  # FastAPI raises it for any failure to read a body
                if isinstance(error.__cause__, InvalidInputError):
                    raise error.__cause__ from None
                raise

        return handler


def json_router(prefix: str = "", *tags: str, route_class: type[APIRoute] = UniqueKeysRoute) -> APIRouter:
    """Return a router whose routes take JSON, and in their address only the parameters that they have."""
    return APIRouter(
        prefix=prefix, tags=list(tags), dependencies=[JsonBody, CheckedQueryParams], route_class=route_class
    )
