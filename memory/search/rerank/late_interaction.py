"""Late interaction: each token of the query is matched with the most similar token of a candidate.

MaxSim is the mean over the query's tokens of the best cosine with any token of the candidate. It is taken
over the record's own tokens and over its window (previous turn, turn, next turn), and added to the first
score, each z-scored within the pool. A record without neighbours is its own window, so if no candidate
of a pool has any, the window isn't counted again.

Token vectors that the store doesn't have may be computed within a time budget, those of the best candidates
first. A candidate without any gets the mean of the others, separately for own tokens and window, so that missing
vectors move it neither up nor down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recall_loop.memory.search.rerank.rerank import Candidate, z_scores
from recall_loop.memory.store.embed.embedders import TokenEmbedder, embedder_errors, group_by_model
from recall_loop.memory.store.embed.token_vectors import PackedTokens
from recall_loop.memory.store.index.vectors import dot_products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.tables.record_queries import ThreadLinks
    from recall_loop.memory.store.write.stored_tokens import StoredTokens

    Scores = NDArray[np.float64]

# Weights of the two MaxSims relative to the first score, all three z-scored.
OWN_WEIGHT = 0.6
WINDOW_WEIGHT = 1.2
# Texts embedded at once; the budget is checked in between.
_BATCH = 8
_NO_NEIGHBOURS: tuple[None, None] = (None, None)
# Positions of rows that don't exist or have no token that counts, and of rows whose tokens aren't known.
_NOTHING, _UNKNOWN = -1, -2


class _RowSimilarities(NamedTuple):
    """The best cosine of each of t query tokens with the tokens of r rows [r, t].

    Attributes:
        places: for each candidate, the index of its window in `windows`.
        windows: indices of the candidate, the row before it and the one after it among the rows [n, 3].
        best: the cosines.
    """

    places: Mapping[int, int]
    windows: NDArray[np.int64]
    best: NDArray[np.float32]


class _WindowSimilarities(NamedTuple):
    """For n candidates and the rows before and after them: positions [n, 3], and best cosines of t tokens [n, 3, t]."""

    positions: NDArray[np.int64]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class TokenSimilarities:
    """Token matches of n candidates.

    Attributes:
        own, window: MaxSim with the candidate's tokens and with those of its window [n]; the mean if unknown.
        mixed: the weighted sum of the first score and both MaxSims, each z-scored [n].
        before, after: rows before and after each candidate in its thread; None if there is none.
        best: best cosines of the query's tokens with each candidate and its two neighbours.
    """

    own: Scores
    window: Scores
    mixed: Scores
    before: Sequence[int | None]
    after: Sequence[int | None]
    best: _WindowSimilarities

    @cached_property
    def own_best(self) -> NDArray[np.float32]:
        """Best cosine of each of t query tokens with a candidate [n, t]; −1 without tokens."""
        return np.maximum(self.best.values[:, 0], -1.0)

    @cached_property
    def window_best(self) -> NDArray[np.float32]:
        """Best cosine of each of t query tokens with a candidate's window [n, t]; −1 without tokens."""
        best: NDArray[np.float32] = np.maximum(self.best.values.max(axis=1), -1.0)
        return best

    @property
    def before_own(self) -> Scores:
        """MaxSim with the tokens of the row before [n]; the lowest of `own` if there is none."""
        return self._neighbour(1)

    @property
    def after_own(self) -> Scores:
        """MaxSim with the tokens of the row after [n]; the lowest of `own` if there is none."""
        return self._neighbour(2)

    def _neighbour(self, side: int) -> Scores:
        return np.where(self.best.positions[:, side] < 0, self.own.min(), _mean(self.best.values[:, side]))


@dataclass
class LateInteractionReranker:
    """MaxSim over stored token vectors, mixed with the first score. For one request; not thread-safe.

    Attributes:
        embedder: embeds the tokens of queries, and of texts without stored ones.
        source: the source of the stored token vectors.
        budget_ms: milliseconds left for computing missing ones, for all queries of the request together; 0 computes
            none. The last batch of 8 texts may overrun it.
        query_tokens: token vectors [t, d] of queries that are already embedded.

    Raises, from each method:
        EmbedderError: the embedder fails.
        StoreUnavailableError: the store can't be read.
    """

    embedder: TokenEmbedder
    source: StoredTokens
    budget_ms: float = 0.0
    query_tokens: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    name: str = "late-interaction"
    _held: dict[int, PackedTokens] = field(default_factory=dict, repr=False)
    _neighbours: ThreadLinks = field(default_factory=dict, repr=False)
    _requested: set[int] = field(default_factory=set, repr=False)
    _ready: dict[str, _RowSimilarities] = field(default_factory=dict, repr=False)

    def prepare(self, queries: Sequence[str], candidates: Mapping[int, float]) -> None:
        """Compare several queries with all their candidates at once, for the calls of `rerank` that follow.

        Args:
            queries: the queries that will follow.
            candidates: rows with their best first score.
        """
        if not self._gather(list(candidates), list(candidates.values())):
            return
        tokens = {query: self._of_query(query) for query in dict.fromkeys(queries)}
        matches = self._compare(list(candidates), np.concatenate([*tokens.values()]))
        ends = np.cumsum([len(each) for each in tokens.values()])[:-1]
        parts = np.split(matches.best, ends, axis=1)
        self._ready = {query: matches._replace(best=best) for query, best in zip(tokens, parts, strict=True)}

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> Scores | None:
        """Return the mixed scores; None if the query or all candidates have no token vectors."""
        rowids = [-1 if candidate.rowid is None else candidate.rowid for candidate in candidates]
        found = self.compare(query, rowids, np.array([candidate.score for candidate in candidates], dtype=np.float64))
        return None if found is None else found.mixed

    def compare(self, query: str, rowids: Sequence[int], first: Scores) -> TokenSimilarities | None:
        """Return all results of the token matches; None if the query or all candidates have no token vectors.

        `rowids` are the candidates, -1 for one that isn't in the store, and `first` their first scores [n].
        """
        matches = self._ready.get(query)
        if matches is None or not matches.places.keys() >= set(rowids):
            if not self._gather(rowids, first.tolist()):
                return None
            matches = self._compare(rowids, self._of_query(query))
        if not matches.best.shape[1] or not any(rowid in self._held for rowid in rowids):
            return None
        best = self._best(rowids, matches)
        own, windows = self._means(rowids, best)
        if np.isnan(own).all():
            return None
        own = fill_unknown(own)
        scores = z_scores(first) + OWN_WEIGHT * z_scores(own)
        neighbours = [self._neighbours.get(rowid, _NO_NEIGHBOURS) for rowid in rowids]
        known = not np.isnan(windows).all()
        windows = fill_unknown(windows) if known else own
        if known and any(pair != _NO_NEIGHBOURS for pair in neighbours):
            scores = scores + WINDOW_WEIGHT * z_scores(windows)
        before, after = zip(*neighbours, strict=True)
        return TokenSimilarities(own, windows, scores, before, after, best)

    def _of_query(self, query: str) -> NDArray[np.float32]:
        given = self.query_tokens.get(query)
        if given is None:
            with embedder_errors(self.embedder.name, self.embedder.name):
                given = self.embedder.embed_queries_with_tokens([query])[1][0]
        return self.source.codec.project(given)

    def _gather(self, rowids: Sequence[int], scores: Sequence[float]) -> int:
        """Load token vectors of the candidates and their neighbours; return how many candidates have some."""
        new = [rowid for rowid in rowids if rowid >= 0 and rowid not in self._neighbours]
        self._neighbours |= {rowid: _NO_NEIGHBOURS for rowid in new} | dict(self.source.neighbours(new)) if new else {}
        order = sorted(range(len(rowids)), key=lambda at: (-scores[at], rowids[at]))
        best_first = [rowids[at] for at in order if rowids[at] >= 0]
        neighbours = [row for rowid in best_first for row in self._neighbours[rowid] if row is not None]
        wanted = list(dict.fromkeys([*best_first, *neighbours]))
        unread = [rowid for rowid in wanted if rowid not in self._requested]
        self._requested.update(unread)
        self._held |= dict(self.source.tokens(unread)) if unread else {}
        self._make([rowid for rowid in wanted if rowid not in self._held])
        return sum(rowid in self._held for rowid in rowids)

    def _make(self, rowids: Sequence[int]) -> None:
        """Embed rows that have no stored tokens, in order, until the budget is spent."""
        if not rowids or self.budget_ms <= 0.0:
            return
        texts = self.source.texts(rowids)
        found = [rowid for rowid in rowids if rowid in texts]
        for start in range(0, len(found), _BATCH):
            if self.budget_ms <= 0.0:
                return
            begun = time.perf_counter()
            batch = found[start : start + _BATCH]
            for model, positions in group_by_model(self.embedder, [texts[rowid][0] for rowid in batch]):
                if isinstance(model, TokenEmbedder):
                    with embedder_errors(model.name, model.name):
                        made = model.embed_documents_with_tokens([texts[batch[at]][1] for at in positions])[1]
                        packed = map(self.source.codec.compress, made)
                        self._held |= dict(zip([batch[at] for at in positions], packed, strict=True))
            self.budget_ms -= (time.perf_counter() - begun) * 1000.0

    def _compare(self, rowids: Sequence[int], tokens: NDArray[np.float32]) -> _RowSimilarities:
        """Return the best cosine of each query token with each row of the windows that has tokens."""
        windows = [self._window(rowid) for rowid in rowids]
        wanted = dict.fromkeys(row for window in windows for row in window if row is not None)
        held = {row: self._held[row] for row in wanted if row in self._held and len(self._held[row].values)}
        positions: dict[int | None, int] = {row: _NOTHING if row in self._held else _UNKNOWN for row in wanted}
        positions |= {None: _NOTHING} | {row: position for position, row in enumerate(held)}
        standing = np.array([[positions[row] for row in window] for window in windows])
        places = {rowid: place for place, rowid in enumerate(rowids)}
        if not held:
            return _RowSimilarities(places, standing, np.zeros((0, len(tokens)), dtype=np.float32))
        starts = np.cumsum([0, *(len(packed.values) for packed in held.values())])[:-1]
        joined = np.concatenate([packed.values for packed in held.values()]).astype(np.float32)
        scales = np.array([packed.scale for packed in held.values()], dtype=np.float32)
        best = np.maximum.reduceat(dot_products(tokens, joined), starts, axis=1) * scales
        return _RowSimilarities(places, standing, np.ascontiguousarray(best.T))

    def _window(self, rowid: int) -> tuple[int | None, int | None, int | None]:
        """Return a row with the one before and the one after it."""
        return (rowid, *self._neighbours.get(rowid, _NO_NEIGHBOURS)) if rowid >= 0 else (None, None, None)

    def _best(self, rowids: Sequence[int], matches: _RowSimilarities) -> _WindowSimilarities:
        """Return the best cosines of each candidate, of the row before it and of the one after it."""
        positions = matches.windows[[matches.places[rowid] for rowid in rowids]]
        least = np.full((1, matches.best.shape[1]), -np.inf, dtype=np.float32)
        # The last row represents missing rows; negative positions count from the end.
        return _WindowSimilarities(positions, np.concatenate([matches.best, least])[np.maximum(positions, _NOTHING)])

    def _means(self, rowids: Sequence[int], best: _WindowSimilarities) -> tuple[Scores, Scores]:
        """Return MaxSim over own tokens and over the window; NaN if tokens aren't known.

        A text without any token that counts ("…") matches nothing and gets 0.
        """
        own, windows = _mean(best.values[:, 0]), _mean(best.values.max(axis=1))
        unknown = best.positions == _UNKNOWN
        own[unknown[:, 0] | (np.array(rowids) < 0)] = np.nan
        windows[unknown.any(axis=1) | (np.array(rowids) < 0)] = np.nan
        return own, windows


def _mean(best: NDArray[np.float32]) -> Scores:
    """Return the mean over the query's tokens; 0 if there is nothing to match."""
    means: Scores = best.astype(np.float64).mean(axis=1)
    return np.where(np.isneginf(means), 0.0, means)


def fill_unknown(values: Scores) -> Scores:
    """Return `values` with the mean of the known ones in place of NaN; at least one must be known."""
    unknown = np.isnan(values)
    return np.where(unknown, np.nanmean(values), values) if unknown.any() else values
