"""The cache of row contents: bounded, and never older than a change."""

from __future__ import annotations

from recall_loop.memory.store.tables.row_memo import RowMemo


def loader(asked: list[list[int]]):
    """Return a function that loads rows, but odd ones only, and notes what it was asked for."""

    def load(rowids: list[int]) -> dict[int, str]:
        asked.append(rowids)
        return {rowid: f"row {rowid}" for rowid in rowids if rowid % 2}

    return load


def test_rows_are_read_once_until_they_change():
    """Proves: COST-1."""
    asked: list[list[int]] = []
    memo = RowMemo[str](len, 10_000)
    assert memo.read([1, 2, 3], loader(asked)) == {1: "row 1", 3: "row 3"}
    assert memo.read([3, 1, 5], loader(asked)) == {1: "row 1", 3: "row 3", 5: "row 5"}
    memo.forget([1, 99])
    assert memo.read([1, 3], loader(asked)) == {1: "row 1", 3: "row 3"}
    assert asked == [[1, 2, 3], [5], [1]]
    memo.forget()
    assert memo.nbytes == 0
    assert memo.read([3], loader(asked)) == {3: "row 3"} and asked[-1] == [3]


def test_it_never_holds_more_than_its_bound():
    """Proves: COST-2."""
    memo = RowMemo[str](len, 1_000)
    for rowid in range(1, 99, 2):
        assert memo.read([rowid], loader([])) == {rowid: f"row {rowid}"}
        assert 0 < memo.nbytes <= 1_000
    assert len(memo.read(range(1, 99, 2), loader([]))) == 49
    assert memo.nbytes <= 1_000
    asked: list[list[int]] = []
    memo.read([89, 1], loader(asked))  # who came last is still there, who came first has gone
    assert asked == [[1]]
    memo.forget(range(99))
    assert memo.nbytes == 0


def test_what_is_read_while_a_row_changes_is_not_kept():
    """Proves: STORE-3."""
    memo = RowMemo[str](len, 10_000)

    def changing(rowids: list[int]) -> dict[int, str]:
        memo.forget(rowids)
        return dict.fromkeys(rowids, "old")

    assert memo.read([1], changing) == {1: "old"}
    assert memo.read([1], loader([])) == {1: "row 1"}


def test_what_is_read_again_and_again_stays():
    """Proves: COST-2."""
    memo = RowMemo[str](len, 1_000)
    asked: list[list[int]] = []
    for rowid in range(3, 99, 2):
        memo.read([1], loader(asked))
        memo.read([rowid], loader([]))
    assert asked == [[1]]
