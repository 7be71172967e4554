"""Features for the learned order of a pool, from signals, token matches and the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.rerank.learned_order import (
    BINARY_FEATURES,
    MIN_POOL,
    STANDARDISED_FEATURES,
    default_ranker,
    has_long_turns,
)
from recall_loop.memory.search.rerank.rerank import rescale, validate_scores
from recall_loop.memory.search.scoring.fusion import session_prior, share_of_best
from recall_loop.memory.store.index.vector_search import top_positions
from recall_loop.policy.evidence.members import ends_in_question

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.query.query_preparation import PreparedQuery
    from recall_loop.memory.search.rerank.late_interaction import LateInteractionReranker, TokenSimilarities
    from recall_loop.memory.search.rerank.top_k import ScoredCandidates
    from recall_loop.memory.store.index.indexed_row import Row
    from recall_loop.memory.store.index.view import View

    Values = NDArray[np.float64]
    OrderGains = Callable[[View, ScoredCandidates, NDArray[np.intp], TokenSimilarities], Values]

_MIN_SPREAD = 1e-6


def rerank_by_tokens(
    view: View,
    query: PreparedQuery,
    part: ScoredCandidates,
    reranker: LateInteractionReranker,
    gains: OrderGains | None,
) -> ScoredCandidates:
    """Return a query's candidates with the best of them ordered by token matches and, if given, the learned order.

    `gains` returns additions to the scores of the candidates at the given positions.

    Raises:
        EmbedderError: the embedder fails.
        RerankError: scores aren't finite.
        StoreUnavailableError: the store can't be read.
    """
    best = top_positions(part.scores, part.rowids, query.parsed.options.rerank_pool)
    first = part.fused[best]
    compared = reranker.compare(query.parsed.embedded_text, part.rowids[best].tolist(), first)
    if compared is None:
        return part
    scores = compared.mixed
    # For passages without neighbours the mixed score ranks as well, and bridges from them better.
    threaded = any(row is not None for row in (*compared.before, *compared.after))
    if gains is not None and threaded and len(best) >= MIN_POOL:
        scores = scores + gains(view, part, best, compared)
    fused = part.fused.copy()
    fused[best] = rescale(validate_scores(scores, len(best)), first)
    tokens = np.full((len(fused), 2), np.nan)
    tokens[best] = np.stack([compared.own, _worst_matches(compared.own_best)], axis=1)
    return replace(part, fused=fused, tokens=tokens)


def _worst_matches(matches: NDArray[np.float32]) -> Values:
    """Return for each candidate the mean over the worst-matching quarter of the query's tokens [n]."""
    ascending = np.sort(matches.astype(np.float64), axis=1)
    least: Values = ascending[:, : max(1, ascending.shape[1] // 4)].mean(axis=1)
    return least


def learned_gains(view: View, part: ScoredCandidates, best: NDArray[np.intp], compared: TokenSimilarities) -> Values:
    """Return the additions of the shipped order to the scores of the candidates at `best` [n]."""
    long_turns = pool_has_long_turns(view, part.rowids[best].tolist())
    return default_ranker(long_turns).gains(order_features(view, part, best, compared))


def pool_has_long_turns(view: View, rowids: Sequence[int]) -> bool:
    """Tell whether the candidates are long turns."""
    return has_long_turns([row.term_count for row in view.rows(rowids).values()])


def order_features(view: View, part: ScoredCandidates, best: NDArray[np.intp], compared: TokenSimilarities) -> Values:
    """Return the features of the candidates at `best` [n, f], in the order of `policy.learned_order.FEATURES`."""
    rowids = part.rowids[best].tolist()
    rows = view.rows({*rowids, *(row for row in (*compared.before, *compared.after) if row is not None)})
    found = _signal_features(part, best) | _token_features(compared) | _text_features(rows, rowids, compared)
    found |= _neighbour_features(rows, rowids, part.author_named[best], compared) | {"mixed": compared.mixed}
    found["named"] = part.author_named[best]
    found["reply"] = found["before_asks"] * (found["before_mixed"] - compared.mixed.min())
    standard = _standard(np.stack([found[name] for name in STANDARDISED_FEATURES]))
    return np.stack([found["mixed"], *standard, *(found[name] for name in BINARY_FEATURES)], axis=1)


def _standard(values: Values) -> Values:
    """Return features [f, n], each standardised."""
    spread = values.std(axis=1, keepdims=True) + _MIN_SPREAD
    standard: Values = (values - values.mean(axis=1, keepdims=True)) / spread
    return standard


def _signal_features(part: ScoredCandidates, best: NDArray[np.intp]) -> dict[str, Values]:
    """Return the retrievers' signals; zeros for a retriever that didn't run."""
    none = np.zeros(len(part.rowids))
    found = {name: part.signals.get(name, none)[best] for name in ("word_share", "cosine", "cosine_window")}
    found |= {name: share_of_best(part.signals.get(name, none))[best] for name in ("bm25", "bm25_window")}
    return found | {"session": session_prior(part.fused, part.session_codes)[best]}


def _token_features(compared: TokenSimilarities) -> dict[str, Values]:
    """Return MaxSim, and means over the worst, middle and best matches of the query's tokens."""
    found = {"own": compared.own, "window": compared.window}
    found |= {"before_own": compared.before_own, "after_own": compared.after_own}
    for name, matches in (("own", compared.own_best), ("window", compared.window_best)):
        ascending = np.sort(matches.astype(np.float64), axis=1)
        quarter, half = ascending.shape[1] // 4, ascending.shape[1] // 2
        found[f"{name}_least"] = ascending[:, : max(1, quarter)].mean(axis=1)
        found[f"{name}_middle"] = ascending[:, quarter : half + 1].mean(axis=1)
        found[f"{name}_best"] = ascending[:, -max(1, quarter) :].mean(axis=1)
        found[f"{name}_lead"] = (matches - matches.mean(axis=0)).max(axis=1).astype(np.float64)
    return found


def _text_features(rows: Mapping[int, Row], rowids: Sequence[int], compared: TokenSimilarities) -> dict[str, Values]:
    """Return the lengths of texts and windows (log of 1 + stems), and whether texts are questions."""
    terms = {rowid: row.term_count for rowid, row in rows.items()}
    own = np.array([terms.get(rowid, 0) for rowid in rowids], dtype=np.float64)
    sides = [
        np.array([terms.get(row, 0) if row is not None else 0 for row in neighbours], dtype=np.float64)
        for neighbours in (compared.before, compared.after)
    ]
    there = [np.array([row is not None for row in neighbours]) for neighbours in (compared.before, compared.after)]
    windows = np.where(there[0] | there[1], 2.0 * own + sides[0] + sides[1], own)
    records = [rows[rowid].record if rowid in rows else None for rowid in rowids]
    return {
        "length": np.log1p(own),
        "window_length": np.log1p(windows),
        "asks": _flags(record is not None and ends_in_question(record.text) for record in records),
    }


def _flags(values: Iterable[bool]) -> Values:
    return np.array([1.0 if value else 0.0 for value in values])


def _neighbour_features(
    rows: Mapping[int, Row], rowids: Sequence[int], named: Values, compared: TokenSimilarities
) -> dict[str, Values]:
    """Return the scores and flags of the turns before and after each candidate."""
    mixed = dict(zip(rowids, compared.mixed.tolist(), strict=True))
    least = float(compared.mixed.min())
    people = {_author(rows, rowid) for rowid, is_named in zip(rowids, named.tolist(), strict=True) if is_named}
    before = [row if row in rows else None for row in compared.before]
    return {
        "before_mixed": np.array([mixed.get(row, least) if row is not None else least for row in compared.before]),
        "after_mixed": np.array([mixed.get(row, least) if row is not None else least for row in compared.after]),
        "before_asks": _flags(row is not None and ends_in_question(rows[row].record.text) for row in before),
        "before_named": _flags(row is not None and _author(rows, row) in people for row in before),
    }


def _author(rows: Mapping[int, Row], rowid: int) -> str | None:
    record = rows[rowid].record if rowid in rows else None
    return getattr(record, "author", None) or getattr(record, "subject", None)
