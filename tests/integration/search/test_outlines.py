"""Outlines of vectors: what they leave out is never among the best (SEARCH-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.index import pruning_bounds
from recall_loop.memory.store.index.pruning_bounds import PruningBounds
from recall_loop.memory.store.index.vector_search import BoundedScan, ExactScan, scan_vectors
from recall_loop.memory.store.index.vectors import RowVectors, VectorTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ROWS, WIDTH, QUERIES = 5_003, 96, 12


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have outlines made of few rows, and for the first queries."""
    monkeypatch.setattr(pruning_bounds, "LEAST", 0)
    monkeypatch.setattr(pruning_bounds, "WORTH", 0)


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


def expected(rowids: NDArray[np.int64], context: Floats, query: Floats, wanted: int) -> list[int]:
    """Return the rowids of a whole sort; vectors that are equal have equal cosines."""
    known: dict[bytes, float] = {}
    cosines = [known.setdefault(row.tobytes(), float(row.astype(float) @ query)) for row in context]
    return rowids[np.lexsort((rowids, -np.array(cosines)))][:wanted].tolist()


def test_bounds_are_never_below_the_cosines_and_not_far_above() -> None:
    rows, queries = made(ROWS, 2), np.concatenate([made(QUERIES, 3), made(40, 4, noise=3.0)])
    bounds = PruningBounds(rows).bounds(queries)
    assert bounds is not None
    assert bounds.shape == (len(queries), ROWS)
    above = bounds - queries @ rows.T
    assert above.min() > -1e-6
    assert 0.0 < float(above[:QUERIES].mean()) < 0.15


def test_a_zero_vector_and_one_within_the_outline_have_bounds_too() -> None:
    rows = made(ROWS, 2, noise=0.0)
    rows[7] = 0.0
    queries = rows[[7, 8, 9]]
    bounds = PruningBounds(rows).bounds(queries)
    assert bounds is not None
    assert (bounds >= queries @ rows.T - 1e-6).all()


@pytest.mark.parametrize("noise", [0.3, 30.0])
@pytest.mark.parametrize("wanted", [1, 7, 50])
def test_the_best_by_outlines_are_those_of_a_whole_sort(wanted: int, noise: float) -> None:
    """Also for queries far from all rows (`noise`), for which bounds leave nearly everything."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3, noise)
    held = table(rows)
    rowids = np.arange(ROWS) * 3
    bounds, exact = held.compare(rowids, queries, bounded=True)
    assert not exact
    bounded = BoundedScan(rowids, bounds, queries, held)
    among = np.flatnonzero(np.random.default_rng(4).random(ROWS) < 0.4)
    for number in range(0, QUERIES, 5):
        assert bounded.top_rowids(number, wanted).tolist() == sorted(expected(rowids, rows, queries[number], wanted))
        part = expected(rowids[among], rows[among], queries[number], wanted)
        assert bounded.top_rowids(number, wanted, among).tolist() == sorted(part)


@pytest.mark.parametrize("wanted", [ROWS - 1, ROWS, ROWS + 1])
def test_all_rows_may_be_asked_for(wanted: int) -> None:
    rows, queries = made(ROWS, 2), made(2, 3)
    rowids, held = np.arange(ROWS) * 3, table(rows)
    bounds, _ = held.compare(rowids, queries, bounded=True)
    found = BoundedScan(rowids, bounds, queries, held).top_rowids(1, wanted)
    assert found.tolist() == sorted(expected(rowids, rows, queries[1], wanted))


def test_few_cosines_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = made(ROWS, 2, noise=0.1), made(QUERIES, 3, noise=0.1)
    held, looked, real = table(rows), [], VectorTable.context
    bounds, _ = held.compare(np.arange(ROWS) * 3, queries, bounded=True)
    monkeypatch.setattr(VectorTable, "context", lambda *given: looked.append(len(given[1])) or real(*given))
    bounded = BoundedScan(np.arange(ROWS) * 3, bounds, queries, held)
    for number in range(QUERIES):
        bounded.top_rowids(number, 5)
    assert sum(looked) < QUERIES * ROWS / 20


@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
def test_what_changed_since_is_found_and_what_is_gone_is_not(share: float) -> None:
    """Rows that were written again, deleted and added, among all rows and among some."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    rowids, held = np.arange(ROWS) * 3, table(rows)
    held.compare(rowids, queries, bounded=True)
    again, gone, added = rowids[5:2_000:40], rowids[9:2_000:40], rowids[-1] + np.arange(1, 60)
    numbers = np.concatenate([again, added])
    fresh = RowVectors(numbers, made(len(numbers), 5), made(len(numbers), 5))
    changed = held.with_changes(fresh, np.unique(np.concatenate([again, gone, added])))
    now = np.concatenate([rowids[~np.isin(rowids, gone)], added])
    now = now[np.random.default_rng(6).random(len(now)) < share]
    context = changed.context(now)
    assert np.isclose(np.linalg.norm(context, axis=1), 1.0).all()
    values, exact = changed.compare(now, queries, bounded=True)
    assert exact is (share * 6 < 1)
    assert not exact or np.allclose(values, queries @ context.T, atol=1e-5)
    found = (ExactScan if exact else BoundedScan)(now, values, queries, changed)
    for number in range(0, QUERIES, 5):
        assert found.top_rowids(number, 20).tolist() == sorted(expected(now, context, queries[number], 20))
    nowhere, _ = changed.compare(np.concatenate([rowids, added]), queries, bounded=True)
    assert not nowhere[:, np.isin(np.concatenate([rowids, added]), gone)].any()


def test_an_outline_is_made_only_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """For many queries, of many rows, whose lengths lie in few directions; a store that asks little holds none."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    flat = normalise_vectors(np.random.default_rng(7).standard_normal((ROWS, WIDTH)).astype(np.float32))
    assert PruningBounds(flat).bounds(queries) is None
    assert PruningBounds(np.where(rows > 0.3, np.float32(np.nan), rows)).bounds(queries) is None
    monkeypatch.setattr(pruning_bounds, "WORTH", 30)
    late = PruningBounds(rows)
    assert [late.bounds(queries) is None for _ in range(4)] == [True, True, False, False]
    assert 0 < late.nbytes() < 0.7 * rows.nbytes
    monkeypatch.setattr(pruning_bounds, "LEAST", ROWS + 1)
    few = PruningBounds(rows)
    assert [few.bounds(queries) for _ in range(4)] == [None] * 4
    assert few.nbytes() == 0


@pytest.mark.parametrize("count", [1, 2, 7, 12, 30])
@pytest.mark.parametrize(("size", "wanted"), [(ROWS, 15), (24_001, 90)])
def test_equal_vectors_at_the_cut_are_chosen_alike_in_every_batch_with_an_outline_or_without(
    monkeypatch: pytest.MonkeyPatch, count: int, size: int, wanted: int
) -> None:
    """Products of equal vectors differ by where they stand; what is found doesn't. Proves: LOOP-9, SEARCH-1."""
    rows, queries = made(size, 2), made(count, 3)
    rows[np.random.default_rng(8).choice(size, size // 50, replace=False)] = queries[0] * np.float32(0.9) + rows[0] / 9
    queries[1:] = normalise_vectors(queries[:1] + queries[1:] / 2)
    rowids = np.arange(size)
    outlined = scan_vectors(table(rows, rowids), rowids, queries, wanted)
    assert isinstance(outlined, BoundedScan) is (count > 1)
    monkeypatch.setattr(pruning_bounds, "LEAST", size + 1)
    held = table(rows, rowids)
    together = scan_vectors(held, rowids, queries, wanted)
    for number in range(0, count, 4):
        found = expected(rowids, rows, queries[number], wanted)
        alone = scan_vectors(held, rowids, queries[number : number + 1], wanted).top_rowids(0, wanted).tolist()
        assert outlined.top_rowids(number, wanted).tolist() == together.top_rowids(number, wanted).tolist() == alone
        assert alone == sorted(found)


@pytest.mark.parametrize("length", [1e-4, 1.0, 1_000.0, 1e6])
def test_queries_may_have_any_length(length: float) -> None:
    """What is found doesn't depend on it, nor whether bounds are too low."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3, noise=0.02)
    rows[:QUERIES] = queries
    rows[QUERIES : 2 * QUERIES] = made(QUERIES, 3, noise=0.021)
    long = queries * np.float32(length)
    bounds = PruningBounds(rows).bounds(long)
    assert bounds is not None
    above = bounds.astype(float) - long.astype(float) @ rows.T.astype(float)
    assert above.min() > -1e-6 * length
    assert above.mean() < 0.15 * length
    rowids = np.arange(ROWS)
    for number in range(QUERIES):
        one = scan_vectors(table(rows, rowids), rowids, long, 3).top_rowids(number, 3).tolist()
        assert one == sorted(expected(rowids, rows, queries[number], 3))


@pytest.mark.parametrize("damage", [np.nan, np.inf])
def test_damaged_vectors_have_no_outline_and_break_nothing(damage: float) -> None:
    """Also one that is none of those from which directions are taken, and one that was written since."""
    rows, queries, rowids = made(ROWS, 2), made(QUERIES, 3), np.arange(ROWS)
    whole = table(rows, rowids)
    damaged = rows[[3]].copy()
    damaged[0, 5] = damage
    fresh = RowVectors(rowids[[3]], damaged, damaged)
    rows = rows.copy()
    rows[3] = damaged
    assert PruningBounds(rows).bounds(queries) is None
    for held in (table(rows, rowids), whole.with_changes(fresh, rowids[[3]])):
        found = scan_vectors(held, rowids, queries, 30)
        assert isinstance(found, ExactScan)
        assert all(len(found.top_rowids(number, 30)) >= 29 for number in range(QUERIES))


def test_bounds_that_save_nothing_are_given_up() -> None:
    """After some calls, and their memory is free; a call now and then doesn't count."""
    rows, near, far = made(ROWS, 2), made(QUERIES, 3), made(QUERIES, 3, noise=30.0)
    rowids = np.arange(ROWS)
    held = table(rows, rowids)

    def bounded(queries: Floats) -> bool:
        found = scan_vectors(held, rowids, queries, 5)
        chosen = [found.top_rowids(number, 5).tolist() for number in range(QUERIES)]
        assert chosen[9] == sorted(expected(rowids, rows, queries[9], 5))
        return isinstance(found, BoundedScan)

    assert [bounded(queries) for queries in [far, near, near, near, near] * 3] == [True] * 15
    assert held.has_bounds
    assert [bounded(far) for _ in range(6)] == [True] * 4 + [False] * 2
    assert not held.has_bounds
    assert not bounded(near)


def test_rows_are_never_copied_whole_and_one_weak_bound_is_one_query_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    queries[4] = made(12, 3, noise=30.0)[11]
    rowids = np.arange(ROWS)
    held, gathered, compared = table(rows, rowids), [], []
    real, products = VectorTable.context, VectorTable._with_all
    monkeypatch.setattr(VectorTable, "context", lambda *given: gathered.append(len(given[1])) or real(*given))
    monkeypatch.setattr(
        VectorTable, "_with_all", lambda *given, **how: compared.append(len(given[1])) or products(*given, **how)
    )
    found = scan_vectors(held, rowids, queries, 5)
    for number in range(QUERIES):
        found.top_rowids(number, 5)
    assert sum(gathered) <= ROWS / 6
    assert compared == [QUERIES, 1]
    assert isinstance(scan_vectors(held, rowids, queries, ROWS // 64), ExactScan)
