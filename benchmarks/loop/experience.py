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

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.dataset_ingest import ingest, open_eval_store
from recall_loop.evals.runs.loop_policy import LoopPolicy
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, prompts_from_dataset, settings_with
from recall_loop.evals.runs.runner import ReplayRun, replay

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo"
WITHOUT, WITH = "without", "with"


def figures_of(run: ReplayRun) -> dict[str, float]:
    """Return what one question brought."""
    return {
        "iterations": run.result.iterations,
        "queries": run.result.executed,
        "new_facts": sum(run.result.new_facts),
        "recall@10": run.scores["recall@10"],
        "ndcg@10": run.scores["ndcg@10"],
    }


def main() -> int:
    arguments = _arguments()
    dataset = load_dataset(arguments.data, arguments.kinds)
    by_collection: dict[str, list[ReplayPrompt]] = defaultdict(list)
    for prompt in prompts_from_dataset(dataset, EvalOptions(ks=(10, 20))):
        by_collection[prompt.request.tenant].append(prompt)
    plain = settings_with(arguments.set)
    without = LoopPolicy(plain, WITHOUT)
    capturing = LoopPolicy(plain.model_copy(update={"capture_runs": True}), "capturing")
    learned = LoopPolicy(plain.model_copy(update={"use_experience": True}), WITH)
    rows: dict[str, list[dict[str, float]]] = {WITHOUT: [], WITH: []}
    for name in list(by_collection)[: arguments.collections]:
        prompts = by_collection[name]
        first, second = prompts[: len(prompts) // 2], prompts[len(prompts) // 2 :]
        with open_eval_store(None, plain) as store:
            ingest(store, dataset, [name])
            for policy, asked in ((without, second), (capturing, first), (learned, second)):
                found = [figures_of(run) for run in replay(asked, [policy], store, (10,))] if asked else []
                if policy is not capturing:
                    rows[policy.name] += found
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
