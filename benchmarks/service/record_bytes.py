"""What a record takes: in each table of PostgreSQL, in a folder, and in the memory of a searching process (HOST-1).

    python benchmarks/service/record_bytes.py --postgres ADDRESS [--data DIR] [--records N]

Turns of conversations, again and again with a number, are written to a folder as one tenant, the store is moved to
PostgreSQL, and a process of its own opens it there and searches. The costs of a hundred million records in
docs/architecture.md follow from these figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import RepeatingEmbedder, fill, machine, resident_mb

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.store import MemoryStore

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo"
QUESTIONS = ("Where did she go in May?", "What does he like to cook?", "Who bought the guitar?", "adoption agency")
_SIZES = """SELECT c.relname, pg_relation_size(c.oid) + coalesce(pg_total_relation_size(c.reltoastrelid), 0),
pg_indexes_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY pg_total_relation_size(c.oid) DESC"""


def turns(data: Path) -> list[str]:
    """Return the turns of the data set's conversations."""
    dataset = load_dataset(data)
    return [record.text for pool in dataset.collections.values() for record in pool]


def search_cost(address: str) -> None:
    """Print, as JSON, what searching adds to this process, in MB, and how long the first search took."""
    with MemoryStore.open(address, read_only=True, create=False) as store:
        store.embedder.embed_queries(["ready"])
        before, began = resident_mb(), time.monotonic()
        first = 0.0
        for question in QUESTIONS * 5:
            search(store, question)
            first = first or time.monotonic() - began
        print(json.dumps({"megabytes": resident_mb() - before, "first_seconds": first}))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--postgres", required=True, metavar="ADDRESS")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--search", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.search:
        search_cost(args.postgres)
        return
    console, schema = Console(), f"bytes_{uuid.uuid4().hex[:12]}"
    address = f"{args.postgres}{'&' if '?' in args.postgres else '?'}schema={schema}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "store"
        model = RepeatingEmbedder(MiniLmEmbedder())
        with MemoryStore.open(folder, embedder=model) as store:
            fill(store, "default", turns(args.data), args.records)
        with MemoryStore.open(folder, read_only=True) as store:
            in_folder = store.maintenance.size() / args.records
        began = time.monotonic()
        move_store(folder, address)
        moved = time.monotonic() - began
    try:
        _print(console, address, args.records, in_folder, moved)
    finally:
        with psycopg.connect(PostgresAddress.parse(address).url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def _print(console: Console, address: str, records: int, in_folder: float, moved: float) -> None:
    place = PostgresAddress.parse(address)
    with psycopg.connect(place.url, autocommit=True) as connection:
        sizes = connection.execute(_SIZES, (place.schema,)).fetchall()
    command = [sys.executable, __file__, "--search", "--postgres", address]
    cost = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    table = Table("table", "bytes a record", "of which indexes", title=f"{records:,} records, {machine()}")
    for name, data, indexes in sizes:
        if (data + indexes) / records >= 1:
            table.add_row(name, f"{(data + indexes) / records:,.0f}", f"{indexes / records:,.0f}")
    total = sum(data + indexes for _, data, indexes in sizes) / records
    table.add_row("PostgreSQL in all", f"{total:,.0f}", f"{sum(indexes for *_, indexes in sizes) / records:,.0f}")
    table.add_row("folder in all", f"{in_folder:,.0f}", "")
    table.add_row("memory of a searching process", f"{cost['megabytes'] * 1e6 / records:,.0f}", "")
    console.print(table)
    console.print(f"first search after open: {cost['first_seconds']:.2f} s; moved at {records / moved:,.0f} records/s")


if __name__ == "__main__":
    main()
