"""What the HTTP service adds to a direct call of the graph, when a stream's first event comes, and what it takes idle.

    python benchmarks/service/service_overhead.py [--rounds 200] [--records 1000]

The service runs as users run it, in a process of its own. Each question is asked directly, of a graph in this process
over the same store, and then over HTTP, on one kept connection; the difference of each pair is the overhead. On a busy
machine look at the processors' time instead: that of the service's process per request, less this one's per call.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

# The service is started as the tests do it.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import resident_mb

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from tests.service_server import ServiceProcess

TOPICS = ("ferry", "granary", "lighthouse", "accordion", "orchard", "boathouse", "bakery", "quarry")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="requests of each kind")
    parser.add_argument("--records", type=int, default=1000, help="records in the store")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with MemoryStore.open(folder / "store") as store:
            store.upsert(
                {
                    "id": f"f{at}",
                    "kind": "fact",
                    "text": f"The {TOPICS[at % len(TOPICS)]} number {at} belongs to family {at % 37}.",
                }
                for at in range(args.records)
            )
        os.environ["RECALL_LOOP_SERVICE_RATE_PER_MINUTE"] = "1000000"
        served = ServiceProcess(["--store", str(folder / "store")], folder)
        try:
            served.ready()
            with MemoryStore.open(folder / "store", read_only=True) as store:
                report(served.process.pid, served.url, args.rounds, store)
        finally:
            served.end()


def report(pid: int, url: str, rounds: int, store: MemoryStore) -> None:
    idle = resident_mb(pid)
    with httpx.Client(base_url=url, timeout=60) as client:
        for at in range(10):
            pair(client, store, at)
        here, there, pairs = 0.0, processor(pid), []
        for at in range(rounds):
            direct, over_http, spent = pair(client, store, at)
            pairs.append((direct, over_http))
            here += spent
        there = processor(pid) - there
        health = [timed(lambda: client.get("/health"))[0] for _ in range(rounds)]
        first = [first_event(client, at) for at in range(rounds)]
    print(f"idle memory: {idle:.0f} MB resident; after {3 * rounds} requests: {resident_mb(pid):.0f} MB")
    show("GET /health", health)
    show("direct call", [direct for direct, _ in pairs])
    show("POST /api/memory/retrieve", [over_http for _, over_http in pairs])
    show("  difference of each pair", [over_http - direct for direct, over_http in pairs])
    print(f"processor time: {here / rounds:.1f} ms per direct call, {there / rounds:.1f} ms per request in the service")
    show("stream: first event", [at for at, _ in first])
    show("stream: first event of the run", [at for _, at in first])


def pair(client: httpx.Client, store: MemoryStore, at: int) -> tuple[float, float, float]:
    """Return milliseconds of a direct call, of the same over HTTP, and this process's processor time for the former."""
    spent = time.process_time()
    direct, result = timed(lambda: retrieve(asking(at), store=store))
    spent = time.process_time() - spent
    over_http, answer = timed(lambda: client.post("/api/memory/retrieve", json=asking(at)))
    assert [fact["id"] for fact in answer.json()["facts"]] == [fact.id for fact in result.facts]
    return direct, over_http, spent * 1000


def processor(pid: int) -> float:
    """Return a process's processor time so far, in milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def first_event(client: httpx.Client, at: int) -> tuple[float, float]:
    """Return after how many milliseconds `accepted` came, and the run's own first event."""
    began, seen = time.perf_counter(), []
    with client.stream("POST", "/api/memory/retrieve/stream", json=asking(at)) as answer:
        for line in answer.iter_lines():
            if line.startswith("event: "):
                seen.append((time.perf_counter() - began) * 1000)
    return seen[0], seen[1]


def asking(at: int) -> dict[str, Any]:
    return {"messages": [{"content": f"Who owns the {TOPICS[at % len(TOPICS)]} number {at}?"}]}


def timed(call: Any) -> tuple[float, Any]:
    """Return the milliseconds of a call, and what it returned."""
    began = time.perf_counter()
    found = call()
    return (time.perf_counter() - began) * 1000, found


def show(name: str, values: Any) -> None:
    ordered = sorted(values)
    p95 = ordered[int(len(ordered) * 0.95)]
    print(f"{name}: p50 {statistics.median(ordered):.1f} ms, p95 {p95:.1f} ms, least {ordered[0]:.1f} ms")


if __name__ == "__main__":
    main()
