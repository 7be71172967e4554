"""How much faster a batch is with more requests at a time, in threads and in processes.

    python benchmarks/batch_speed.py [--data DIR] [--slice N] [--rounds N] [--ways 1x1,8x1,8x2]

A way is CONCURRENCYxPROCESSES. All ways answer the same slice of questions, one way after the other, round after
round; every engine is warm before. What counts is each way's fastest round: other work on the machine only ever slows
one down.
benchmarks/README.md has the figures.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets import load
from recall_loop.evals.ingest import ingest
from recall_loop.graph.batch_engines import Processes, Threads
from recall_loop.graph.batch_requests import plain_requests
from recall_loop.graph.batch_rounds import Rounds
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings import Settings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
GOAL = 1.6


def engine_of(way: str, store: MemoryStore) -> Threads | Processes:
    concurrency, workers = map(int, way.split("x"))
    if workers == 1:
        return Threads(store, Settings(), concurrency)
    return Processes({"path": str(store.path), "settings": Settings()}, concurrency, workers)


def timed(engine: Threads | Processes, requests: list[dict[str, Any]]) -> float:
    began = time.perf_counter()
    lines = [line for some in Rounds(plain_requests(requests), engine, "completed", None) for line in some]
    seconds = time.perf_counter() - began
    if any("error" in line for line in lines):
        raise SystemExit(f"a request failed: {lines}")
    return seconds


def requests_of(data: Path, name: str) -> Iterator[dict[str, Any]]:
    for question in load(data).questions:
        if question.collection == name:
            yield {"id": question.id, "tenant": name, "messages": [{"content": question.question}]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--collection", default="conv-26")
    parser.add_argument("--slice", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--ways", default="1x1,8x1,8x2")
    args = parser.parse_args()
    requests = list(requests_of(args.data, args.collection))
    ways = args.ways.split(",")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_things:
        path = Path(folder) / "store"
        with MemoryStore.open(path) as store:
            ingest(store, load(args.data), [args.collection])
        reader = open_things.enter_context(MemoryStore.open(path, create=False, read_only=True))
        engines = {way: open_things.enter_context(closing(engine_of(way, reader))) for way in ways}
        for engine in engines.values():
            timed(engine, requests[-16:])
        best = dict.fromkeys(ways, float("inf"))
        for turn in range(args.rounds):
            some = requests[: args.slice]
            for way, engine in engines.items():
                best[way] = min(best[way], timed(engine, some))
            shown = ", ".join(f"{way} {seconds:.2f} s" for way, seconds in best.items())
            print(f"round {turn + 1}: fastest {shown}", flush=True)
    first = best[ways[0]]
    for way, seconds in best.items():
        print(f"{way}: {args.slice / seconds:.2f} requests/s, {first / seconds:.2f} times {ways[0]} (goal {GOAL})")


if __name__ == "__main__":
    main()
