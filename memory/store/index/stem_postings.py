"""Stems looked up in the lexical index by statements: for tenants with too many rows for an index in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.encoding.indexing import encode_token
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.index.caches.tenant_cache import TenantCache
from recall_loop.memory.store.index.vector_search import top_positive_positions
from recall_loop.memory.store.index.vectors import find_sorted
from recall_loop.memory.store.tables.database import Database, LexicalIndexError
from recall_loop.memory.store.tables.predicate import Predicate, compile_predicate
from recall_loop.state.scope import Scope

# Each is a statement.
_MAX_STEMS = 400
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
# Rows that are read to see whether a word is in the row's own text or a neighbour's.
_MAX_ROWS_READ = 64


class StemPostings:
    """The rows that a predicate allows, by the stems of their windows.

    While the lexical index is damaged, which the store reports, nothing is found and nothing counted (SEARCH-9).
    """

    def __init__(self, database: Database, predicate: Predicate, cache: TenantCache) -> None:
        self._database, self._predicate, self._cache = database, predicate, cache
        self._whole_tenant = compile_predicate(Scope(tenant=predicate.tenant))

    def top_rowids(self, weights: Sequence[tuple[str, float]], limit: int) -> NDArray[np.int64]:
        """Return allowed rowids by the sum of their stems' weights; see `View.top_by_stems`."""
        allowed, facets = self._cache.selection(self._predicate), self._narrowing()
        total = np.zeros(len(allowed))
        for stem, weight in weights[:_MAX_STEMS]:
            try:
                having = self._cache.posting(facets, encode_token(stem))
            except LexicalIndexError:  # by the stems that are still known, a part of the rows would be ranked
                return _NONE
            if len(having) < len(allowed):
                at, present = find_sorted(allowed, having)
                total[at[present]] += weight
            else:
                total[find_sorted(having, allowed)[1]] += weight
        return allowed[top_positive_positions(total, np.ones(len(total), dtype=bool), allowed, limit)]

    def frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return for each stem the number of the tenant's rows whose window has it."""
        found: dict[str, int] = {}
        for stem in stems:
            try:
                found[stem] = self._frequency(encode_token(stem))
            except LexicalIndexError:
                found[stem] = 0
        return found

    def _frequency(self, token: str) -> int:
        """Count in the index; or among the token's rows, which the search asks for next, if most are the tenant's."""
        if not self._tenant_dominates():
            return row_queries.window_frequency(self._database, self._predicate.tenant, token)
        return int(find_sorted(self._cache.selection(self._whole_tenant), self._cache.posting((), token))[1].sum())

    def frequencies_within(self, stems: Iterable[str]) -> dict[str, int]:
        """Return for each stem the number of allowed rows whose window has it; see `View.frequency_within`."""
        rows, facets = self._cache.selection(self._predicate), self._narrowing()
        found: dict[str, int] = {}
        for stem in stems:
            try:
                having = self._cache.posting(facets, encode_token(stem))
            except LexicalIndexError:
                having = _NONE
            within = having[find_sorted(rows, having)[1]]
            own = row_queries.has_own_stem(self._database, within[:_MAX_ROWS_READ], stem)
            found[stem] = len(within) if own else 0
        return found

    def _narrowing(self) -> tuple[str, ...]:
        """Return the facets that narrow the lexical index; none for a whole tenant that has most of the rows."""
        facets = self._predicate.facets
        return () if facets == self._whole_tenant.facets and self._tenant_dominates() else facets

    def _tenant_dominates(self) -> bool:
        return 2 * self._cache.size() >= row_queries.last_rowid(self._database)
