"""What the HTTP service adds to a direct call of the graph, when a stream's first event comes, and what it takes idle.

    python benchmarks/service_overhead.py [--rounds 200] [--records 1000]

The service runs as users run it, in a process of its own, and answers the same requests as a graph in that very
process would: what a request costs beyond the run is its time at the client less the run's own `duration_ms`. Requests
go over one kept connection, one at a time.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from recall_loop.memory.store.store import MemoryStore

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
        process, url = start(folder)
        try:
            report(process.pid, url, args.rounds)
        finally:
            process.terminate()
            process.wait(60)


def start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the service, and return it with its address when it is ready."""
    log = folder / "log"
    command = [sys.executable, "-m", "recall_loop.cli", "serve", "--store", str(folder / "store"), "--port", "0"]
    environment = {**os.environ, "RECALL_LOOP_SERVICE_RATE_PER_MINUTE": "1000000"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env=environment)
    while True:
        found = re.search(r" at (http://\S+)", log.read_text())
        if found:
            try:
                httpx.get(f"{found[1]}/ready", timeout=60)
                return process, found[1]
            except httpx.HTTPError:
                pass
        time.sleep(0.1)


def report(pid: int, url: str, rounds: int) -> None:
    idle = resident(pid)
    with httpx.Client(base_url=url, timeout=60) as client:
        for at in range(10):
            client.post("/api/memory/retrieve", json=asking(at))
        overhead, whole = zip(*(measured(client, at) for at in range(rounds)), strict=True)
        health = [timed(lambda: client.get("/health"))[0] for _ in range(rounds)]
        first = [first_event(client, at) for at in range(rounds)]
    print(f"idle memory: {idle:.0f} MB resident; after {3 * rounds} requests: {resident(pid):.0f} MB")
    show("GET /health", health)
    show("POST /api/memory/retrieve, whole", whole)
    show("  beyond the run's own duration", overhead)
    show("stream: first event", [at for at, _ in first])
    show("stream: first event of the run", [at for _, at in first])


def measured(client: httpx.Client, at: int) -> tuple[float, float]:
    seconds, answer = timed(lambda: client.post("/api/memory/retrieve", json=asking(at)))
    return seconds * 1000 - answer.json()["metadata"]["duration_ms"], seconds * 1000


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
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def resident(pid: int) -> float:
    """Return a process's resident memory in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def show(name: str, values: Any) -> None:
    ordered = sorted(values)
    p95 = ordered[int(len(ordered) * 0.95)]
    print(f"{name}: p50 {statistics.median(ordered):.1f} ms, p95 {p95:.1f} ms, least {ordered[0]:.1f} ms")


if __name__ == "__main__":
    main()
