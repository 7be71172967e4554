"""How the resident memory of the service grows over thousands of requests.

    python benchmarks/service/memory_growth.py [--requests N] [--clients N] [--records N]

`recall-loop serve` runs on a store of its own; clients search, retrieve, list, read past runs, and write the same few
records again and again, so that what is kept stays the same. Leaves with 1 where memory grows by more than a tenth
from a fifth of the requests to the last, or a request fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import resident_mb
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.memory.store.store import MemoryStore
from tests.service_server import ServiceProcess

TOPICS = ("ferry", "harbour", "timetable", "coffee", "windows", "garden", "invoice", "holiday")
MOST_GROWTH = 1.1
_STEPS = 10


class Client:
    """Requests of all kinds, by number."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._local = local()

    def ask(self, number: int) -> int:
        """Make one request; return its status."""
        if not hasattr(self._local, "client"):
            self._local.client = httpx.Client(base_url=self._url, timeout=120, verify=False)
        client: httpx.Client = self._local.client
        topic, kind = TOPICS[number % 7], number % 10
        if kind < 4:
            return client.post("/api/memory/search", json={"query": f"{topic} number {number}"}).status_code
        if kind < 7:
            messages = [{"content": f"What came before the {topic} number {number}?"}]
            return client.post("/api/memory/retrieve", json={"messages": messages}).status_code
        if kind == 7:
            record = {"kind": "fact", "text": f"The {topic} is number {number}."}
            return client.put(f"/api/memory/records/w-{number % 50}", json=record).status_code
        if kind == 8:
            return client.get("/api/memory/records", params={"limit": 50}).status_code
        return client.post("/api/trajectories/search", json={"query": topic}).status_code


def measure(pid: int, client: Client, requests: int, clients: int) -> tuple[list[tuple[int, float]], int]:
    """Return resident memory in MB after each tenth of the requests, and how many requests failed."""
    figures, failed, step = [(0, resident_mb(pid))], 0, requests // _STEPS
    with ThreadPoolExecutor(clients) as pool:
        for at in range(_STEPS):
            statuses = list(pool.map(client.ask, range(at * step, (at + 1) * step)))
            failed += sum(status >= 300 for status in statuses)
            figures.append(((at + 1) * step, resident_mb(pid)))
    return figures, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--records", type=int, default=500)
    args = parser.parse_args()
    os.environ["RECALL_LOOP_SERVICE_RATE_PER_MINUTE"] = "1000000"
    os.environ["RECALL_LOOP_HISTORY_DAYS"] = "0"  # versions of what is written again are kept otherwise
    console = Console(width=100)
    with tempfile.TemporaryDirectory(prefix="recall-loop-growth-") as name:
        folder = Path(name)
        with MemoryStore.open(folder / "store") as store:
            facts = [{"kind": "fact", "text": f"The {TOPICS[at % 8]} is number {at}."} for at in range(args.records)]
            store.upsert(facts)
        served = ServiceProcess(["--store", str(folder / "store")], folder)
        try:
            served.ready()
            figures, failed = measure(served.process.pid, Client(served.url), args.requests, args.clients)
        finally:
            served.end()
    table = Table(title=f"{args.clients} clients, {args.records} records, {failed} failed", box=box.SIMPLE)
    for column in ("requests", "resident MB"):
        table.add_column(column, justify="right")
    for count, size in figures:
        table.add_row(f"{count:,}", f"{size:.0f}")
    console.print(table)
    early, late = figures[_STEPS // 5][1], figures[-1][1]
    return int(failed > 0 or late > early * MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
