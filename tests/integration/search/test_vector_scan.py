"""Scans of vectors: the best rows are those of a whole sort, in every batch (SEARCH-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.index.vector_search import ExactScan
from recall_loop.memory.store.index.vectors import RowVectors, VectorTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ROWS, WIDTH, QUERIES = 5_003, 96, 12


def made(count: int, seed: int, noise: float = 0.3) -> Floats:
    """Return vectors of length one that lie near 20 directions, the same for any seed; every tenth stands twice."""
    plane = np.random.default_rng(1).standard_normal((20, WIDTH))
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((count, 20)) @ plane / 20 + noise * chance.standard_normal((count, WIDTH)) / 5
    vectors[1::10] = vectors[: len(vectors[1::10])]
    return normalise_vectors(vectors.astype(np.float32))


def table(context: Floats, rowids: NDArray[np.int64] | None = None) -> VectorTable:
    """Return a table of context vectors."""
    return VectorTable(RowVectors(np.arange(len(context)) * 3 if rowids is None else rowids, context, context))


def scanned(held: VectorTable, rowids: NDArray[np.int64], queries: Floats) -> ExactScan:
    """Compare queries with rows of a table."""
    return ExactScan(rowids, held.compare(rowids, queries), queries, held)


def expected(rowids: NDArray[np.int64], context: Floats, query: Floats, wanted: int) -> list[int]:
    """Return the rowids of a whole sort; vectors that are equal have equal cosines."""
    known: dict[bytes, float] = {}
    cosines = [known.setdefault(row.tobytes(), float(row.astype(float) @ query)) for row in context]
    return rowids[np.lexsort((rowids, -np.array(cosines)))][:wanted].tolist()


@pytest.mark.parametrize("noise", [0.3, 30.0])
@pytest.mark.parametrize("wanted", [1, 7, 50])
def test_the_best_are_those_of_a_whole_sort(wanted: int, noise: float) -> None:
    """Also for queries far from all rows (`noise`), and among some of the rows."""
    rows, queries, rowids = made(ROWS, 2), made(QUERIES, 3, noise), np.arange(ROWS) * 3
    scan = scanned(table(rows), rowids, queries)
    among = np.flatnonzero(np.random.default_rng(4).random(ROWS) < 0.4)
    for number in range(0, QUERIES, 5):
        assert scan.top_rowids(number, wanted).tolist() == sorted(expected(rowids, rows, queries[number], wanted))
        part = expected(rowids[among], rows[among], queries[number], wanted)
        assert scan.top_rowids(number, wanted, among).tolist() == sorted(part)


@pytest.mark.parametrize("wanted", [ROWS - 1, ROWS, ROWS + 1])
def test_all_rows_may_be_asked_for(wanted: int) -> None:
    rows, queries, rowids = made(ROWS, 2), made(2, 3), np.arange(ROWS) * 3
    best = scanned(table(rows), rowids, queries).top_rowids(1, wanted)
    assert best.tolist() == sorted(expected(rowids, rows, queries[1], wanted))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
def test_what_changed_since_is_found_and_what_is_gone_is_not(share: float) -> None:
    """Rows that were written again, deleted and added, among all rows and among some."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    rowids, held = np.arange(ROWS) * 3, table(rows)
    held.compare(rowids, queries)
    again, gone, added = rowids[5:2_000:40], rowids[9:2_000:40], rowids[-1] + np.arange(1, 60)
    numbers = np.concatenate([again, added])
    fresh = RowVectors(numbers, made(len(numbers), 5), made(len(numbers), 5))
    changed = held.with_changes(fresh, np.unique(np.concatenate([again, gone, added])))
    now = np.concatenate([rowids[~np.isin(rowids, gone)], added])
    now = now[np.random.default_rng(6).random(len(now)) < share]
    context = changed.context(now)
    assert np.isclose(np.linalg.norm(context, axis=1), 1.0).all()
    scan = scanned(changed, now, queries)
    assert np.allclose(scan.products, queries @ context.T, atol=1e-5)
    for number in range(0, QUERIES, 5):
        assert scan.top_rowids(number, 20).tolist() == sorted(expected(now, context, queries[number], 20))
    every = np.concatenate([rowids, added])
    assert not changed.compare(every, queries)[:, np.isin(every, gone)].any()


@pytest.mark.parametrize("count", [1, 2, 7, 12, 30])
@pytest.mark.parametrize(("size", "wanted"), [(ROWS, 15), (24_001, 90)])
def test_equal_vectors_at_the_cut_are_chosen_alike_in_every_batch(count: int, size: int, wanted: int) -> None:
    """Products of equal vectors differ by where they stand; what is found doesn't. Proves: LOOP-9, SEARCH-1."""
    rows, queries = made(size, 2), made(count, 3)
    rows[np.random.default_rng(8).choice(size, size // 50, replace=False)] = queries[0] * np.float32(0.9) + rows[0] / 9
    queries[1:] = normalise_vectors(queries[:1] + queries[1:] / 2)
    rowids = np.arange(size)
    held = table(rows, rowids)
    together = scanned(held, rowids, queries)
    for number in range(0, count, 4):
        alone = scanned(held, rowids, queries[number : number + 1]).top_rowids(0, wanted).tolist()
        assert together.top_rowids(number, wanted).tolist() == alone
        assert alone == sorted(expected(rowids, rows, queries[number], wanted))


@pytest.mark.parametrize("length", [1e-4, 1.0, 1_000.0, 1e6])
def test_queries_may_have_any_length(length: float) -> None:
    """What is found doesn't depend on it."""
    rows, queries, rowids = made(ROWS, 2), made(QUERIES, 3, noise=0.02), np.arange(ROWS)
    rows[:QUERIES] = queries
    rows[QUERIES : 2 * QUERIES] = made(QUERIES, 3, noise=0.021)
    scan = scanned(table(rows, rowids), rowids, queries * np.float32(length))
    for number in range(QUERIES):
        assert scan.top_rowids(number, 3).tolist() == sorted(expected(rowids, rows, queries[number], 3))


@pytest.mark.parametrize("damage", [np.nan, np.inf])
def test_damaged_vectors_break_nothing(damage: float) -> None:
    """Also one that was written since."""
    rows, queries, rowids = made(ROWS, 2), made(QUERIES, 3), np.arange(ROWS)
    damaged = rows[[3]].copy()
    damaged[0, 5] = damage
    changed = table(rows, rowids).with_changes(RowVectors(rowids[[3]], damaged, damaged), rowids[[3]])
    rows = rows.copy()
    rows[3] = damaged
    for held in (table(rows, rowids), changed):
        scan = scanned(held, rowids, queries)
        assert all(len(scan.top_rowids(number, 30)) >= 29 for number in range(QUERIES))
