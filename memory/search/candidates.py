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

    from recall_loop.memory.store.nearest import Scan
    from recall_loop.memory.store.rows import Row
    from recall_loop.memory.store.view import View

    Cosines = tuple[NDArray[np.float32], NDArray[np.float32]]

# Candidates of a leg for each result that is wanted: fusion and content scoring choose among more than the cut.
LEXICAL_DEPTH = 8
VECTOR_DEPTH = 5


@dataclass(frozen=True)
class Candidates:
    """Rows of one query with their signals, each array [n]; a leg that didn't run is absent."""

    rows: list[Row]
    signals: dict[str, NDArray[np.float64]]
    similarity: NDArray[np.float64]
    named: NDArray[np.float64]


def query_stems(query: str) -> list[str]:
    """Return the distinct stems of a query, in order."""
    return list(dict.fromkeys(stems(query)))


def lexical_ids(view: View, terms: Sequence[str], depth: int) -> list[int]:
    """Return rowids that the lexical leg proposes."""
    return view.lexical(terms, depth) if terms else []


def vector_ids(view: View, scan: Scan | None, vectors: NDArray[np.float32], depth: int) -> list[list[int]]:
    """Return per query the rowids that the vector leg proposes: exact in a small view, else Chroma's."""
    if scan is None:
        return view.nearest(vectors, depth)
    among = view.rowids()
    return [scan.best(query, depth, among) for query in range(len(vectors))]


def describe(view: View, rows: list[Row], query: str, cosines: Cosines | None, words: bool) -> Candidates:
    """Work out every signal of `rows` for one query; `words` says whether the lexical leg runs."""
    signals: dict[str, NDArray[np.float64]] = {}
    shared = meant = None
    terms = query_stems(query)
    if terms:
        corpus = view.corpus()
        counts = count_terms(rows, terms, view.document_frequency(terms), corpus.rows)
        shared = word_share(counts.own, counts.window, counts.idf)
        if words:
            signals["bm25"] = bm25(counts.own, counts.own_length, corpus.mean_terms, counts.idf)
            signals["bm25_window"] = bm25(counts.window, counts.window_length, corpus.mean_window_terms, counts.idf)
            signals["word_share"] = (counts.window > 0) @ counts.idf / counts.idf.sum()
    if cosines is not None:
        signals["cosine"], signals["cosine_window"] = (part.astype(np.float64) for part in cosines)
        meant = meaning(np.maximum(*cosines))
    asked = set(terms)
    named = np.array([_names(row.author_stems, asked) for row in rows], dtype=float)
    return Candidates(rows, signals, similarity(meant, shared), named)


def cosines_of(view: View, scan: Scan | None, query: int, rows: list[Row], vector: NDArray[np.float32]) -> Cosines:
    """Return own and context cosines of `rows`, each [n], for one query."""
    rowids = np.array([row.rowid for row in rows], dtype=np.int64)
    if scan is not None:
        return scan.of(query, rowids)
    own, context = view.vectors(rowids)
    return own @ vector, context @ vector


def _names(author: frozenset[str], asked: set[str]) -> bool:
    """Tell whether the query names the author."""
    return bool(author) and author <= asked
