"""Outlines of vectors: what they leave out is never among the best (SEARCH-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from recall_loop.memory.store import outline
from recall_loop.memory.store.embeddings import normalised
from recall_loop.memory.store.nearest import BoundedScan
from recall_loop.memory.store.outline import Outline
from recall_loop.memory.store.vectors import Vectors, VectorTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ROWS, WIDTH, QUERIES = 5_003, 96, 12


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have outlines made of few rows, and for the first queries."""
    monkeypatch.setattr(outline, "LEAST", 0)
    monkeypatch.setattr(outline, "WORTH", 0)


def made(count: int, seed: int, noise: float = 0.3) -> Floats:
    """Return vectors of length one that lie near 20 directions, the same for any seed; every tenth stands twice."""
    plane = np.random.default_rng(1).standard_normal((20, WIDTH))
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((count, 20)) @ plane / 20 + noise * chance.standard_normal((count, WIDTH)) / 5
    vectors[1::10] = vectors[: len(vectors[1::10])]
    return normalised(vectors.astype(np.float32))


def table(context: Floats, rowids: NDArray[np.int64] | None = None) -> VectorTable:
    """Return a table of context vectors."""
    return VectorTable(Vectors(np.arange(len(context)) * 3 if rowids is None else rowids, context, context))


def expected(rowids: NDArray[np.int64], context: Floats, query: Floats, wanted: int) -> list[int]:
    """Return the rowids of a whole sort; vectors that are equal have equal cosines."""
    known: dict[bytes, float] = {}
    cosines = [known.setdefault(row.tobytes(), float(row.astype(float) @ query)) for row in context]
    return rowids[np.lexsort((rowids, -np.array(cosines)))][:wanted].tolist()


def test_bounds_are_never_below_the_cosines_and_not_far_above() -> None:
    rows, queries = made(ROWS, 2), np.concatenate([made(QUERIES, 3), made(40, 4, noise=3.0)])
    bounds = Outline(rows).bounds(queries)
    assert bounds is not None
    assert bounds.shape == (len(queries), ROWS)
    above = bounds - queries @ rows.T
    assert above.min() > -1e-6
    assert 0.0 < float(above[:QUERIES].mean()) < 0.15


def test_a_zero_vector_and_one_within_the_outline_have_bounds_too() -> None:
    rows = made(ROWS, 2, noise=0.0)
    rows[7] = 0.0
    queries = rows[[7, 8, 9]]
    bounds = Outline(rows).bounds(queries)
    assert bounds is not None
    assert (bounds >= queries @ rows.T - 1e-6).all()


@pytest.mark.parametrize("noise", [0.3, 30.0])
@pytest.mark.parametrize("wanted", [1, 7, 50])
def test_the_best_by_outlines_are_those_of_a_whole_sort(wanted: int, noise: float) -> None:
    """Also for queries far from all rows (`noise`), for which bounds leave nearly everything."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3, noise)
    held = table(rows)
    rowids = np.arange(ROWS) * 3
    bounds, exact = held.compare(rowids, queries)
    assert not exact
    scan = BoundedScan(rowids, bounds, queries, held)
    among = np.flatnonzero(np.random.default_rng(4).random(ROWS) < 0.4)
    for number in range(0, QUERIES, 5):
        assert scan.best(number, wanted).tolist() == expected(rowids, rows, queries[number], wanted)
        part = expected(rowids[among], rows[among], queries[number], wanted)
        assert scan.best(number, wanted, among).tolist() == part


@pytest.mark.parametrize("wanted", [ROWS - 1, ROWS, ROWS + 1])
def test_all_rows_may_be_asked_for(wanted: int) -> None:
    rows, queries = made(ROWS, 2), made(2, 3)
    rowids, held = np.arange(ROWS) * 3, table(rows)
    bounds, _ = held.compare(rowids, queries)
    found = BoundedScan(rowids, bounds, queries, held).best(1, wanted)
    cosines = rows[found // 3].astype(float) @ queries[1]
    assert len(np.unique(found)) == len(found) == min(wanted, ROWS)
    assert (np.diff(cosines) < 1e-6).all()


def test_few_cosines_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = made(ROWS, 2, noise=0.1), made(QUERIES, 3, noise=0.1)
    held, looked, real = table(rows), [], VectorTable.context
    bounds, _ = held.compare(np.arange(ROWS) * 3, queries)
    monkeypatch.setattr(VectorTable, "context", lambda *given: looked.append(len(given[1])) or real(*given))
    scan = BoundedScan(np.arange(ROWS) * 3, bounds, queries, held)
    for number in range(QUERIES):
        scan.best(number, 5)
    assert sum(looked) < QUERIES * ROWS / 20


@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
def test_what_changed_since_is_found_and_what_is_gone_is_not(share: float) -> None:
    """Rows that were written again, deleted and added, among all rows and among some."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    rowids, held = np.arange(ROWS) * 3, table(rows)
    held.compare(rowids, queries)
    again, gone, added = rowids[5:2_000:40], rowids[9:2_000:40], rowids[-1] + np.arange(1, 60)
    numbers = np.concatenate([again, added])
    fresh = Vectors(numbers, made(len(numbers), 5), made(len(numbers), 5))
    changed = held.changed(fresh, np.unique(np.concatenate([again, gone, added])))
    now = np.concatenate([rowids[~np.isin(rowids, gone)], added])
    now = now[np.random.default_rng(6).random(len(now)) < share]
    context = changed.context(now)
    assert np.isclose(np.linalg.norm(context, axis=1), 1.0).all()
    values, exact = changed.compare(now, queries)
    assert exact is (share * 6 < 1)
    assert not exact or np.allclose(values, queries @ context.T, atol=1e-5)
    scan = BoundedScan(now, values, queries, changed)
    for number in range(0, QUERIES, 5):
        assert scan.best(number, 20).tolist() == expected(now, context, queries[number], 20)
    nowhere, _ = changed.compare(np.concatenate([rowids, added]), queries)
    assert not nowhere[:, np.isin(np.concatenate([rowids, added]), gone)].any()


def test_an_outline_is_made_only_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """For many queries, of many rows, whose lengths lie in few directions; a store that asks little holds none."""
    rows, queries = made(ROWS, 2), made(QUERIES, 3)
    flat = normalised(np.random.default_rng(7).standard_normal((ROWS, WIDTH)).astype(np.float32))
    assert Outline(flat).bounds(queries) is None
    assert Outline(np.where(rows > 0.3, np.float32(np.nan), rows)).bounds(queries) is None
    monkeypatch.setattr(outline, "WORTH", 30)
    late = Outline(rows)
    assert [late.bounds(queries) is None for _ in range(4)] == [True, True, False, False]
    assert 0 < late.nbytes() < 0.7 * rows.nbytes
    monkeypatch.setattr(outline, "LEAST", ROWS + 1)
    few = Outline(rows)
    assert [few.bounds(queries) for _ in range(4)] == [None] * 4
    assert few.nbytes() == 0
