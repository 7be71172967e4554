"""Who calls, and what routes get: tenant, role, store, executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRing, KeyRole, KeysUnreadableError
from recall_loop.service.access.callers import Caller
from recall_loop.service.access.local_access import Client, check_local
from recall_loop.service.core.problems import RETRY_SECONDS, ProblemError

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from recall_loop.service.process.lifecycle import Service


JSON_MEDIA_TYPES = ("application/json",)
NDJSON_MEDIA_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")


# Headers that make a request conditional on the record being unchanged.
_CONDITIONS = ("If-Match", "If-None-Match", "If-Unmodified-Since")


def service_of(request: Request) -> Service:
    """Return the running service of a request."""
    service: Service = request.app.state.service
    return service


def _caller(role: KeyRole) -> Callable[[Request], Caller]:
    def caller(request: Request) -> Caller:
        found: Caller = request.state.caller
        if not found.has_role(role):
            raise ProblemError(403, f"This needs a key with the role {role.value}; yours is {found.role.value}.")
        return found

    return caller


def _store(request: Request) -> MemoryStore:
    return service_of(request).store


CallerDep = Annotated[Caller, Depends(_caller(KeyRole.READ))]
WriterDep = Annotated[Caller, Depends(_caller(KeyRole.WRITE))]
AdminDep = Annotated[Caller, Depends(_caller(KeyRole.ADMIN))]
# Writes use the same object, whether this process owns the store or forwards them to the owner.
StoreDep = Annotated[MemoryStore, Depends(_store)]
ServiceDep = Annotated[Any, Depends(service_of)]


def require_own_tenant(caller: Caller, named: str | None) -> str:
    """Return the caller's tenant, which a request may repeat; raise `ProblemError` (403) where it names another one."""
    if named is not None and named != caller.tenant:
        raise ProblemError(
            403, "The request names a tenant that isn't the key's own.", kind="foreign_tenant", field="tenant"
        )
    return caller.tenant


def require_media_type(headers: Headers, types: Sequence[str] = JSON_MEDIA_TYPES) -> None:
    """Raise `ProblemError` (415) where a body is of another type; also stops forms that pages of other sites post."""
    given = headers.get("content-type", "").split(";")[0].strip().lower()
    suffixed = types == JSON_MEDIA_TYPES and given.startswith("application/") and given.endswith("+json")
    if given not in types and not suffixed:
        raise ProblemError(415, f"The body's Content-Type must be {' or '.join(types)}.", headers={"Accept": types[0]})


def _require_json(request: Request) -> None:
    if request.scope["route"].body_field is not None:
        require_media_type(request.headers)


def _require_ndjson(request: Request) -> None:
    require_media_type(request.headers, NDJSON_MEDIA_TYPES)


# For `dependencies=[…]`: checks routes with a body.
JsonBody = Depends(_require_json)
NdjsonBody = Depends(_require_ndjson)


def require_plain_body(headers: Headers) -> None:
    """Raise `ProblemError` (415) where a body is compressed: its limits count the bytes that come."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        detail = "The body is compressed; send it as it is, without the header Content-Encoding."
        raise ProblemError(
            415, detail, headers={"Accept-Encoding": "identity"}, field="Content-Encoding", value=coding[:200]
        )


def require_no_conditions(method: str, headers: Headers) -> None:
    """Raise `ProblemError` (412) where a write has a condition: records have no ETag, and a change would be lost."""
    given = next((name for name in _CONDITIONS if name in headers), None)
    if given is not None and method not in ("GET", "HEAD"):
        detail = f"Nothing was done: records have no ETag, so {given} can't be checked; send the request without it."
        raise ProblemError(412, detail, field=given, value=headers[given][:200])


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="recall-loop"'}


def authenticate_caller(service: Service, headers: Headers, client: Client, *, metrics: bool) -> Caller:
    """Return who calls; a request for `metrics` needs a role of its own.

    Raises `ProblemError`: 401 without a valid key; 403 with a key of a wrong role, or if there are no keys and the
    request comes from elsewhere; 503 if the keys can't be read.
    """
    if service.keys is None:
        check_local(headers, client, service.config.allowed_hosts)
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
        raise ProblemError(
            503, "The API keys can't be read at the moment.", kind="keys_unreadable", retry_after=RETRY_SECONDS
        ) from error
    if key is None:
        raise ProblemError(
            401, "No valid API key came with the request: `Authorization: Bearer rl_…`.", headers=_CHALLENGE
        )
    return Caller(key.tenant, key.id, key.role)
