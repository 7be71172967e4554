"""Whether a request names this machine, and comes from it: the headers Host, Origin and those of proxies (GUARD-7)."""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.datastructures import Headers

from recall_loop.service.core.config import is_loopback
from recall_loop.service.core.problems import ProblemError

Client = tuple[str, int] | None
_SAME_SITE_VALUES = frozenset({"", "none", "same-origin"})
# A proxy on this machine adds these to forwarded requests.
_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")
# With two of them, a proxy may have checked one while the service checks the other.
_SINGLE_HEADERS = ("host", "authorization", "origin")
# Without user and password, which would make `localhost:80@elsewhere` look like localhost.
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HostAddress(NamedTuple):
    """A name or address in lower case, IPv6 without brackets, and the port if one is given."""

    name: str
    port: int | None


def check_headers(headers: Headers) -> None:
    """Raise `ProblemError` (400) where one of these headers occurs twice, or the host isn't NAME or NAME:PORT."""
    for name in _SINGLE_HEADERS:
        if len(headers.getlist(name)) > 1:
            raise ProblemError(400, f"The header {name.title()} occurs more than once.", kind="duplicate_header")
    if headers.get("host") and _host_address(headers["host"]) is None:
        raise ProblemError(400, "The Host header isn't NAME or NAME:PORT.", kind="invalid_host")


def is_local_client(headers: Headers, client: Client) -> bool:
    """Return whether the client is on this machine and names it so; a proxy on it passes on others' requests."""
    is_local = client is None or is_loopback(client[0])
    return is_local and not _is_proxied(headers) and _is_own_host(headers, ())


def check_local(headers: Headers, client: Client, allowed_hosts: tuple[str, ...]) -> None:
    """Accept this machine only, under its own names or `allowed_hosts`, and no page of another site in its browser.

    Anything else raises `ProblemError` (403).
    """
    elsewhere = client is not None and not is_loopback(client[0])
    if elsewhere or (_is_proxied(headers) and not allowed_hosts):
        detail = "Without API keys, the service answers only requests from its own machine."
        raise ProblemError(403, detail, kind="not_local")
    if not _is_own_host(headers, allowed_hosts):
        # A name that an attacker points at 127.0.0.1 (DNS rebinding) shows in this header.
        raise ProblemError(403, "The Host header names a different machine.", kind="foreign_host")
    foreign = "origin" in headers and not _is_own_origin(headers)
    if foreign or headers.get("sec-fetch-site", "") not in _SAME_SITE_VALUES:
        raise ProblemError(403, "The request comes from a page of another site.", kind="foreign_origin")


def _is_proxied(headers: Headers) -> bool:
    return any(name in headers for name in _PROXY_HEADERS)


def _is_own_host(headers: Headers, allowed: tuple[str, ...]) -> bool:
    host = _host_address(headers.get("host", ""))
    return host is not None and (is_loopback(host.name) or host.name in {known.lower() for known in allowed})


def _is_own_origin(headers: Headers) -> bool:
    """Return whether the page comes from the very address, port included, that the request names."""
    scheme, _, rest = headers["origin"].strip().lower().partition("://")
    origin, host = _host_address(rest), _host_address(headers.get("host", ""))
    default = _DEFAULT_PORTS.get(scheme)
    if origin is None or host is None or default is None:
        return False
    return (origin.name, origin.port or default) == (host.name, host.port or default)


def _host_address(text: str) -> HostAddress | None:
    found = _HOST.fullmatch(text.strip().lower())
    if found is None:
        return None
    return HostAddress(found["name"].strip("[]"), int(found["port"]) if found["port"] else None)
