"""The inspector page at `/`: static files, which need no key and hold no data."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from recall_loop.service.core.config import PAGE_FILES
from recall_loop.state.display import CONFIDENCE_TEXTS, CONTENT_TYPE_TEXTS, STOP_REASON_TEXTS

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
# Nothing from elsewhere, nothing inline, no text turned into HTML by a script, no frame around the page.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # revalidated each time, and answered with 304 if unchanged
}


@cache
def _static_file(name: str) -> tuple[bytes, str]:
    """Return the bytes of a file, and their ETag."""
    body = _words() if name == "words.json" else files("recall_loop.service").joinpath("page", name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:24]}"'


def _words() -> bytes:
    """Return the words that every surface shares."""
    return json.dumps(
        {"stop": STOP_REASON_TEXTS, "content": CONTENT_TYPE_TEXTS, "confidence": CONFIDENCE_TEXTS}
    ).encode()


@router.get("/")
async def page(request: Request) -> Response:
    """Return the page."""
    return _file_response(request, "index.html")


@router.get("/page/{name}")
async def page_file(request: Request, name: str) -> Response:
    """Return one of the page's files."""
    if name not in PAGE_FILES:
        raise HTTPException(404)
    return _file_response(request, name)


def _file_response(request: Request, name: str) -> Response:
    body, etag = _static_file(name)
    headers = {**_HEADERS, "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)
