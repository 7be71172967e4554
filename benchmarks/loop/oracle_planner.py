"""How fully the loop uses a good plan, and how little a bad one harms it, on MuSiQue.

    python benchmarks/loop/oracle_planner.py [--data DIR] [--plans NAME …] [--json]

A chat endpoint on loopback plans every question by its gold hops, through the protocol that any model speaks. Plans:
`none` (no model), `oracle` (all hops), `chain` (one hop a round), `reversed` (last hop first), `half_first` and
`half_last` (the other half from another question), `foreign` (all hops from another question).
"""

from __future__ import annotations

import argparse
import html
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the endpoint is that of the tests

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import expand_to_sources, score_ranking
from recall_loop.evals.runs.dataset_ingest import ingest, open_eval_store
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.planners import prompt_section, query_fields
from tests.llm_endpoint import ChatEndpoint, RecordedRequest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "musique"
REFERENCE_TIME = "2026-01-01T00:00:00Z"
NONE = "none"
# A question's wrong hops are those of the question so many places further.
_AWAY = 17
Plans = dict[str, Callable[[list[str], list[str], int], Sequence[str]]]
PLANS: Plans = {
    "oracle": lambda own, _, __: own,
    "chain": lambda own, _, turn: own[turn - 1 : turn],
    "reversed": lambda own, _, __: own[::-1],
    "half_first": lambda own, other, _: [hop if at % 2 == 0 else other[at % len(other)] for at, hop in enumerate(own)],
    "half_last": lambda own, other, _: [hop if at % 2 == 1 else other[at % len(other)] for at, hop in enumerate(own)],
    "foreign": lambda _, other, __: other,
}


def hops(question: dict[str, Any]) -> list[str]:
    """Return the sub-questions, with the answers of earlier ones in their places."""
    found: list[str] = []
    answers: list[str] = []
    for hop in question["hops"]:
        text = hop["sub_question"]
        for number, answer in enumerate(answers, 1):
            text = text.replace(f"#{number}", answer)
        found.append(text.replace(">>", " "))
        answers.append(hop["answer"])
    return found


class OraclePlanner:
    """Plans each question by its hops, as the named plan has them."""

    def __init__(self, folder: Path, plan: str) -> None:
        lines = (folder / "questions.jsonl").read_text("utf-8").splitlines()
        self._hops = {" ".join(found["question"].split()): hops(found) for found in map(json.loads, lines)}
        self._names = list(self._hops)
        self._plan = PLANS[plan]
        self._turns: Counter[str] = Counter()

    def __call__(self, asked: RecordedRequest) -> dict[str, Any]:
        """Return the reply to one prompt."""
        if asked.schema == "evaluate":
            return {"uncovered": [], "reason": "", "confidence": "low", "stop": False}
        question = html.unescape(prompt_section(asked, "question"))
        if not prompt_section(asked, "tried"):
            self._turns[question] = 0
        self._turns[question] += 1
        other = self._names[(self._names.index(question) + _AWAY) % len(self._names)]
        texts = self._plan(self._hops[question], self._hops[other], self._turns[question])
        return {"tool": "search_all", "strategy": "", "queries": query_fields(*texts)}


def measure(plan: str, folder: Path, dataset: Dataset, store: MemoryStore) -> dict[str, float]:
    """Return the mean figures of all questions under one plan."""
    if plan == NONE:
        return _asked(dataset, store, None)
    with ChatEndpoint(OraclePlanner(folder, plan)) as endpoint:
        return _asked(dataset, store, endpoint.model())


def _asked(dataset: Dataset, store: MemoryStore, model: Any) -> dict[str, float]:
    rows = []
    for question in dataset.questions:
        request = {
            "messages": [{"content": question.question}],
            "tenant": question.collection,
            "reference_time": REFERENCE_TIME,
            "max_facts": 20,
            "write_answer": False,
        }
        result = retrieve(request, store=store, settings=Settings(), llm=model)
        found = score_ranking(expand_to_sources(result.facts), question.gold, (10,))
        rows.append(found | {"iterations": result.stop.iteration, "calls": result.metadata["llm_calls"]})
    return {name: round(mean(row[name] for row in rows), 4) for name in rows[0]}


def main() -> int:
    arguments = _arguments()
    dataset = load_dataset(arguments.data, "all")
    with open_eval_store(None, Settings()) as store:
        ingest(store, dataset, list(dataset.collections))
        figures = {plan: measure(plan, arguments.data, dataset, store) for plan in arguments.plans}
    if arguments.json:
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        return 0
    names = ["all@10", "recall@10", "ndcg@10", "iterations", "calls"]
    sys.stdout.write(f"{'plan':<12}" + "".join(f"{name:>12}" for name in names) + "\n")
    for plan, row in figures.items():
        sys.stdout.write(f"{plan:<12}" + "".join(f"{row[name]:>12.3f}" for name in names) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    known = [NONE, *PLANS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of MuSiQue (default: %(default)s)")
    parser.add_argument("--plans", nargs="+", choices=known, default=known, help="plans to run (default: all)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
