"""The caches of all tenants, within a bound of memory."""

from __future__ import annotations

from collections import OrderedDict

from recall_loop.memory.store.embed.onnx_model import return_freed_memory
from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.index.caches.tenant_cache import TenantCache
from recall_loop.memory.store.tables.database import Database

CACHED_BYTES = 1024 * 1024 * 1024


class TenantCaches:
    """The caches of all tenants; the least recently used goes first when they outgrow 1 GiB."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, TenantCache] = OrderedDict()
        self._lock = ProcessLock()

    def up_to_date(self, sidecar: Database, tenant: str, dimension: int) -> TenantCache:
        """Return the tenant's cache, brought up to date."""
        version = sidecar.tenant_version(tenant)
        with self._lock:
            kept = self._tenants.get(tenant)
            known = kept is not None
            if kept is None:
                kept = self._tenants[tenant] = TenantCache(sidecar, tenant, dimension, version)
            self._tenants.move_to_end(tenant)
        if kept.version != version:
            kept.catch_up(version)
        now = now_microseconds()
        if now >= kept.next_expiry:
            kept.expire(now)
        grown = kept.has_grown()
        if grown:  # loading an index or vectors takes several times the memory that they occupy
            return_freed_memory()
        if grown or not known:
            self._shrink()
        return kept

    def _shrink(self) -> None:
        with self._lock:
            while len(self._tenants) > 1 and sum(kept.nbytes() for kept in self._tenants.values()) > CACHED_BYTES:
                self._tenants.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tenants.clear()
