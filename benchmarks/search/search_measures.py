"""The measurements of search_speed.py: what is timed beside what, and recall against exact search."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from corpora import FilterCase, TextPool, records
from numpy.typing import NDArray
from speed_stores import BareIndexes, match_any

from recall_loop.evals.measures.quality_metrics import percentile
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from recall_loop.text.words.tokens import stems

K, BATCH = 10, 12
HYBRID = SearchParams(mode=SearchMode.HYBRID, limit=K, limit_per_type=False)
VECTOR = HYBRID.model_copy(update={"mode": SearchMode.VECTOR})
EACH_TYPE = HYBRID.model_copy(update={"limit_per_type": True})
EVERYTHING = Filters()
WARM = 20
_AT_ONCE = 10_000


@dataclass
class Timings:
    """Wall and CPU milliseconds (of all threads) of one thing's calls."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return medians and the 95th percentile of the wall time."""
        return {
            "p50": percentile(self.wall, 0.5),
            "p95": percentile(self.wall, 0.95),
            "cpu_p50": percentile(self.cpu, 0.5),
            "calls": len(self.wall),
        }


def interleaved(things: Mapping[str, Callable[[int], object]], rounds: int, warm: int) -> dict[str, Timings]:
    """Call each thing once a round, in an order that turns; the first `warm` rounds aren't counted."""
    measured = {name: Timings() for name in things}
    names = list(things)
    for number in range(warm + rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started, used = time.perf_counter(), time.process_time()
            things[name](number)
            wall, cpu = time.perf_counter() - started, time.process_time() - used
            if number >= warm:
                measured[name].wall.append(wall * 1000)
                measured[name].cpu.append(cpu * 1000)
    return measured


class QueryRunner:
    """Asks the questions of a pool, by number, of a store."""

    def __init__(self, store: MemoryStore, pool: TextPool) -> None:
        self.store, self.pool = store, pool
        self._connection = sqlite3.connect(f"{(store.path.resolve() / 'sidecar.sqlite3').as_uri()}?mode=ro", uri=True)

    def ask(
        self, number: int, *, options: SearchParams = HYBRID, filters: Filters = EVERYTHING, count: int = 1
    ) -> list[tuple[SearchHit, ...]]:
        """Search `count` questions from `number` on in one call; return their hits."""
        at = [(number + more) % len(self.pool.questions) for more in range(count)]
        found = search_many(
            self.store,
            [self.pool.questions[index] for index in at],
            filters=[filters] * count,
            params=options,
            vectors=self.pool.question_vectors[at],
        )
        return [response.hits for response in found]

    def chroma(self, number: int) -> object:
        """Ask the store's own collection, past the store."""
        with self.store._session.connection.searching() as chroma:
            if chroma is None:
                raise SystemExit(f"Chroma is not there: {self.store.degraded_reason}")
            at = number % len(self.pool.questions)
            return chroma.nearest(self.pool.question_vectors[at : at + 1], K)

    def words(self, number: int) -> object:
        """Ask the store's own full-text table of windows, past the store."""
        query = "SELECT rowid FROM fts WHERE fts MATCH ? ORDER BY rank LIMIT ?"
        match = f"window : ({match_any(self.terms(number))})"
        return self._connection.execute(query, (match, K)).fetchall()

    def terms(self, number: int) -> list[str]:
        """Return the stems of a question."""
        return list(dict.fromkeys(stems(self.pool.questions[number % len(self.pool.questions)])))


def unfiltered(asker: QueryRunner, bare: BareIndexes | None, rounds: int) -> dict[str, Timings]:
    """Time searches without filters, and what they are compared with."""
    pool = asker.pool
    things: dict[str, Callable[[int], object]] = {
        "Chroma, the store's own": asker.chroma,
        "FTS5, the store's own": asker.words,
        "hybrid": asker.ask,
        "hybrid, each type its own limit": lambda number: asker.ask(number, options=EACH_TYPE),
        "vector": lambda number: asker.ask(number, options=VECTOR),
        f"hybrid, {BATCH} at once": lambda number: asker.ask(number * BATCH, count=BATCH),
    }
    if bare is not None:
        things["Chroma, bare"] = lambda number: bare.nearest(
            pool.question_vectors[number % len(pool.question_vectors)], K
        )
        things["FTS5, bare"] = lambda number: bare.words(asker.terms(number), K)
    return interleaved(things, rounds, WARM)


def filtered(asker: QueryRunner, chosen: Mapping[str, Sequence[FilterCase]], rounds: int) -> dict[str, Timings]:
    """Time searches with each kind of filter, every filter used once, beside searches without."""
    things: dict[str, Callable[[int], object]] = {"without a filter": asker.ask}
    for name, of_kind in chosen.items():
        things[name] = lambda number, of_kind=of_kind: asker.ask(number, filters=of_kind[number].filters)
    return interleaved(things, rounds, WARM)


def chroma_filtered(
    asker: QueryRunner, bare: BareIndexes, chosen: Mapping[str, Sequence[FilterCase]], rounds: int
) -> dict[str, Timings]:
    """Time Chroma's own filters, `where`."""
    asked = asker.pool.question_vectors
    things: dict[str, Callable[[int], object]] = {}
    for name, of_kind in chosen.items():
        things[name] = lambda number, of_kind=of_kind: bare.nearest(
            asked[number % len(asked)], K, of_kind[number].where
        )
    return interleaved(things, rounds, 2)


class ExactIndex:
    """Every context vector of the first tenant in memory, and exact search over them."""

    def __init__(self, store: MemoryStore) -> None:
        view = store.view(Scope())
        self.rowids = view.rowids()
        self.vectors = np.zeros((len(self.rowids), store.dimension), dtype=np.float32)
        for start in range(0, len(self.rowids), _AT_ONCE):  # a copy of all at once would be gigabytes
            part = slice(start, start + _AT_ONCE)
            self.vectors[part] = view.vectors(self.rowids[part])[1]

    def best(self, vector: NDArray[np.float32], limit: int, among: NDArray[np.int64] | None = None) -> set[int]:
        """Return the rowids of the nearest vectors, of all rows or of those in `among`."""
        cosines = self.vectors @ vector
        if among is not None:
            cosines[~np.isin(self.rowids, among)] = -2.0
            limit = min(limit, len(among))
        if limit == 0:
            return set()
        return {int(rowid) for rowid in self.rowids[np.argpartition(-cosines, limit - 1)[:limit]]}


def beside_brute_force(asker: QueryRunner, exact: ExactIndex, rounds: int) -> dict[str, Timings]:
    """Time vector searches beside one product of the query with every vector."""
    asked = asker.pool.question_vectors
    things: dict[str, Callable[[int], object]] = {
        "vector": lambda number: asker.ask(number, options=VECTOR),
        "numpy": lambda number: exact.best(asked[number % len(asked)], K),
    }
    return interleaved(things, rounds, WARM)


def recalls(
    asker: QueryRunner, exact: ExactIndex, chosen: Mapping[str, Sequence[FilterCase]], limit: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Return per filter the recall of the store's index at `limit` against exact search, and the share kept."""
    found: dict[str, dict[str, float]] = {}
    for name, of_kind in {"without a filter": [FilterCase(EVERYTHING, {})] * rounds, **chosen}.items():
        shares, kept = [], []
        for number in range(rounds):
            view = asker.store.view(Scope(), of_kind[number].filters)
            vector, allowed = asker.pool.question_vectors[number % len(asker.pool.question_vectors)], view.rowids()
            best = exact.best(vector, limit, allowed)
            kept.append(len(allowed) / len(exact.rowids))
            if best:
                shares.append(len(best.intersection(view.nearest(vector, limit)[0])) / len(best))
        found[name] = {"recall": float(np.mean(shares)), "kept": float(np.mean(kept))}
    return found


def writes(store: MemoryStore, pool: TextPool, rounds: int) -> dict[str, Any]:
    """Write one message, then search, in turn: what it costs to read one's own writes."""
    asker, made = QueryRunner(store, pool), list(records(pool, rounds, prefix="new"))
    measured = {"write of one record": Timings(), "search after it": Timings()}
    seen = []
    for number, record in enumerate(made):
        once: dict[str, Callable[[int], object]] = {
            "write of one record": lambda _, record=record: store.upsert([record]),
            "search after it": lambda _, number=number: asker.ask(number),
        }
        for name, call in once.items():
            for times in interleaved({name: call}, 1, 0).values():
                measured[name].wall += times.wall
                measured[name].cpu += times.cpu
        vector = store.embedder.embed_queries([record["text"]])
        hits = search_many(store, [record["text"]], params=HYBRID, vectors=vector)[0].hits
        seen.append(record["id"] in {hit.record.id for hit in hits})
    figures = {name: times.figures() for name, times in measured.items()}
    return {"ms": figures, "found at once": sum(seen) / len(seen)}
