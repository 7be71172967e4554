"""What a long batch needs of memory: the process's resident size while a million lines go through.

    python benchmarks/batch_memory.py [--lines N] [--every N] [--order input|completed] [--resume-at SHARE]

Most lines are requests that are refused at once (no `messages`), one of `--every` is run on an empty store. So the
time is mostly that of the batch itself: reading, ids, the window of running requests, output. With `--resume-at`
the output is first cut to that share of its bytes, and the run is resumed. benchmarks/README.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from measuring import resident_mb

from recall_loop.graph.batch.batch_output import BatchSummary
from recall_loop.graph.batch.batch_run import run_batch
from recall_loop.memory.store.store import MemoryStore

REPORTS = 20


def write_requests(path: Path, lines: int, every: int) -> None:
    with path.open("w") as file:
        for number in range(lines):
            messages = [{"content": f"Where is boat {number}?"}] if number % every == 0 else []
            file.write(json.dumps({"id": f"request-{number:09}", "messages": messages, "max_iterations": 1}) + "\n")


def measured(folder: Path, store: MemoryStore, lines: int, order: str, resume: bool) -> list[float]:
    """Run the batch and return the resident sizes at even distances."""
    sizes: list[float] = []
    began = time.monotonic()

    def look(summary: BatchSummary) -> None:
        done = summary.total
        if done % max(1, lines // REPORTS) == 0:
            sizes.append(resident_mb())
            print(f"{done:>12,} lines {time.monotonic() - began:8.1f} s {sizes[-1]:8.1f} MB", flush=True)

    summary = run_batch(
        folder / "in.jsonl",
        folder / "out.jsonl",
        store=store,
        concurrency=4,
        order=order,  # type: ignore[arg-type]  # argparse has checked it
        resume=resume,
        progress=look,
    )
    print(f"{summary.total:,} lines: {summary.succeeded:,} run, {summary.failed:,} refused, {summary.skipped:,} kept")
    return sizes


def cut(path: Path, share: float) -> None:
    """Keep a share of the file's bytes."""
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * share))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=200)
    parser.add_argument("--order", choices=("input", "completed"), default="completed")
    parser.add_argument("--resume-at", type=float)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, MemoryStore.in_memory() as store:
        folder = Path(name)
        write_requests(folder / "in.jsonl", args.lines, args.every)
        sizes = measured(folder, store, args.lines, args.order, resume=False)
        print(f"grew by {sizes[-1] - sizes[len(sizes) // 10]:.1f} MB after the first tenth")
        if args.resume_at is not None:
            cut(folder / "out.jsonl", args.resume_at)
            measured(folder, store, args.lines, args.order, resume=True)
            written = sum(1 for _ in (folder / "out.jsonl").open("rb"))
            print(f"resumed: {written:,} lines for {args.lines:,} requests")


if __name__ == "__main__":
    main()
