"""The view: the only way that searches read the store (STORE-3).

The predicate is compiled once; every method is confined to it, or, for statistics, to its tenant.
Answers are those of the moment of the call, also when another process has written in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.index.caches.tenant_cache import TenantCache
from recall_loop.memory.store.index.indexed_row import Row
from recall_loop.memory.store.index.piece_table import PieceTable
from recall_loop.memory.store.index.row_index import RowIndex
from recall_loop.memory.store.index.row_queries import CorpusStatistics
from recall_loop.memory.store.index.stem_postings import StemPostings
from recall_loop.memory.store.index.vector_search import (
    ExactScan,
    ViewSource,
    search_chroma,
    search_exhaustively,
    top_positive_positions,
)
from recall_loop.memory.store.index.vectors import VectorTable, find_sorted
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.tables.predicate import Predicate
from recall_loop.state.errors import InvalidInputError

_T = TypeVar("_T")


class View:
    """The records that one scope, with filters and content types, allows to see."""

    def __init__(self, source: ViewSource, predicate: Predicate, snapshot: TenantCache | None = None) -> None:
        self._source = source
        self.predicate = predicate
        self._snapshot = snapshot

    @property
    def tenant(self) -> str:
        """The tenant that the view is confined to."""
        return self.predicate.tenant

    def snapshot_view(self, other: View | None = None) -> View:
        """Return a view of the data as it is now, or as `other` of the same tenant sees it.

        For the calls of one search: they see one state of the data, and none of them looks for changes.
        """
        same = other is not None and other.tenant == self.tenant
        return View(self._source, self.predicate, other._cache() if other is not None and same else self._follow())

    @property
    def _database(self) -> Database:
        return self._source.database.for_tenant(self.predicate.tenant)

    def _cache(self) -> TenantCache:
        return self._snapshot if self._snapshot is not None else self._follow()

    def _follow(self) -> TenantCache:
        return self._source.cache.up_to_date(self._database, self.tenant, self._source.dimension)

    def count(self) -> int:
        """Return the number of allowed rows."""
        return len(self.rowids())

    def rowids(self) -> NDArray[np.int64]:
        """Return the allowed rowids, ascending: the order of first insertion. Not to be written to."""
        return self._cache().selection(self.predicate)

    def _allowed(self, rowids: Iterable[int]) -> NDArray[np.int64]:
        """Return those of `rowids` that the predicate allows, each once, ascending."""
        wanted = np.unique(_numbers(rowids))
        allowed = self.rowids()
        if len(wanted) == len(allowed) and np.array_equal(wanted, allowed):
            return allowed
        return wanted[find_sorted(allowed, wanted)[1]]

    def vectors(self, rowids: Iterable[int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return own and context vectors, float32 [n, d], unit length, in the order of `rowids`.

        A rowid that the view doesn't allow, or that was just deleted, gives a zero vector. The
        arrays are not to be written to.
        """
        wanted = _numbers(rowids)
        allowed = self._allowed(wanted)
        table = self._cache().vectors()
        if table is None or len(wanted) != len(allowed):
            sqlite, dimension = self._database, self._source.dimension
            table = VectorTable(row_queries.read_vectors(sqlite, self.tenant, dimension, allowed))
        return table.own(wanted), table.context(wanted)

    def scan(self, vectors: NDArray[np.float32]) -> ExactScan | None:
        """Compare query vectors [q, d] with every allowed row; None where those are too many."""
        rowids, table = self.rowids(), self._cache().vectors()
        most = row_limits.READ_ROWS if table is None else row_limits.compared_rows(self._source.database, len(vectors))
        if len(rowids) > most:
            return None
        if table is None:
            held = row_queries.read_vectors(self._database, self.tenant, self._source.dimension, rowids)
            rowids, table = held.rowids, VectorTable(held)
        return ExactScan(rowids, table.compare(rowids, vectors), vectors, table)

    def pieces(self) -> PieceTable | None:
        """Return the pieces of all long records that are allowed; None where there are too many rows to keep them."""
        table = self._cache().pieces()
        return table if table is None or not len(table.rowids) else table.among(self.rowids())

    def pieces_of(self, rowids: NDArray[np.int64]) -> PieceTable:
        """Return the pieces of those of `rowids` that are long records and allowed."""
        table = self._cache().pieces()
        if table is not None and not len(table.rowids):
            return table
        allowed = self._allowed(rowids)
        if table is None:
            table = row_queries.read_pieces(self._database, self.tenant, self._source.dimension, allowed)
        return table.among(allowed)

    def index_of(self, rowids: NDArray[np.int64]) -> RowIndex:
        """Return an index that holds at least the given rows, as far as they are allowed."""
        index = self._cache().index()
        if index is None:
            index = RowIndex.from_rows(
                row_queries.read_index_rows(self._database, self.tenant, self._cache().moment, self._allowed(rowids))
            )
        return index

    def derived_from_vocabulary(self, make: Callable[[dict[str, int]], _T]) -> _T:
        """Return what `make` makes of the vocabulary, such as tables to compare words by; kept until data changes."""
        return self._cache().derived_from_vocabulary(make)

    def top_by_stems(self, weights: Sequence[tuple[str, float]], limit: int) -> NDArray[np.int64]:
        """Return allowed rowids by the sum of the weights of the stems that their windows have, at most `limit`.

        `weights` are stems with weights above 0, heaviest first. Equal sums go by rowid.

        Raises:
            InvalidInputError: `limit` is below 1.
        """
        _check_limit(limit)
        cache = self._cache()
        index = cache.index()
        if index is None:
            return self._postings(cache).top_rowids(weights, limit)
        total = index.summed_stem_weights(weights)
        rowids = index.columns.rowids
        return rowids[top_positive_positions(total, cache.allowed(self.predicate, index), rowids, limit)]

    def nearest(self, vectors: NDArray[np.float32], limit: int) -> list[list[int]]:
        """Return per query vector the allowed rowids with the nearest context vectors, nearest first.

        Chroma is asked for more than `limit` and what isn't allowed is masked; where that doesn't
        give `limit` rows, or Chroma fails, every allowed vector is compared. Equal distances go by
        rowid. Meant for scopes too large to compare with `vectors`.

        Raises:
            InvalidInputError: `limit` is below 1, or `vectors` isn't [q, d].
        """
        _check_limit(limit)
        queries = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if queries.ndim != 2 or queries.shape[1] != self._source.dimension:
            raise InvalidInputError("vectors", queries.shape, f"an array [q, {self._source.dimension}]")
        allowed = self.rowids()
        wanted = min(limit, len(allowed))
        # Queried first: Chroma has every record that is not among these.
        unsent = self._source.connection.unsent_rowids(self.predicate.tenant)
        late = np.isin(allowed, np.asarray([] if unsent is None else unsent, dtype=np.int64))
        sent, found = allowed[~late], list[list[int]]([[] for _ in queries])
        if unsent is not None:
            found = search_chroma(self._source, self.predicate.tenant, queries, sent, min(wanted, len(sent)))
        short = [index for index, rowids in enumerate(found) if unsent is None or len(rowids) < min(wanted, len(sent))]
        self._add_unsent(found, queries, allowed[late], wanted)
        if short:
            for index, rowids in zip(short, self._compared(queries[short], allowed, wanted), strict=True):
                found[index] = rowids
        return found

    def _add_unsent(
        self, found: list[list[int]], queries: NDArray[np.float32], unsent: NDArray[np.int64], wanted: int
    ) -> None:
        """Compare rows that Chroma may not have, or in an earlier state, with what it found."""
        if not len(unsent):
            return
        for at, rowids in enumerate(found):
            either = np.union1d(np.asarray(rowids, dtype=np.int64), unsent)
            found[at] = self._compared(queries[at : at + 1], either, wanted)[0]

    def _compared(self, queries: NDArray[np.float32], rowids: NDArray[np.int64], wanted: int) -> list[list[int]]:
        return search_exhaustively(lambda rows: self.vectors(rows)[1], queries, rowids, wanted)

    def newest(self, limit: int) -> list[int]:
        """Return allowed rowids, latest time first, those without a time last; equal times go by rowid.

        Raises:
            InvalidInputError: `limit` is below 1.
        """
        _check_limit(limit)
        return row_queries.newest_rowids(self._database, self.predicate.unexpired(self._cache().moment), limit)

    def rows(self, rowids: Iterable[int]) -> dict[int, Row]:
        """Return the allowed rows among `rowids`, by rowid, in the order asked for."""
        wanted = _numbers(rowids).tolist()
        cache = self._cache()
        found = cache.rows.read(self._allowed(wanted).tolist(), partial(self._load_rows, cache))
        return {rowid: found[rowid] for rowid in wanted if rowid in found}

    def _load_rows(self, cache: TenantCache, rowids: Sequence[int]) -> dict[int, Row]:
        loaded = row_queries.read_rows(self._database, self.tenant, rowids)
        for rowid in cache.beside_expired.intersection(loaded):
            loaded[rowid].window = loaded[rowid].index_text
        return loaded

    def document_frequency(self, stems: Collection[str]) -> dict[str, int]:
        """Return for each stem the number of the tenant's rows whose window contains it.

        A window contains the record's own stems.
        """
        cache = self._cache()
        index, wanted = cache.index(), list(dict.fromkeys(stems))
        if index is not None:
            return {stem: index.frequency(stem) for stem in wanted}
        with cache.lock:
            known = {stem: cache.frequencies[stem] for stem in wanted if stem in cache.frequencies}
        known |= self._postings(cache).frequencies(stem for stem in wanted if stem not in known)
        with cache.lock:
            cache.frequencies |= known
        return {stem: known[stem] for stem in wanted}

    def frequency_within(self, stems: Collection[str]) -> dict[str, int]:
        """Return for each stem the number of allowed rows whose window has it; 0 unless one has it in its own text.

        Unlike `document_frequency` this tells nothing of rows that the view doesn't allow: neighbours in a window may
        be another agent's (GUARD-3).
        """
        cache = self._cache()
        with cache.lock:
            known = cache.frequencies_within.setdefault((self.predicate.where, self.predicate.params), {})
        missing = [stem for stem in dict.fromkeys(stems) if stem not in known]
        if missing:
            known |= self._count_within(cache, missing)
        return {stem: known[stem] for stem in stems}

    def _count_within(self, cache: TenantCache, stems: Sequence[str]) -> dict[str, int]:
        index = cache.index()
        if index is None:
            return self._postings(cache).frequencies_within(stems)
        allowed = cache.allowed(self.predicate, index)
        return {stem: index.frequency_within(stem, allowed) for stem in stems}

    def _postings(self, cache: TenantCache) -> StemPostings:
        return StemPostings(self._database, self.predicate, cache)

    def corpus(self) -> CorpusStatistics:
        """Return size and mean lengths of the tenant's corpus."""
        return self._cache().statistics()


def _numbers(rowids: Iterable[int]) -> NDArray[np.int64]:
    return np.asarray(rowids if isinstance(rowids, np.ndarray) else list(rowids), dtype=np.int64)


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidInputError("limit", limit, "a whole number of at least 1")
