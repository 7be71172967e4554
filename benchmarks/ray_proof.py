"""A batch on a local Ray cluster of two actors beside the same batch here, and once more with actors killed.

    python benchmarks/ray_proof.py [--requests N] [--actors N] [--backend postgres]

Needs the ray extra (80 MB to download, 240 MB on disk). Begins a Chroma server or a PostgreSQL, and a cluster, all on
the loopback address; leaves with 1 where a line differs or a port is open to other machines.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recall_loop.graph.batch.batch_run import stream_batch
from recall_loop.graph.batch.ray_engine import RayCluster
from recall_loop.memory.store.store import MemoryStore
from tests.chroma_server import ChromaProcess
from tests.foreign.postgres_backend import PostgresServer

THINGS = ("anchor", "birch", "cellar", "dune", "ember", "ferry", "garnet", "harbour")
console = Console()


def request(number: int) -> dict[str, Any]:
    question = f"Where is the {THINGS[number % 8]} of room {number % 50}?"
    return {"id": f"q{number}", "messages": [{"content": question}], "reference_time": "2026-01-02T03:04:05Z"}


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if not key.endswith(("_ms", "seconds"))}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def children() -> list[int]:
    """Return the processes that descend from this one."""
    parents = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


def kill_an_actor() -> None:
    for process in children():
        with suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::RayWorker"):
                os.kill(process, signal.SIGKILL)
                return


def open_ports() -> list[str]:
    """Return where processes of this run listen, as far as it isn't the loopback address."""
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=False).stdout.splitlines()
    own = {f"pid={process}," for process in (*children(), os.getpid())}
    places = [line.split()[3] for line in listed if any(mark in line for mark in own)]
    return [place for place in places if not place.startswith(("127.", "[::1]", "[::ffff:127."))]


def run(asked: list[dict[str, Any]], store: MemoryStore, cluster: RayCluster | None, kills: int = 0) -> list[Any]:
    began, found, ports = time.monotonic(), [], []
    first = None
    for line in stream_batch(asked, store=store, ray=cluster, concurrency=2, order="input"):
        first = first or time.monotonic()
        found.append(timeless(line))
        if kills and len(found) % (len(asked) // (kills + 1)) == 0:
            kill_an_actor()
        if cluster and len(found) == 1:
            ports = open_ports()
    seconds = time.monotonic() - (first or began)
    words = f"{cluster.actors} actors" if cluster else "here"
    console.print(
        f"{words}, {kills} kills: {len(found):,} lines, first after {(first or began) - began:.1f} s, "
        f"then {len(found) / max(seconds, 1e-9):.1f}/s"
    )
    if ports:
        raise SystemExit(f"open to other machines: {', '.join(ports)}")
    return found


@contextmanager
def place(backend: str) -> Iterator[tuple[Path | str, str | None]]:
    """Give a place for a store, and its Chroma server: in PostgreSQL vectors are compared without one."""
    with tempfile.TemporaryDirectory(prefix="recall-loop-ray-") as folder:
        if backend == "postgres":
            with closing(PostgresServer()) as postgres:
                yield postgres.address("ray"), None
            return
        server = ChromaProcess(Path(folder) / "server")
        server.start()
        try:
            yield Path(folder) / "store", server.url
        finally:
            server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--backend", choices=("sqlite", "postgres"), default="sqlite")
    args = parser.parse_args()
    cluster = RayCluster(actors=args.actors)
    asked = [request(number) for number in range(args.requests)]
    records = [
        {"id": f"r{n}", "kind": "fact", "text": f"The {THINGS[n % 8]} of room {n % 50} is on shelf {n}."}
        for n in range(2000)
    ]
    with place(args.backend) as (where, url):
        with MemoryStore.open(where, url=url) as store:
            store.upsert(records)
        with MemoryStore.open(where, read_only=True) as store:
            here = run(asked, store, None)
            same = [run(asked, store, cluster) == here, run(asked, store, cluster, kills=3) == here]
    console.print(f"line by line the same: {same[0]}, with killed actors: {same[1]}")
    console.print_json(json.dumps({"requests": args.requests, "same": same}))
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
