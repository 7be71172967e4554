"""The pools that `fit_order.py` learns from: the best candidates of a first search, and which of them are gold.

Searched are the conversations that were written for this project, with their messages alone and with facts beside
them, and RealMem's training part (OPEN-1). Each question sees only what was written before it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unseen import UnseenEmbedder

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.rerank.learned import learned_gains, order_features, pool_has_long_turns
from recall_loop.memory.search.rerank.rerank_stage import SearchParts
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.planning.query_forms import main_query
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.search import MAX_RERANK_POOL, SearchParams

TALK = Path(__file__).resolve().parents[2] / "build" / "talk"
TRAIN = Path(__file__).resolve().parents[3] / "shared" / "data" / "train"
# Kinds of documents, and how much a question counts.
TALK_SETS = (("messages", 1.0), ("messages+facts", 0.5))
# Other turns would do as well as what RealMem calls gold.
REALMEM_WEIGHT = 0.3
OPTIONS = SearchParams(limit=30, rerank_pool=MAX_RERANK_POOL, time_suffixes=False)


@dataclass
class RankingExample:
    """One question's pool: its features, which candidates are gold, and what is needed to judge an order."""

    dataset_name: str
    group: str
    weight: float
    features: Any
    gold: list[bool]
    ids: list[list[str]]
    gold_ids: tuple[str, ...]
    long_turns: bool


def collect(dataset: Dataset, title: str, weight: float, embedder: Embedder) -> Iterator[RankingExample]:
    """Search every question once in what was written before it, and give its pool."""
    for name, records in dataset.collections.items():
        asked = [each for each in dataset.questions if each.scored and each.collection == name]
        written, places = list(records), {record.id: at for at, record in enumerate(records)}
        if isinstance(embedder, UnseenEmbedder):
            embedder.use_weights_for(dataset, name)
        with MemoryStore.in_memory(embedder=embedder) as store:
            done = 0
            for question, until in sorted(
                ((each, places[each.before] + 1 if each.before else len(written)) for each in asked),
                key=lambda pair: pair[1],
            ):
                store.upsert(written[done:until], tenant=name)
                done = until
                for features, ids, long_turns in pools_of(store, question):
                    gold = [bool(set(question.gold) & set(each)) for each in ids]
                    yield RankingExample(
                        title, group_of(dataset, name), weight, features, gold, ids, question.gold, long_turns
                    )


def pools_of(store: MemoryStore, question: LabelledQuestion) -> Iterator[tuple[Any, list[list[str]], bool]]:
    """Yield the features of a question's candidates, the ids of each and of its sources, and whether turns are long."""
    scope = Scope(tenant=question.collection)
    request = RetrieveRequest(messages=[ChatMessage(role="user", content=question.question)])
    query = main_query(analyse_question(request, datetime.now(UTC)))
    pools: list[tuple[Any, list[int]]] = []
    parts = SearchParts(gains=recording(pools))
    search_many(store, [query], scope=scope, params=OPTIONS, spoken=[question.question], parts=parts)
    view = store.view(scope)
    for features, rowids in pools:
        rows = view.rows(rowids)
        ids = [[rows[row].record.id, *(getattr(rows[row].record, "source_ids", None) or ())] for row in rowids]
        yield features, ids, pool_has_long_turns(view, rowids)


def recording(pools: list[tuple[Any, list[int]]]) -> Callable[..., Any]:
    """Return the order that ships, which leaves the features and the rows of each pool behind."""

    def gains(view: Any, part: Any, best: Any, compared: Any) -> Any:
        pools.append((order_features(view, part, best, compared), part.rowids[best].tolist()))
        return learned_gains(view, part, best, compared)

    return gains


def group_of(dataset: Dataset, name: str) -> str:
    """Return the name of a conversation among those of all sets."""
    return f"{dataset.name}:{name}"


def all_pools(talk: Path, train: Path | None, embedder: Embedder) -> list[RankingExample]:
    """Return the pools of all sets; without RealMem where `train` is None."""
    sets = [(load_dataset(talk, kinds), f"talk ({kinds})", weight) for kinds, weight in TALK_SETS]
    if train:
        sets.append((load_dataset(train / "realmem", "all"), "realmem", REALMEM_WEIGHT))
    found: list[RankingExample] = []
    for dataset, title, weight in sets:
        found += collect(dataset, title, weight, embedder)
        print(f"{title}: {len(found)} pools so far", file=sys.stderr, flush=True)
    return found
