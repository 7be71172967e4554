"""A tenant's vectors in memory: what was loaded, and what changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.index.dot_products import dot_products
from recall_loop.memory.store.index.pruning_bounds import PruningBounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Float = TypeVar("_Float", bound="np.floating[Any]")
# Gathering a row's vector takes about so many times as long as comparing it.
_GATHERING = 6
# So many rows are gathered at once to be compared with one query.
_CHUNK = 4_096


@dataclass(frozen=True, slots=True)
class RowVectors:
    """Vectors of rows by ascending rowid [n, d]: float32 of unit length.

    `own` may be the halves that were stored, with their `lengths` [n, 1], which are a little off one.
    """

    rowids: NDArray[np.int64]
    own: NDArray[np.float32] | NDArray[np.float16]
    context: NDArray[np.float32]
    lengths: NDArray[np.float32] | None = None


class VectorTable:
    """Vectors of all rows of a tenant: a large part, and a small one of rows that changed since."""

    def __init__(
        self,
        loaded: RowVectors,
        fresh: RowVectors | None = None,
        dead: NDArray[np.int64] | None = None,
        outline: PruningBounds | None = None,
    ) -> None:
        self._loaded, self._fresh = loaded, fresh
        self._dead = np.zeros(0, dtype=np.int64) if dead is None else dead
        self._outline = PruningBounds(loaded.context) if outline is None else outline
        self._compared: tuple[bytes, NDArray[np.float32], bool] | None = None

    @property
    def halves(self) -> bool:
        """Whether own vectors are kept as they are stored, in half the space: few are looked at in one search."""
        return self._loaded.lengths is not None

    def with_changes(self, fresh: RowVectors, dead: NDArray[np.int64]) -> VectorTable:
        """Return the table with `fresh` instead of what was loaded of the rowids `dead`."""
        return VectorTable(self._loaded, fresh, dead, self._outline)

    def own(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return own vectors [n, d]; zeros for a rowid that isn't here."""
        picked = _picked([(part.rowids, part.own) for part in self._parts()], rowids, self._dead)
        held = [(part.rowids, part.lengths) for part in self._parts() if part.lengths is not None]
        if not held:
            return np.asarray(picked, dtype=np.float32)
        return normalise_vectors(picked.astype(np.float32), _picked(held, rowids, self._dead))

    def context(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return context vectors [n, d]; zeros for a rowid that isn't here."""
        return _picked([(part.rowids, part.context) for part in self._parts()], rowids, self._dead)

    def compare(
        self, rowids: NDArray[np.int64], queries: NDArray[np.float32], *, bounded: bool
    ) -> tuple[NDArray[np.float32], bool]:
        """Compare queries [q, d] with the context vectors of rows [q, n]. Not to be written to.

        Args:
            rowids: the rows.
            queries: the queries.
            bounded: whether bounds do instead of products.

        Returns:
            Products and True; or at least the products, but for 1e-5 of a query's length, and False.
        """
        asked, last = queries.tobytes(), self._compared
        known = last is not None and last[0] == asked and (bounded or last[2])
        if not known and len(rowids) * _GATHERING <= len(self._loaded.rowids):
            return dot_products(queries, self.context(rowids)), True
        # The parts of one search are compared one after another with the same queries.
        if last is None or not known:
            values, exact = self._with_all(queries, bounded=bounded)
            values.setflags(write=False)
            self._compared = last = asked, values, exact
        _, values, exact = last
        if np.array_equal(rowids, self._loaded.rowids) and self._fresh is None:
            return values, exact
        places = self._places(rowids)
        picked = values[:, places]
        picked[:, places < 0] = 0.0
        return picked, exact

    def note_wasted_bounds(self) -> None:
        """Note that bounds didn't save several queries of one call from being compared with all rows."""
        self._outline.note_wasted_bounds()

    def cosines(self, rowids: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines of a query [d] with the context vectors of rows [n], equal ones for equal vectors."""
        found = np.empty(len(rowids), dtype=np.float32)
        for start in range(0, len(rowids), _CHUNK):
            part = slice(start, start + _CHUNK)
            np.einsum("nd,d->n", self.context(rowids[part]), query, out=found[part])
        return found

    def _with_all(self, queries: NDArray[np.float32], *, bounded: bool) -> tuple[NDArray[np.float32], bool]:
        """Compare with all rows that were loaded, dead or not, and behind them with those that changed since."""
        fresh = None if self._fresh is None else dot_products(queries, self._fresh.context)
        sound = fresh is None or bool(np.isfinite(fresh).all())  # damaged vectors have no bounds
        bounds = self._outline.bounds(queries) if bounded and sound and len(queries) > 1 else None
        values = dot_products(queries, self._loaded.context) if bounds is None else bounds
        return values if fresh is None else np.concatenate([values, fresh], axis=1), bounds is None

    def _places(self, rowids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where rows stand among all that were loaded, or behind them; -1 for a rowid that isn't here."""
        places, here = find_sorted(self._loaded.rowids, rowids)
        places[~here | find_sorted(self._dead, rowids)[1]] = -1
        if self._fresh is not None:
            at, here = find_sorted(self._fresh.rowids, rowids)
            places[here] = len(self._loaded.rowids) + at[here]
        return places

    def _parts(self) -> list[RowVectors]:
        return [self._loaded] if self._fresh is None else [self._loaded, self._fresh]

    @property
    def has_bounds(self) -> bool:
        """Whether there is an outline, which takes memory."""
        return self._outline.nbytes() > 0

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return sum(part.context.nbytes + part.own.nbytes for part in self._parts()) + self._outline.nbytes()


def _picked(
    parts: list[tuple[NDArray[np.int64], NDArray[_Float]]], asked: NDArray[np.int64], dead: NDArray[np.int64]
) -> NDArray[_Float]:
    """Return the rows of `asked`; the first part doesn't count for the rowids `dead`, which ascend."""
    picked: NDArray[_Float] | None = None
    for number, (held, matrix) in enumerate(parts):
        at, here = find_sorted(held, asked)
        if number == 0 and len(dead):
            here &= ~find_sorted(dead, asked)[1]
        if picked is None:
            picked = matrix[at] if len(held) else np.zeros((len(asked), matrix.shape[1]), dtype=matrix.dtype)
            if not here.all():
                picked[~here] = 0.0
        else:
            picked[here] = matrix[at[here]]
    assert picked is not None, "a table has at least one part"
    return picked


def find_sorted(held: NDArray[np.int64], asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each of `asked` stands in ascending `held`, and whether it does; `held` may be long."""
    if len(held) == 0:
        return np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=bool)
    at = np.minimum(np.searchsorted(held, asked), len(held) - 1)
    return at, held[at] == asked
