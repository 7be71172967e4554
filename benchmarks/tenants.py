"""What thousands of tenants cost in one store, and what one Chroma collection each would cost.

    python benchmarks/tenants.py [--tenants N] [--records N] [--collections N]

One store holds `--tenants` tenants with `--records` records each; beside it, plain Chroma holds
`--collections` collections with as many records each, scaled up in the last column. Vectors are random, of
384 numbers; nothing is embedded.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope

_SEARCHES = 50


class RandomEmbedder:
    """An embedder that costs nothing: a random direction per text."""

    name, dimension, fingerprint = "random", 384, "random:384"

    def embed_documents(self, texts: Any) -> Any:
        """Return one vector per text."""
        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), 384)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed_documents


def records(tenant: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the messages of one tenant."""
    for number in range(count):
        text = f"Tenant {tenant} wrote message {number} about the quay, the ferry and the tide at noon."
        yield {"id": f"m{number}", "kind": "message", "text": text, "conversation_id": "c", "position": number}


def size(folder: Path) -> float:
    """Return megabytes on disk."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def handles() -> int:
    """Return the number of open file handles of this process; 0 where the system doesn't tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 0


def median_ms(calls: list[Callable[[], object]]) -> float:
    """Return the median time of calls, in milliseconds."""
    times = []
    for call in calls:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def one_store(folder: Path, tenants: int, count: int) -> dict[str, float]:
    """Measure one store with all tenants in it."""
    started = time.perf_counter()
    with MemoryStore.open(folder, embedder=RandomEmbedder()) as store:
        for tenant in range(tenants):
            store.upsert(records(tenant, count), tenant=f"t{tenant}")
    written = time.perf_counter() - started
    before, started = handles(), time.perf_counter()
    with MemoryStore.open(folder, embedder=RandomEmbedder()) as store:
        opened = time.perf_counter() - started
        queries = np.random.default_rng(1).standard_normal((_SEARCHES, 1, 384)).astype(np.float32)
        chosen = [Scope(tenant=f"t{n * tenants // _SEARCHES}") for n in range(_SEARCHES)]
        first = median_ms([lambda s=s, q=q: store.view(s).nearest(q, 10) for s, q in zip(chosen, queries, strict=True)])
        again = median_ms([lambda s=s, q=q: store.view(s).nearest(q, 10) for s, q in zip(chosen, queries, strict=True)])
        return {
            "write, s": written, "disk, MB": size(folder), "open, s": opened, "file handles": handles() - before,
            "first search of a tenant, ms": first, "next search, ms": again,
        }  # fmt: skip


def many_collections(folder: Path, tenants: int, count: int) -> dict[str, float]:
    """Measure plain Chroma with one collection per tenant."""
    settings = Settings(anonymized_telemetry=False)
    before, started = handles(), time.perf_counter()
    client = chromadb.PersistentClient(str(folder), settings=settings)
    rng = np.random.default_rng(2)
    for tenant in range(tenants):
        made = client.create_collection(f"tenant-{tenant}", embedding_function=None)
        found = list(records(tenant, count))
        made.add(
            ids=[record["id"] for record in found],
            embeddings=rng.standard_normal((count, 384)).astype(np.float32),
            documents=[record["text"] for record in found],
        )
    written = time.perf_counter() - started
    client.close()
    gc.collect()
    started = time.perf_counter()
    client = chromadb.PersistentClient(str(folder), settings=settings)
    names = [f"tenant-{n * tenants // _SEARCHES}" for n in range(_SEARCHES)]
    opened = time.perf_counter() - started

    def search(name: str) -> object:
        held = client.get_collection(name, embedding_function=None)
        return held.query(query_embeddings=rng.standard_normal((1, 384)).astype(np.float32), n_results=10)

    first, again = (median_ms([lambda name=name: search(name) for name in names]) for _ in range(2))
    for number in range(tenants):
        search(f"tenant-{number}")
    result = {
        "write, s": written, "disk, MB": size(folder), "open, s": opened, "file handles": handles() - before,
        "first search of a tenant, ms": first, "next search, ms": again,
    }  # fmt: skip
    client.close()
    return result


def main() -> None:
    """Measure both and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tenants", type=int, default=1000, help="tenants of the store (default: 1000)")
    parser.add_argument("--records", type=int, default=20, help="records of each (default: 20)")
    parser.add_argument("--collections", type=int, default=200, help="collections of plain Chroma (default: 200)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = one_store(Path(folder) / "store", options.tenants, options.records)
        theirs = many_collections(Path(folder) / "chroma", options.collections, options.records)
    table = Table(box=box.SIMPLE)
    headings = f"one store, {options.tenants:,} tenants", f"{options.collections:,} collections"
    for heading in ("", *headings, f"scaled to {options.tenants:,}"):
        table.add_column(heading, justify="left" if not heading else "right")
    growing = options.tenants / options.collections
    for name, value in ours.items():
        scale = growing if name in ("write, s", "disk, MB", "file handles") else 1.0
        table.add_row(name, f"{value:,.1f}", f"{theirs[name]:,.1f}", f"{theirs[name] * scale:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
