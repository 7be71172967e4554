"""What planning from experience is worth: half of a conversation's questions with and without the runs of the others.

    python benchmarks/loop/experience.py [--data DIR] [--kinds messages] [--collections N] [--json]

The first half of each collection's questions is asked and captured (TRAJ-9); then the second half is asked twice, with
that experience and without. Prints both, whatever the sign: iterations, queries, Recall@10, nDCG@10 and new facts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.evals.measures.retrieval_metrics import expand_to_sources, score_ranking
from recall_loop.evals.runs.dataset_ingest import ingest, open_eval_store
from recall_loop.evals.runs.runner import EvalOptions, select_questions, settings_with
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo"
WITHOUT, WITH = "without", "with"


def ask(question: LabelledQuestion, store: MemoryStore, settings: Settings, newest: Any) -> dict[str, float]:
    """Return what one question brought."""
    request = {
        "messages": [{"content": question.question}],
        "tenant": question.collection,
        "reference_time": question.reference_time or newest or "2026-01-01",
        "max_facts": 20,
    }
    result = retrieve(request, store=store, settings=settings)
    found = score_ranking(expand_to_sources(result.facts), question.gold, (10,))
    return {
        "iterations": result.stop.iteration,
        "queries": result.metadata["queries_executed"],
        "new_facts": sum(result.metadata["new_facts_by_iteration"]),
        "recall@10": found["recall@10"],
        "ndcg@10": found["ndcg@10"],
    }


def main() -> int:
    arguments = _arguments()
    dataset = load_dataset(arguments.data, arguments.kinds)
    by_collection: dict[str, list[LabelledQuestion]] = defaultdict(list)
    for question in select_questions(dataset, EvalOptions()):
        by_collection[question.collection].append(question)
    plain = settings_with(arguments.set)
    rows: dict[str, list[dict[str, float]]] = {WITHOUT: [], WITH: []}
    for name in list(by_collection)[: arguments.collections]:
        questions = by_collection[name]
        first, second = questions[: len(questions) // 2], questions[len(questions) // 2 :]
        with open_eval_store(None, plain) as store:
            newest = ingest(store, dataset, [name])[name].newest
            rows[WITHOUT] += [ask(question, store, plain, newest) for question in second]
            for question in first:
                ask(question, store, plain.model_copy(update={"capture_runs": True}), newest)
            learned = plain.model_copy(update={"use_experience": True})
            rows[WITH] += [ask(question, store, learned, newest) for question in second]
        sys.stderr.write(f"{name}: {len(first)} captured, {len(second)} asked\n")
    figures = {way: {key: round(mean(row[key] for row in found), 4) for key in found[0]} for way, found in rows.items()}
    if arguments.json:
        sys.stdout.write(json.dumps({"questions": len(rows[WITH])} | figures, indent=2) + "\n")
        return 0
    sys.stdout.write(f"{len(rows[WITH])} questions{'':<4}" + "".join(f"{way:>12}" for way in figures) + "\n")
    for key in figures[WITH]:
        sys.stdout.write(f"{key:<16}" + "".join(f"{figures[way][key]:>12.4f}" for way in figures) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data set (default: %(default)s)")
    parser.add_argument("--kinds", help="documents to load, as for `recall-loop eval`")
    parser.add_argument("--collections", type=int, help="only so many collections (default: all)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
