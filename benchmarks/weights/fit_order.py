"""Fit the learned order (`memory/search/rerank/default_order.json`), and say what it is worth out of fold.

    python benchmarks/weights/fit_order.py [--data DIR] [--stores DIR] [--weights DIR] [-o FILE] [--id NAME]

Needs `pip install lightgbm`. Each set of the development part is written to a store with its token vectors (kept in
`--stores`, and used again), every answerable question that has gold is searched once as the loop asks it first, and
the features of its best 100 candidates are what the trees learn from, gold or not. Passages that stand alone keep the
mixed score, so nothing is learned from them. `--weights` names a folder of weights for talk that left conversations
out (`unseen.py`): from conversations that the embedder has seen, trees would learn to trust it too much. Printed are
Recall@10, All@10 and nDCG@10 of the stage alone, before and after, for questions whose conversation the trees didn't
see, and for each whole set that they didn't see.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from unseen import fill_store, open_unseen

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import ndcg_at_10, recall_at_k
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.rerank.learned import learned_gains, order_features
from recall_loop.memory.search.rerank.learned_order import ORDER_FEATURES, LearnedRanker
from recall_loop.memory.search.rerank.rerank_stage import SearchParts
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.planning.query_forms import main_query
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.search import MAX_RERANK_POOL, SearchParams

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
# Folder, kinds, and how much a question counts: small sets would drown among the questions of long chats.
SETS = (("locomo", "messages", 1.0), ("locomo", "messages+facts", 0.5), ("beam", "messages", 1.5))
FOLDS = 6
ROUNDS, LEAVES, LEAST_LEAF, RATE = 150, 8, 50, 0.05


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


def collect(data: Path, store: MemoryStore, kinds: str, weight: float) -> Iterable[RankingExample]:
    """Search every question once, and give its pool."""
    dataset = load_dataset(data, kinds)
    fill_store(store, dataset)
    options = SearchParams(limit=30, rerank_pool=MAX_RERANK_POOL, time_suffixes=False)
    for question in dataset.questions:
        if not question.scored:
            continue
        scope = Scope(tenant=question.collection)
        request = RetrieveRequest(messages=[ChatMessage(role="user", content=question.question)])
        query = main_query(analyse_question(request, datetime.now(UTC)))
        pools: list[tuple[Any, list[int]]] = []
        parts = SearchParts(gains=recording(pools))
        search_many(store, [query], scope=scope, params=options, spoken=[question.question], parts=parts)
        for found, rowids in pools:
            rows = store.view(scope).rows(rowids)
            ids = [[rows[row].record.id, *(getattr(rows[row].record, "source_ids", None) or ())] for row in rowids]
            gold = [bool(set(question.gold) & set(each)) for each in ids]
            name = f"{data.name} ({kinds})"
            yield RankingExample(
                name, f"{data.name}:{question.collection}", weight, found, gold, ids, tuple(question.gold)
            )


def title_of(folder: str, kinds: str) -> str:
    """Return the name of a set's store and of its files."""
    return f"{folder}-{kinds.replace('+', '-')}"


def recording(pools: list[tuple[Any, list[int]]]) -> Callable[..., Any]:
    """Return the order that ships, which leaves the features and the rows of each pool behind."""

    def gains(view: Any, part: Any, best: Any, compared: Any) -> Any:
        pools.append((order_features(view, part, best, compared), part.rowids[best].tolist()))
        return learned_gains(view, part, best, compared)

    return gains


def fit(asked: Sequence[RankingExample]) -> Any:
    """Train the trees on what the mixed score leaves wrong."""
    import lightgbm

    kept = [each for each in asked if any(each.gold) and not all(each.gold)]
    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 15,
        "num_leaves": LEAVES,
        "min_data_in_leaf": LEAST_LEAF,
        "learning_rate": RATE,
        "feature_fraction": 0.5,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 10.0,
        "num_threads": 1,
        "deterministic": True,
        "seed": 1,
        "verbose": -1,
    }
    data = lightgbm.Dataset(
        np.concatenate([each.features for each in kept]),
        np.concatenate([np.array(each.gold, dtype=int) for each in kept]),
        group=[len(each.gold) for each in kept],
        weight=np.concatenate([np.full(len(each.gold), each.weight) for each in kept]),
        init_score=np.concatenate([each.features[:, 0] for each in kept]),
    )
    return lightgbm.train(settings, data, ROUNDS)


def exported(booster: Any, name: str, fitted_on: dict[str, Any]) -> LearnedRanker:
    """Return the trees in the product's own form; thresholds and values keep seven digits."""
    trees = [tree_of(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    return LearnedRanker.model_validate(
        {"id": name, "features": ORDER_FEATURES, "trees": trees, "fitted_on": fitted_on}
    )


def tree_of(structure: dict[str, Any]) -> dict[str, Any]:
    """Lay one tree out as nodes, parents before children, and leaves."""
    nodes: list[list[Any]] = []
    leaves: list[float] = []

    def visit(node: dict[str, Any]) -> int:
        if "split_feature" not in node:
            leaves.append(float(f"{node['leaf_value']:.7g}"))
            return -len(leaves)
        at = len(nodes)
        nodes.append([node["split_feature"], float(f"{node['threshold']:.7g}"), 0, 0])
        nodes[at][2], nodes[at][3] = visit(node["left_child"]), visit(node["right_child"])
        return at

    visit(structure)
    return {"nodes": nodes, "leaves": leaves}


def rank_metrics(each: RankingExample, scores: Any) -> tuple[float, float, float]:
    """Return Recall@10, All@10 and nDCG@10; a fact counts for the turns that it comes from."""
    ranked: dict[str, None] = {}
    for at in np.argsort(-scores, kind="stable").tolist():
        of_fact = each.ids[at][1:] or each.ids[at]
        ranked |= dict.fromkeys(of_fact)
    order = list(ranked)
    recall = recall_at_k(order, each.gold_ids, 10)
    return recall, float(recall == 1.0), ndcg_at_10(order, each.gold_ids)


def show(title: str, pairs: Sequence[tuple[RankingExample, Any]]) -> None:
    """Print one line per set."""
    for name in dict.fromkeys(each.dataset_name for each, _ in pairs):
        mine = [(each, gain) for each, gain in pairs if each.dataset_name == name]
        before = np.mean([rank_metrics(each, each.features[:, 0]) for each, _ in mine], axis=0)
        after = np.mean([rank_metrics(each, each.features[:, 0] + gain) for each, gain in mine], axis=0)
        words = "  ".join(
            f"{label} {old:.3f} → {new:.3f}"
            for label, old, new in zip(("Recall@10", "All@10", "nDCG@10"), before, after, strict=True)
        )
        print(f"{title:22}{name:26}{len(mine):5}  {words}", flush=True)


def out_of_fold(
    asked: Sequence[RankingExample], fold: Callable[[RankingExample], str]
) -> list[tuple[RankingExample, Any]]:
    """Return each question with what trees that never saw its fold give."""
    found = []
    for part in sorted({fold(each) for each in asked}):
        booster = fit([each for each in asked if fold(each) != part])
        found += [(each, booster.predict(each.features)) for each in asked if fold(each) == part]
    return found


def assign_folds(asked: Sequence[RankingExample]) -> dict[str, str]:
    """Put whole conversations into six folds, each set's over all of them."""
    groups = sorted({each.group for each in asked})
    numbers: dict[str, int] = {}
    chosen = {}
    for group in groups:
        folder = group.partition(":")[0]
        chosen[group] = str(numbers.setdefault(folder, 0) % FOLDS)
        numbers[folder] += 1
    return chosen


def main(words: Sequence[str] | None = None) -> int:
    """Collect, measure out of fold, fit on everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the labelled sets")
    parser.add_argument("--stores", type=Path, help="keep the stores here, and use them again")
    parser.add_argument("--weights", type=Path, help="weights for talk that left conversations out")
    parser.add_argument("-o", "--output", type=Path, help="write the fitted order here")
    parser.add_argument("--id", default="recall-loop-order-2", help="name of the fitted order")
    parser.add_argument("--quick", action="store_true", help="fit only, without the figures")
    given = parser.parse_args(words)
    asked: list[RankingExample] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, kinds, weight in SETS:
            place = (given.stores or Path(folder)) / title_of(name, kinds)
            with open_unseen(place, given.weights) as store:
                asked += collect(given.data / name, store, kinds, weight)
            print(f"{name} ({kinds}): {len(asked)} pools so far", file=sys.stderr, flush=True)
    if not given.quick:
        chosen = assign_folds(asked)
        show("conversation unseen", out_of_fold(asked, lambda each: chosen[each.group]))
        show("set unseen", out_of_fold(asked, lambda each: each.group.partition(":")[0]))
    if given.output:
        counts = {
            name: sum(each.dataset_name == name for each in asked)
            for name in dict.fromkeys(each.dataset_name for each in asked)
        }
        made = exported(fit(asked), given.id, {"questions": counts, "method": "LambdaRank, lightgbm"})
        given.output.write_text(json.dumps(made.model_dump(), separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
