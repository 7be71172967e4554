"""How long the page's memory view waits for the service with many records: overview, pages, a search, a record.

The vectors are of a stand-in embedder: they take no part in what is measured but for the search, which is by words.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import numpy as np
import uvicorn
from rich.console import Console

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.settings.settings import Settings

WORDS = "anchor birch cellar dune ember ferry garnet harbour island juniper kettle lantern".split()  # noqa: SIM905
GOAL_MS = 300


class StandIn:
    """Eight numbers for a text, by its length."""

    name = fingerprint = "stand-in-8"
    dimension = 8

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return a vector for each text."""
        found = np.array([[1.0 + len(text) % (7 + at) for at in range(8)] for text in texts], dtype=np.float32)
        return found.reshape(-1, 8) / np.linalg.norm(found.reshape(-1, 8), axis=1, keepdims=True)

    embed_queries = embed_documents


def fill(path: Path, number: int) -> None:
    chance = random.Random(7)
    with MemoryStore.open(path, embedder=StandIn()) as store:
        for start in range(0, number, 1000):
            store.upsert(
                {
                    "id": f"r{at}",
                    "kind": "fact" if at % 5 == 0 else "message",
                    "text": f"Note {at} on {' '.join(chance.sample(WORDS, 4))}.",
                    "user_id": f"u{at % 40}",
                    "agent_id": f"a{at % 7}",
                    "source_ids": [f"r{at - 1}"] if at % 5 == 0 and at else [],
                    "created_at": f"202{at % 6}-{1 + at % 12:02}-{1 + at % 28:02}T{at % 24:02}:00:00Z",
                }
                for at in range(start, min(start + 1000, number))
            )


def measure(calls: dict[str, Callable[[], httpx.Response]], rounds: int) -> None:
    console = Console()
    for name, call in calls.items():
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            call().raise_for_status()
            took.append(1000 * (time.perf_counter() - began))
        said = "" if max(took) < GOAL_MS else f"  (over {GOAL_MS} ms)"
        console.print(f"{name:28} median {statistics.median(took):7.1f} ms   max {max(took):7.1f} ms{said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "store", options.records)
        settings = Settings(store_path=str(Path(folder) / "store"))
        app = create_app(ServiceConfig(), settings=settings, embedder=StandIn())
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/api/memory"
        with httpx.Client(timeout=60) as client:
            newest = f"{address}/records?order=newest&limit=50&include_superseded=true"
            cursor = client.get(newest).json()["next_cursor"]
            search = {"query": "ferry lantern", "mode": "fts", "limit": 50, "filters": {"include_superseded": True}}
            middle = f"{address}/records/r{options.records // 2}"
            measure(
                {
                    "overview": lambda: client.get(f"{address}/overview"),
                    "first page": lambda: client.get(newest),
                    "next page": lambda: client.get(f"{newest}&cursor={cursor}"),
                    "page of a user's messages": lambda: client.get(f"{newest}&user_id=u3&content_types=message"),
                    "page of questions": lambda: client.get(f"{newest}&speech_acts=question"),
                    "page of a month": lambda: client.get(f"{newest}&start_time=2024-03-01&end_time=2024-04-01"),
                    "search by words": lambda: client.post(f"{address}/search", json=search),
                    "record": lambda: client.get(middle),
                    "record's relations": lambda: client.get(f"{middle}/relations"),
                },
                options.rounds,
            )
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
