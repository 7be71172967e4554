"""Candidates of a query and their signals: which rows are looked at closely, and what each leg says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.lexical import bm25, count_terms
from recall_loop.memory.search.similarity import meaning, similarity, word_share
from recall_loop.text.tokens import stems

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.rows import Row
    from recall_loop.memory.store.view import View

EXACT_ROWS = 20_000
# Candidates of a leg for each result that is wanted: fusion and content scoring choose among more than the cut.
LEXICAL_DEPTH = 8
VECTOR_DEPTH = 5


@dataclass(frozen=True)
class Candidates:
    """Rows of one query with their signals, each array [n]; a leg that didn't run is absent."""

    rows: list[Row]
    signals: dict[str, NDArray[np.float64]]
    similarity: NDArray[np.float64]
    cosine: NDArray[np.float64] | None
    named: NDArray[np.float64]


@dataclass(frozen=True)
class Space:
    """Vectors of a view that is small enough to compare with every row."""

    rowids: NDArray[np.int64]
    own: NDArray[np.float32]
    context: NDArray[np.float32]


def space_of(view: View) -> Space | None:
    """Return the view's vectors, or None where it holds too many rows for an exact scan."""
    rowids = view.rowids()
    if len(rowids) > EXACT_ROWS:
        return None
    own, context = view.vectors(rowids)
    return Space(rowids, own, context)


def query_stems(query: str) -> list[str]:
    """Return the distinct stems of a query, in order."""
    return list(dict.fromkeys(stems(query)))


def lexical_ids(view: View, terms: Sequence[str], depth: int) -> list[int]:
    """Return rowids that the lexical leg proposes."""
    return view.lexical(terms, depth) if terms else []


def vector_ids(view: View, space: Space | None, vectors: NDArray[np.float32], depth: int) -> list[list[int]]:
    """Return per query the rowids that the vector leg proposes: exact in a small view, else Chroma's."""
    if space is None:
        return view.nearest(vectors, depth)
    if not len(space.rowids):
        return [[] for _ in vectors]
    cosines = np.maximum(vectors @ space.own.T, vectors @ space.context.T)
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :depth]
    return [[int(space.rowids[index]) for index in row] for row in best]


def describe(
    view: View,
    space: Space | None,
    rows: list[Row],
    query: str,
    vector: NDArray[np.float32] | None,
    words: bool,
) -> Candidates:
    """Work out every signal of `rows` for one query."""
    signals: dict[str, NDArray[np.float64]] = {}
    shared = meant = cosine = None
    terms = query_stems(query)
    if terms:
        corpus = view.corpus()
        counts = count_terms(rows, terms, view.document_frequency(terms), corpus.rows)
        shared = word_share(counts.own, counts.window, counts.idf)
        if words:
            signals["bm25"] = bm25(counts.own, counts.own_length, corpus.mean_terms, counts.idf)
            signals["bm25_window"] = bm25(counts.window, counts.window_length, corpus.mean_window_terms, counts.idf)
            signals["word_share"] = (counts.window > 0) @ counts.idf / counts.idf.sum()
    if vector is not None:
        own, context = _cosines(view, space, rows, vector)
        signals["cosine"], signals["cosine_window"] = own, context
        cosine = np.maximum(own, context)
        meant = meaning(cosine.astype(np.float32))
    asked = set(terms)
    named = np.array([_names(row, asked) for row in rows], dtype=float)
    return Candidates(rows, signals, similarity(meant, shared), cosine, named)


def _cosines(
    view: View, space: Space | None, rows: list[Row], vector: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rowids = np.array([row.rowid for row in rows], dtype=np.int64)
    if space is None:
        own, context = view.vectors(rowids)
    else:
        at = np.searchsorted(space.rowids, rowids)
        own, context = space.own[at], space.context[at]
    return (own @ vector).astype(np.float64), (context @ vector).astype(np.float64)


def _names(row: Row, asked: set[str]) -> bool:
    """Tell whether the query names the author of `row`."""
    author = row.author_stems
    return bool(author) and author <= asked
