"""How much faster a batch is with more requests at a time, in threads and in processes.

    python benchmarks/batch_speed.py [--data DIR] [--slice N] [--rounds N] [--ways 1x1,8x1,8x2]

A way is CONCURRENCYxPROCESSES. All ways answer the same slice of questions, one way after the other, round after
round; every engine is warm before. What counts is how much faster a way is than the first one of the same round: the
median of all rounds, and the least.
benchmarks/README.md has the figures.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.graph.batch.batch_engines import ProcessEngine, ThreadEngine
from recall_loop.graph.batch.batch_requests import RunOptions, requests_from_objects
from recall_loop.graph.batch.batch_rounds import BatchScheduler
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
GOAL = 1.6


def engine_of(way: str, store: MemoryStore) -> ThreadEngine | ProcessEngine:
    concurrency, workers = map(int, way.split("x"))
    if workers == 1:
        return ThreadEngine(store, RunOptions(Settings()), concurrency)
    return ProcessEngine({"location": store.location, "options": RunOptions(Settings())}, concurrency, workers)


def timed(engine: ThreadEngine | ProcessEngine, requests: list[dict[str, Any]]) -> float:
    began = time.perf_counter()
    lines = [
        line for some in BatchScheduler(requests_from_objects(requests), engine, "completed", None) for line in some
    ]
    seconds = time.perf_counter() - began
    if any("error" in line for line in lines):
        raise SystemExit(f"a request failed: {lines}")
    return seconds


def requests_of(data: Path, name: str) -> Iterator[dict[str, Any]]:
    for question in load_dataset(data).questions:
        if question.collection == name:
            yield {"id": question.id, "tenant": name, "messages": [{"content": question.question}]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--collection", default="conv-26")
    parser.add_argument("--slice", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default="1x1,8x1,8x2")
    args = parser.parse_args()
    requests = list(requests_of(args.data, args.collection))
    ways = args.ways.split(",")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_things:
        path = Path(folder) / "store"
        with MemoryStore.open(path) as store:
            ingest(store, load_dataset(args.data), [args.collection])
        reader = open_things.enter_context(MemoryStore.open(path, create=False, read_only=True))
        engines = {way: open_things.enter_context(closing(engine_of(way, reader))) for way in ways}
        for engine in engines.values():
            timed(engine, requests[-args.slice :])
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(args.rounds):
            for way, engine in engines.items():
                taken[way].append(timed(engine, requests[: args.slice]))
            shown = ", ".join(f"{way} {seconds[-1]:.2f} s" for way, seconds in taken.items())
            print(f"round {turn + 1}: {shown}", flush=True)
    for way, seconds in taken.items():
        gains = [first / own for first, own in zip(taken[ways[0]], seconds, strict=True)]
        rates = f"{args.slice / median(seconds):.1f} requests/s, {args.slice / min(seconds):.1f} in its fastest round"
        print(f"{way}: {rates}; {median(gains):.2f} times {ways[0]}, at least {min(gains):.2f} (goal {GOAL})")


if __name__ == "__main__":
    main()
