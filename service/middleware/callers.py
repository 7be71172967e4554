"""Authentication of callers: by API key or, without keys, by the connection from this machine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from recall_loop.service.access.api_keys import KeyRing, KeyRole, KeysUnreadableError
from recall_loop.service.core.config import is_loopback
from recall_loop.service.core.problems import RETRY_SECONDS, ProblemError
from recall_loop.service.middleware.dependencies import Caller

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from recall_loop.service.process.lifecycle import Service

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="recall-loop"'}
_SAME_SITE_VALUES = frozenset({"", "none", "same-origin"})
# A proxy on this machine adds these to what it passes on for others.
_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")
_log = logging.getLogger(__name__)


def authenticate_caller(service: Service, headers: Headers, client: tuple[str, int] | None, *, metrics: bool) -> Caller:
    """Return who calls.

    Args:
        service: the running service.
        headers: of the request.
        client: address and port of the other end; None on a Unix socket.
        metrics: whether the request is for /metrics, which needs its own role.

    Raises:
        ProblemError: 401 without a valid key; 403 with one of a wrong role, or where there are no keys and the
            request comes from elsewhere; 503 where the keys can't be read.
    """
    if service.keys is None:
        _check_local(service, headers, client)
        return Caller(service.settings.tenant, None, KeyRole.ADMIN)
    if metrics and service.config.open_metrics:
        return Caller("", "metrics", KeyRole.METRICS)
    caller = _caller_from_key(service.keys, headers.get("authorization", ""))
    if metrics != (caller.role is KeyRole.METRICS):
        raise ProblemError(403, f"A key with the role {KeyRole.METRICS.value} reads /metrics, and nothing else.")
    return caller


def _caller_from_key(keys: KeyRing, authorization: str) -> Caller:
    scheme, _, plain = authorization.partition(" ")
    try:
        key = keys.find(plain.strip()) if scheme.lower() == "bearer" else None
    except KeysUnreadableError as error:
        _log.error("%s", error)
        raise ProblemError(
            503, "The API keys can't be read at the moment.", kind="keys_unreadable", retry_after=RETRY_SECONDS
        ) from error
    if key is None:
        raise ProblemError(
            401, "No valid API key came with the request: `Authorization: Bearer rl_…`.", headers=_CHALLENGE
        )
    return Caller(key.tenant, key.id, key.role)


def is_local_client(headers: Headers, client: tuple[str, int] | None) -> bool:
    """Return whether the client is on this machine and names it so; a proxy on it passes on others' requests."""
    is_local = client is None or is_loopback(client[0])
    return is_local and not _is_proxied(headers) and _is_own_host(headers.get("host", ""), ())


def _is_proxied(headers: Headers) -> bool:
    return any(name in headers for name in _PROXY_HEADERS)


def _check_local(service: Service, headers: Headers, client: tuple[str, int] | None) -> None:
    """Without keys: accept this machine only, under its own names, and no page of another site in its browser."""
    elsewhere = client is not None and not is_loopback(client[0])
    if elsewhere or (_is_proxied(headers) and not service.config.allowed_hosts):
        raise ProblemError(403, "Without API keys the service answers its own machine only.", kind="not_local")
    if not _is_own_host(headers.get("host", ""), service.config.allowed_hosts):
        # A name that an attacker points at 127.0.0.1 (DNS rebinding) shows in this header.
        raise ProblemError(403, "The Host header names another machine than this one.", kind="foreign_host")
    origin = headers.get("origin")
    foreign = origin is not None and not _is_own_host(origin.partition("://")[2], service.config.allowed_hosts)
    if foreign or headers.get("sec-fetch-site", "") not in _SAME_SITE_VALUES:
        raise ProblemError(403, "The request comes from a page of another site.", kind="foreign_origin")


def _is_own_host(host: str, allowed: tuple[str, ...]) -> bool:
    name = host.strip().lower()
    name = name.partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return is_loopback(name) or name in {known.lower() for known in allowed}
