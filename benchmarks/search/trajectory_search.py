"""Search of past runs on the tau set: how well it finds, what contrasts cost, and what a two-threshold search hides.

    python benchmarks/search/trajectory_search.py [--data path/to/tau] [--runs 10000] [--rounds 60] [--joined 5]

Which runs succeeded at their customer's task is part of the labelled data. It goes in as a tag for the questions'
filter only; neither execution status nor learning value knows of it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from recall_loop.evals.measures.quality_metrics import ndcg_at_10, percentile, recall_at_k
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.contrast.tiers import Tier, TierThresholds
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.memory.trajectories.scoring.outcome_scoring import apply_outcome, score_by_rules
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import RunData, trajectory_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import FAILURE_THRESHOLD, SUCCESS_THRESHOLD, TrajectorySearchParams

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau"
K = 10
# A question may name runs that mustn't be counted, so more than K are asked for.
LIMIT = 60
SCOPE = Scope()
WARM = 5


class CopyCachingEmbedder:
    """The real embedder, which keeps what it made of stored texts: a store of copies costs no more than one of each.

    Copies differ in their last line, which isn't embedded. Queries are embedded again each time.
    """

    def __init__(self) -> None:
        self._own = MiniLmEmbedder()
        self.name, self.dimension = "replayed", self._own.dimension
        self.token_dimension, self.fingerprint = self._own.token_dimension, "replayed:" + self._own.fingerprint
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return vectors and token vectors."""
        heads = [text.partition("\nCopy ")[0] for text in texts]
        missing = [head for head in dict.fromkeys(heads) if head not in self._known]
        if missing:
            vectors, tokens = self._own.embed_documents_with_tokens(missing)
            self._known |= dict(zip(missing, zip(vectors, tokens, strict=True), strict=True))
        found = [self._known[head] for head in heads]
        matrix = np.array([vector for vector, _ in found], dtype=np.float32).reshape(len(found), self.dimension)
        return matrix, [tokens for _, tokens in found]

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors."""
        return self.embed_documents_with_tokens(texts)[0]

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of queries."""
        return self._own.embed_queries(texts)

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return vectors and token vectors of queries."""
        return self._own.embed_queries_with_tokens(texts)


def lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def scored(row: Mapping[str, Any]) -> RunData:
    """Convert one run of the set and score it by the rules."""
    run = convert_run(row["messages"])
    return apply_outcome(run, score_by_rules(run), datetime(2024, 1, 1, tzinfo=UTC))


def records(rows: Sequence[Mapping[str, Any]], runs: Sequence[RunData], count: int) -> Iterator[Trajectory]:
    """Yield `count` records: every run once, then copies that know no gold."""
    for number in range(count):
        at, copy = number % len(rows), number // len(rows)
        text = searchable_text(runs[at]) + (f"\nCopy {copy}" if copy else "")
        name = rows[at]["id"] + (f"-{copy}" if copy else "")
        yield trajectory_record(runs[at], id=name, text=text, tags=(rows[at]["status"],))


def quality(store: MemoryStore, questions: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return nDCG@10 and Recall@10 by kind of question, with the filter that each question has."""
    found: dict[str, list[tuple[float, float]]] = {}
    for question in questions:
        filters = Filters(tags=(question["filters"]["status"],)) if question.get("filters") else Filters()
        hits = search_trajectories(
            store,
            question["question"],
            scope=SCOPE,
            params=TrajectorySearchParams(filters=filters, min_similarity=0.0, limit=LIMIT),
        ).trajectories
        excluded = set(question.get("exclude") or ())
        ranked = [item.id for item in hits if item.id not in excluded]
        figures = ndcg_at_10(ranked, question["gold"]), recall_at_k(ranked, question["gold"], K)
        found.setdefault(question["category"], []).append(figures)
    return {
        name: {
            "questions": len(figures),
            "ndcg@10": sum(ndcg for ndcg, _ in figures) / len(figures),
            "recall@10": sum(recall for _, recall in figures) / len(figures),
        }
        for name, figures in found.items()
    }


def joined(
    rows: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]], size: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return long runs, each of `size` of the runs one after another, and the questions with those that hold a gold."""
    order = np.random.default_rng(5).permutation(len(rows)).tolist()
    groups = [order[at : at + size] for at in range(0, len(order), size)]
    holder = {rows[at]["id"]: f"long-{number}" for number, group in enumerate(groups) for at in group}
    long = [
        {
            "id": f"long-{number}",
            "status": "joined",
            "messages": [each for at in group for each in rows[at]["messages"]],
        }
        for number, group in enumerate(groups)
    ]
    found = []
    for question in questions:
        gold = dict.fromkeys(holder[name] for name in (*question["gold"], *question.get("gold_failure", ())))
        found.append({"question": question["question"], "category": question["category"], "gold": list(gold)})
    return long, found


def hidden(runs: Sequence[RunData]) -> list[tuple[str, int, int]]:
    """Count by tier how many runs a search of score >= 0.7 and <= 0.3 and nothing else hides, and how many this one."""
    thresholds = TierThresholds()
    counts = Counter(thresholds.tier(run.outcome_score) for run in runs)
    seen = {Tier.SUCCESS, Tier.FAILURE}
    rows = [(tier.value, counts[tier], 0 if tier in seen else counts[tier]) for tier in Tier]
    return [*rows, ("all", len(runs), sum(row[2] for row in rows))]


def empty_answers(store: MemoryStore, questions: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Count questions for which the old search shows nothing, and those for which this one does."""
    old = new = 0
    for question in questions:
        bounds = (
            TrajectorySearchParams(min_score=SUCCESS_THRESHOLD),
            TrajectorySearchParams(max_score=FAILURE_THRESHOLD),
        )
        tiers = [search_trajectories(store, question["question"], scope=SCOPE, params=bound) for bound in bounds]
        old += not any(found.trajectories for found in tiers)
        found = search_trajectories(
            store, question["question"], scope=SCOPE, params=TrajectorySearchParams(include_contrasts=True)
        )
        shown = (found.successes, found.moderate, found.failures, found.unscored, found.relevant_experiences)
        new += not any(shown)
    return old, new


def cost(store: MemoryStore, queries: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Time plain and contrast searches by turns; wall and CPU milliseconds."""
    times: dict[str, list[tuple[float, float]]] = {"plain": [], "contrasts": []}
    for number in range(WARM + rounds):
        names = list(times) if number % 2 else list(times)[::-1]
        for name in names:
            started, used = time.perf_counter(), time.process_time()
            search_trajectories(
                store,
                queries[number % len(queries)],
                scope=SCOPE,
                params=TrajectorySearchParams(include_contrasts=name == "contrasts"),
            )
            if number >= WARM:
                times[name].append(((time.perf_counter() - started) * 1e3, (time.process_time() - used) * 1e3))
    return {
        name: {
            "p50": percentile([wall for wall, _ in both], 0.5),
            "p95": percentile([wall for wall, _ in both], 0.95),
            "cpu_p50": percentile([cpu for _, cpu in both], 0.5),
        }
        for name, both in times.items()
    }


def spread(runs: Sequence[RunData]) -> dict[str, float]:
    """Return quantiles of the learning values by rules."""
    values = [run.outcome_score for run in runs if run.outcome_score is not None]
    return {name: percentile(values, share) for name, share in (("least", 0), ("median", 0.5), ("most", 1))}


def thirds(runs: Sequence[RunData]) -> list[RunData]:
    """Return the runs with learning values spread over [0,1] and some unscored: no tier of the timing is empty."""
    return [
        run.model_copy(update={"outcome_score": None if number % 20 == 0 else (number * 37 % 101) / 100})
        for number, run in enumerate(runs)
    ]


def show(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(*columns, title=name)
    for row in rows:
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)


def measure(arguments: argparse.Namespace) -> None:
    """Print everything."""
    rows, questions = lines(arguments.data / "trajectories.jsonl"), lines(arguments.data / "questions.jsonl")
    if arguments.joined > 1:
        rows, questions = joined(rows, questions, arguments.joined)
    runs, embedder = [scored(row) for row in rows], CopyCachingEmbedder()
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert(records(rows, runs, len(rows)))
        found = quality(store, questions)
        by_kind = [(name, *figures.values()) for name, figures in found.items()]
        show("quality", ("kind", "questions", "nDCG@10", "Recall@10"), by_kind)
        show("learning value by rules", ("quantile", "value"), list(spread(runs).items()))
        show("hidden", ("tier", "runs", "hidden by two thresholds"), hidden(runs))
        old, new = empty_answers(store, questions)
        show("questions without any answer", ("two thresholds", "contrasts here"), [(old, new)])
    if arguments.runs:
        with MemoryStore.in_memory(embedder=embedder) as store:
            store.upsert(records(rows, thirds(runs), arguments.runs))
            times = cost(store, [question["question"] for question in questions], arguments.rounds)
        rows_of = [(name, *row.values()) for name, row in times.items()]
        ratios = [times["contrasts"][key] / times["plain"][key] for key in ("p50", "p95", "cpu_p50")]
        columns = ("search", "p50", "p95", "CPU p50")
        show(f"milliseconds at {arguments.runs} runs", columns, [*rows_of, ("ratio, goal <= 2", *ratios)])


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tau set")
    parser.add_argument("--runs", type=int, default=10_000, help="runs in the store whose searches are timed; 0 = none")
    parser.add_argument("--rounds", type=int, default=60, help="timed searches of each kind")
    parser.add_argument("--joined", type=int, default=1, help="make long runs of so many one after another")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
