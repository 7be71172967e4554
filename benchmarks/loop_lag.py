"""How long the event loop stands still while many retrievals run on it.

    python benchmarks/loop_lag.py [--runs N] [--records N] [--rounds N]

A ticker wakes up every few milliseconds while so many `aretrieve` are awaited together; how late it wakes is how long
nothing else could run. Beside it stands the same ticker while the runs go on in threads that know no event loop, which
is what the interpreter's lock alone costs, and with nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.graph.run import aretrieve, retrieve
from recall_loop.memory.store.store import MemoryStore

PLACES = ("harbour", "granary", "mill", "ferry", "station", "garden", "chapel", "quarry")
_TICK_SECONDS = 0.002
_THREADS = 4


async def lags(work: Awaitable[object]) -> list[float]:
    """Return how many milliseconds late each tick came until the work was done."""
    late: list[float] = []
    running = asyncio.ensure_future(work)
    while not running.done():
        began = time.perf_counter()
        await asyncio.sleep(_TICK_SECONDS)
        late.append((time.perf_counter() - began - _TICK_SECONDS) * 1000)
    await running
    return late


async def measure(store: MemoryStore, runs: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Return median over rounds of the longest lag and of its 99th percentile, and runs a second, by way."""
    questions = [f"Who keeps the {PLACES[at % len(PLACES)]} number {at}?" for at in range(runs)]
    pool = ThreadPoolExecutor(_THREADS)
    loop = asyncio.get_running_loop()
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "idle": lambda: asyncio.sleep(0.5),
        "threads": lambda: asyncio.gather(
            *(loop.run_in_executor(pool, lambda one=one: retrieve(one, store=store)) for one in questions)
        ),
        "aretrieve": lambda: asyncio.gather(*(aretrieve(one, store=store) for one in questions)),
    }
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    await aretrieve(questions[0], store=store)
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            late = sorted(await lags(way()))
            seconds = time.perf_counter() - began
            found[name].append((late[-1], late[int(len(late) * 0.99)], runs / seconds))
    pool.shutdown()
    return {name: tuple(map(statistics.median, zip(*rows, strict=True))) for name, rows in found.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=80, help="retrievals at once")
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--freeze", action="store_true", help="take what is there at the start out of Python's garbage collection"
    )
    args = parser.parse_args()
    store = MemoryStore.in_memory()
    facts = [
        {"id": f"f-{at}", "kind": "fact", "text": f"Person {at} keeps the {PLACES[at % len(PLACES)]} number {at}."}
        for at in range(args.records)
    ]
    store.upsert(facts)
    if args.freeze:
        retrieve("Who keeps the harbour?", store=store)
        gc.collect()
        gc.freeze()
    figures = asyncio.run(measure(store, args.runs, args.rounds))
    table = Table(title=f"{args.runs} retrievals at once, {args.records} records", box=box.SIMPLE)
    for column in ("way", "longest lag ms", "p99 lag ms", "runs a second"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, (longest, p99, rate) in figures.items():
        table.add_row(name, f"{longest:.1f}", f"{p99:.1f}", "" if name == "idle" else f"{rate:.1f}")
    Console(width=100).print(table)
    store.close()


if __name__ == "__main__":
    main()
