"""Ask every question of the development part through the whole loop, ordered by trees that never saw its conversation.

    python benchmarks/weights/order_runs.py -o DIR [--data DIR] [--stores DIR] [--weights DIR]

The confidence mapping that ships is fitted on these runs (`recall-loop calibrate --replay DIR/*.jsonl`): from runs that
the trees which ship ordered it would learn from results that are better than they are on users' conversations. So with
the embedder's weights for talk: `--weights` names those that left conversations out (`unseen.py`). Prints
Recall@10, All@10 and nDCG@10 of each set, the figures that docs/search.md and docs/evaluation.md give. Needs
`pip install lightgbm`. About half an hour on two processors, the stores included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
from fit_order import DATA, FOLDS, SETS, assign_folds, collect, exported, fit, title_of
from unseen import fill_store, open_unseen

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.replay import eval_report
from recall_loop.evals.runs.dataset_ingest import CROSS_COLLECTION, with_cross_collection_questions
from recall_loop.evals.runs.prompts import EvalOptions
from recall_loop.evals.runs.runner import ReplayRun, run_evaluation
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.rerank.learned import order_features
from recall_loop.memory.search.rerank.learned_order import LearnedRanker
from recall_loop.memory.search.rerank.rerank_stage import SearchParts
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import RetrievalParts
from recall_loop.state.settings.settings import Settings

# Questions of the next conversation that each one is asked as well, by folder; passages have only one collection.
FOREIGN_ASKED = {"locomo": 30, "beam": 12}
# Folder and kinds of sets that the learned order has no part in.
PASSAGES = (("musique", "all"), ("hotpotqa", "all"))
Figures = list[tuple[float, float, float]]


def fit_orders(data: Path, stores: Path, weights: Path | None) -> tuple[dict[str, str], list[LearnedRanker]]:
    """Return which fold each conversation is in, and for each fold the order fitted without it."""
    asked = []
    for folder, kinds, weight in SETS:
        with open_unseen(stores / title_of(folder, kinds), weights) as store:
            asked += list(collect(data / folder, store, kinds, weight))
    chosen = assign_folds(asked)
    kept = [[each for each in asked if chosen[each.group] != str(part)] for part in range(FOLDS)]
    return chosen, [exported(fit(part), f"without-{number}", {}) for number, part in enumerate(kept)]


def answer_unseen(
    dataset: Dataset, opened: Callable[[], MemoryStore], chosen: dict[str, str], orders: list[LearnedRanker]
) -> Iterator[ReplayRun]:
    """Ask all questions, fold by fold, each with the order that hasn't seen it."""
    parts: list[list[LabelledQuestion]] = [[] for _ in range(FOLDS)]
    for question in dataset.questions:
        parts[int(chosen.get(f"{dataset.name}:{question.collection}", 0))].append(question)
    with opened() as store:
        fill_store(store, dataset)
        for order, part in zip(orders, parts, strict=True):
            if part:
                chosen_part, options = replace(dataset, questions=part), EvalOptions(unscored=True)
                yield from run_evaluation(chosen_part, options, store, settings=Settings(), parts=ordered_by(order))


def ordered_by(order: LearnedRanker) -> RetrievalParts:
    """Return the parts of a retrieval whose searches use another order."""
    search = SearchParts(gains=lambda *candidates: order.gains(order_features(*candidates)))
    return RetrievalParts(search=partial(search_many, parts=search))


def write_answers(found: Iterator[ReplayRun], own: TextIO, foreign: TextIO) -> Figures:
    """Write a line for each answer, and return the figures of what can be scored."""
    figures: Figures = []
    for answer in found:
        file = foreign if answer.prompt.category == CROSS_COLLECTION else own
        line = eval_report.question_line(answer)
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if answer.prompt.scored:
            scores = line["scores"]
            figures.append((scores["recall@10"], scores["all@10"], scores["ndcg@10"]))
    return figures


def main(words: Sequence[str] | None = None) -> int:
    """Fit the orders, ask, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the labelled sets")
    parser.add_argument("--stores", type=Path, help="keep the stores here, and use them again")
    parser.add_argument("--weights", type=Path, help="weights for talk that left conversations out")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the files to write")
    given = parser.parse_args(words)
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stores = given.stores or Path(folder)
        chosen, orders = fit_orders(given.data, stores, given.weights)
        for name, kinds in (*((name, kinds) for name, kinds, _ in SETS), *PASSAGES):
            dataset, title = load_dataset(given.data / name, kinds), title_of(name, kinds)
            if name in FOREIGN_ASKED:
                dataset = with_cross_collection_questions(dataset, FOREIGN_ASKED[name])
            with (
                (given.output / f"{title}.jsonl").open("w", encoding="utf-8") as own,
                (given.output / f"{title}-foreign.jsonl").open("w", encoding="utf-8") as foreign,
            ):
                opened = partial(open_unseen, stores / title, given.weights)
                figures = write_answers(answer_unseen(dataset, opened, chosen, orders), own, foreign)
            recall, complete, ndcg = np.mean(figures, axis=0)
            print(f"{title:26}{len(figures):5}  Recall@10 {recall:.3f}  All@10 {complete:.3f}  nDCG@10 {ndcg:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
