"""Records erased for good: all of an owner (STORE-6), or what filters or a rule name, counted first (LIVE-7)."""

from __future__ import annotations

import logging
import time
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.core.deadline import blocking, current_executor, run_blocking
from recall_loop.service.core.problems import json_response
from recall_loop.service.middleware.dependencies import AdminDep, ServiceDep, StoreDep
from recall_loop.service.middleware.json_bodies import json_router
from recall_loop.service.models.record_models import ForgetResult
from recall_loop.service.models.search_models import ScopeFields
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError, validate_model
from recall_loop.state.scope import Filters, RetentionRule, Scope
from recall_loop.state.types import ContentTypes, Identifier

router = json_router("/api/memory", "erasure")
_log = logging.getLogger(__name__)
# A reader holds old pages for the length of one read.
_TRIES, _PAUSE_SECONDS = 8, 0.25
_NOT_YET = (
    "Nothing reads or finds the records any more. Their bytes may remain in free pages and logs of the store's files "
    "until these are compacted: the same request with `compact`, or `recall-loop store compact`."
)
_COMPACTED = (
    "The records are out of the store's files. This process may hold parts of them in memory, which Chroma may write "
    "out when it begins a new index: they are gone for certain once the service has been restarted."
)
_ON_SERVER = " What the Chroma server keeps on its own disk is gone after `chroma vacuum` there."
_IN_POSTGRESQL = (
    "Nothing reads or finds the records any more. PostgreSQL reuses their pages in time; its write-ahead log "
    "and its backups hold them until these are removed."
)
_IN_MEMORY = "The store lives in memory only: nothing of it was on disk."


class ErasureTarget(StrEnum):
    """The owner of erased records."""

    USER = "user"
    AGENT = "agent"
    CONVERSATION = "conversation"
    TENANT = "tenant"


class ErasureRequest(BaseModel):
    """The target of an erasure."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"of": "user", "id": "u-5", "compact": True}, {"of": "tenant", "id": "acme"}]},
    )

    of: ErasureTarget
    id: Identifier = Field(description="Id of the user, agent or conversation; of the tenant, its own name.")
    compact: bool = Field(False, description="Rewrite the store's files afterwards without erased data; takes a while.")


class ErasureResult(BaseModel):
    """The outcome of an erasure, and what is still on the disk."""

    erased: int = Field(description="Number of erased records.")
    compacted: bool = Field(description="Whether the store's files were rewritten without them.")
    on_disk: str = Field(description="What may still be on a disk, and how to remove it.")


@router.post("/erasure", summary="Erase a user, an agent, a conversation or the tenant", response_model=ErasureResult)
async def erase(body: ErasureRequest, caller: AdminDep, store: StoreDep, service: ServiceDep) -> Response:
    """Erase records, past runs and all, from every index, and from neighbours' windows. Needs the role `admin`.

    Repeating it is safe. `compacted: false` where `compact` was asked for means that others kept reading old pages:
    the records are erased, and the request may be repeated for the rest.
    """
    scope = _scope(body, caller.tenant)
    if body.compact:  # as long as rewriting all of the store's files takes
        current_executor().extend(service.config.bulk_timeout_seconds)
    return await run_blocking(_erase, store, scope, compact=body.compact)


def _scope(body: ErasureRequest, tenant: str) -> Scope:
    if body.of is not ErasureTarget.TENANT:
        return validate_model(Scope, {"tenant": tenant, f"{body.of}_id": body.id})
    if body.id != tenant:
        raise InvalidInputError("id", body.id, "the name of the key's own tenant, as a confirmation")
    return Scope(tenant=tenant)


def _erase(store: MemoryStore, scope: Scope, *, compact: bool) -> Response:
    erased = store.erase(scope)
    compacted = compact and _try_compact(store)
    return json_response(
        ErasureResult(erased=erased, compacted=compacted, on_disk=_describe_remains(store, compacted=compacted))
    )


def _try_compact(store: MemoryStore) -> bool:
    """Compact between the reads of others; return whether that succeeded in the request's time."""
    work = current_executor()
    for left in reversed(range(_TRIES)):
        try:
            store.maintenance.compact()
        except StoreUnavailableError as error:
            _log.warning("compaction after an erasure failed: %s", error)
            if not left or work.cancelled.is_set() or work.remaining < _PAUSE_SECONDS:
                return False
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def _describe_remains(store: MemoryStore, *, compacted: bool) -> str:
    if store.location is None:
        return _IN_MEMORY
    if store.path is None:
        return _IN_POSTGRESQL + (_ON_SERVER if store.maintenance.url else "")
    words = _COMPACTED if compacted else _NOT_YET
    return words + (_ON_SERVER if store.maintenance.url else "")


class ForgetRequest(ScopeFields):
    """The tenant's records to forget: filters, types or a rule, all of which must hold."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"rule": {"speech_acts": ["acknowledgement"], "older_than_days": 7}, "dry_run": True}]
        }
    )

    filters: Filters | None = Field(
        None, description="As for a search; superseded facts are included unless this excludes them."
    )
    content_types: ContentTypes | None = Field(None, description="Kinds of records; absent = all.")
    rule: RetentionRule | None = Field(None, description="Kinds, roles, speech acts and age.")
    dry_run: bool = Field(False, description="Only count the records.")


@router.post("/forget", summary="Forget records by filters or a rule", response_model=ForgetResult)
@blocking
def forget(body: ForgetRequest, caller: AdminDep, store: StoreDep) -> Response:
    """Delete the records that filters, content types and a rule name, with their versions, or count them.

    Needs the role `admin`. Repeating it is safe. Their bytes leave the disk with the next compaction.
    """
    report = store.forget(
        body.read_scope(caller.tenant),
        filters=body.filters,
        rule=body.rule,
        content_types=body.content_types,
        dry_run=body.dry_run,
    )
    return json_response(ForgetResult.model_validate(report, from_attributes=True))
