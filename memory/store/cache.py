"""What is kept in memory per tenant, until the tenant's data changes.

The version comes from the sidecar, so that another process's writes are seen too. It is read before
the data: data newer than its version is merely loaded once more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from recall_loop.memory.store.rows import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CACHED_ROWS = 20_000
CACHED_BYTES = 256 * 1024 * 1024
_ROW_BYTES = 2_000
_SELECTIONS = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Size of a tenant's corpus: number of rows, mean number of own stems and of window stems."""

    rows: int
    mean_terms: float
    mean_window_terms: float


@dataclass(frozen=True, slots=True)
class Vectors:
    """All vectors of a tenant, by ascending rowid; float32, unit length, not to be written to."""

    rowids: NDArray[np.int64]
    own: NDArray[np.float32]
    context: NDArray[np.float32]


@dataclass
class TenantCache:
    """One tenant's data at one version."""

    version: int
    vectors: Vectors | None = None
    corpus: Corpus | None = None
    rows: dict[int, Row] = field(default_factory=dict)
    frequencies: dict[str, int] = field(default_factory=dict)
    selections: OrderedDict[tuple[object, ...], NDArray[np.int64]] = field(default_factory=OrderedDict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def selection(self, key: tuple[object, ...], load: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the rowids that a predicate allows; the last 64 predicates are remembered."""
        with self.lock:
            if key in self.selections:
                self.selections.move_to_end(key)
                return self.selections[key]
        found = load()
        found.setflags(write=False)
        with self.lock:
            self.selections[key] = found
            while len(self.selections) > _SELECTIONS:
                self.selections.popitem(last=False)
        return found

    def size(self) -> int:
        """Return a rough number of bytes."""
        total = len(self.rows) * _ROW_BYTES + sum(found.nbytes for found in list(self.selections.values()))
        if self.vectors is not None:
            total += self.vectors.own.nbytes + self.vectors.context.nbytes
        return total


class Cache:
    """The caches of all tenants; the least recently used goes first when they outgrow 256 MiB."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, TenantCache] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tenant: str, version: int) -> TenantCache:
        """Return the tenant's cache at `version`, new if its data has changed."""
        with self._lock:
            kept = self._tenants.get(tenant)
            if kept is None or kept.version != version:
                kept = self._tenants[tenant] = TenantCache(version)
            self._tenants.move_to_end(tenant)
            while len(self._tenants) > 1 and self._bytes() > CACHED_BYTES:
                self._tenants.popitem(last=False)
            return kept

    def _bytes(self) -> int:
        return sum(tenant.size() for tenant in self._tenants.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tenants.clear()
