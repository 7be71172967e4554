"""Fit the learned orders of short and of long turns, and say what they are worth out of fold.

    python benchmarks/weights/fit_order.py [--talk DIR] [--train DIR] [--weights DIR] [--folds DIR] [-o DIR]

Needs `pip install lightgbm`. Every answerable question that has gold is searched once as the loop asks it first, and
the features of its best 100 candidates are what the trees learn from, gold or not (`order_pools.py`). Passages that
stand alone keep the mixed score, so nothing is learned from them. `--weights` names a folder of weights for talk that
left conversations out (`unseen.py`): from conversations that the embedder has seen, trees would learn to trust it too
much. Printed are Recall@10, All@10 and nDCG@10 of the stage alone, before and after, for questions whose conversation
the trees didn't see.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from order_pools import TALK, TRAIN, RankingExample, all_pools
from unseen import unseen_embedder

from recall_loop.evals.measures.quality_metrics import ndcg_at_10, recall_at_k
from recall_loop.memory.search.rerank.learned_order import (
    LONG_TURNS_FILE,
    ORDER_FEATURES,
    SHORT_TURNS_FILE,
    LearnedRanker,
)

FOLDS = 6
ROUNDS, LEAVES, LEAST_LEAF, RATE = 150, 8, 50, 0.05


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
        for long_turns in (False, True):
            alike = [each for each in asked if each.long_turns is long_turns]
            booster = fit([each for each in alike if fold(each) != part])
            found += [(each, booster.predict(each.features)) for each in alike if fold(each) == part]
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


def write_orders(asked: Sequence[RankingExample], name: str, folder: Path) -> None:
    """Fit the orders of short and of long turns, and write them under the names that the product gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    for long_turns, file in ((False, SHORT_TURNS_FILE), (True, LONG_TURNS_FILE)):
        part = [each for each in asked if each.long_turns is long_turns]
        counts = dict(Counter(each.dataset_name for each in part))
        title = f"{name}-{'long' if long_turns else 'short'}"
        made = exported(fit(part), title, {"questions": counts, "method": "LambdaRank, lightgbm"})
        text = json.dumps(made.model_dump(), separators=(",", ":")) + "\n"
        (folder / file).write_text(text, encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Collect, measure out of fold, fit on everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talk", type=Path, default=TALK, help="set that talk_set.py wrote")
    parser.add_argument("--train", type=Path, default=TRAIN, help="folder of the permissive sets")
    parser.add_argument("--weights", type=Path, help="weights for talk that left conversations out")
    parser.add_argument("-o", "--output", type=Path, help="folder to write the fitted orders to")
    parser.add_argument(
        "--folds", type=Path, help="folder to write orders to that left a sixth of the conversations out"
    )
    parser.add_argument("--id", default="recall-loop-order-3", help="name of the fitted order")
    parser.add_argument("--quick", action="store_true", help="fit only, without the figures")
    given = parser.parse_args(words)
    asked = all_pools(given.talk, given.train, unseen_embedder(given.weights))
    if not given.quick:
        chosen = assign_folds(asked)
        show("conversation unseen", out_of_fold(asked, lambda each: chosen[each.group]))
    if given.folds:
        chosen = assign_folds(asked)
        for fold in range(FOLDS):
            kept = [each for each in asked if chosen[each.group] != str(fold)]
            write_orders(kept, f"without-{fold}", given.folds / str(fold))
    if given.output:
        write_orders(asked, given.id, given.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
