"""What large records cost the requests beside them, and another tenant of the same process (GUARD-2).

    python benchmarks/large_texts.py [--cases texts,tags] [--rounds N] [--json]

For each case a store on disk gets 300 small messages for each of two tenants. `own` is the processor time of one
tenant's retrieve after the case's records were written for it too, as a multiple of the time before; `other` is the
time that the other tenant's retrieve takes while the first tenant asks without a pause, as a multiple of the same
before. Medians; the two states take turns where that is possible, since the machine's speed varies. `memory` is the
growth of the process from before the records were written to the end. The goals: below 2, below 1.2, below 100 MB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measuring import machine, print_report, resident_mb
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.types import MAX_TEXT_CHARS

QUESTION = "Who repairs the boiler, and for how much?"
TALK = (
    "The boiler leaks again",
    "Kettler Heating repaired ours",
    "We paid 340 euros for it",
    "My sister moved to Bergen",
)
REPEATED = "Kettler Heating repairs the boiler, and who knows for how much the kitchen pipe was mended. "
SMALL, LARGE, NEAR = 300, 5, 1000
OWN, OTHER = "own", "other"


def long_text(number: int, size: int = MAX_TEXT_CHARS, sentence: str = REPEATED) -> str:
    """Return a text of `size` characters that repeats the words of the question."""
    return f"{number} {sentence * (size // len(sentence) + 1)}"[:size]


def large_records(number: int, **fields: Any) -> dict[str, Any]:
    """Return one record of a case."""
    return {"id": f"large{number}", "kind": "archival", "text": long_text(number, 300), **fields}


CASES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "none": list,
    "texts": lambda: [large_records(at, text=long_text(at)) for at in range(LARGE)],
    "facts": lambda: [large_records(at, kind="fact", text=long_text(at)) for at in range(LARGE)],
    "messages": lambda: [
        large_records(at, kind="message", conversation_id="large", text=long_text(at)) for at in range(LARGE)
    ],
    "accents": lambda: [
        large_records(at, text=long_text(at, sentence=f"Für Öl zahlt Zoë 340 €. {REPEATED}")) for at in range(LARGE)
    ],
    "tags": lambda: [large_records(at, tags=[f"tag {tag}" for tag in range(1000)]) for at in range(LARGE)],
    "attributes": lambda: [large_records(at, attributes={"note": long_text(at, 900_000)}) for at in range(LARGE)],
    "alike": lambda: [large_records(at, text=f"{REPEATED} {at}") for at in range(NEAR)],
}


def small_records(tenant: str) -> list[dict[str, Any]]:
    """Return the messages that a tenant has anyway."""
    return [
        {
            "id": f"{tenant}{at}",
            "kind": "message",
            "author": ("Ines", "Paul")[at % 2],
            "conversation_id": f"c{at // 30}",
            "text": f"Note {at}: {TALK[at % len(TALK)]}.",
            "created_at": f"2024-05-{1 + at % 28:02d}T08:{at % 60:02d}:00Z",
        }
        for at in range(SMALL)
    ]


def ask(store: MemoryStore, tenant: str, clock: Callable[[], float]) -> float:
    """Return the milliseconds that one retrieve takes by a clock."""
    began = clock()
    request = {"messages": [{"content": QUESTION}], "tenant": tenant, "reference_time": "2024-06-03T12:00:00Z"}
    retrieve(request, store=store)
    return (clock() - began) * 1000.0


@contextmanager
def asking(store: MemoryStore) -> Iterator[None]:
    """Let the first tenant ask without a pause."""
    ended = threading.Event()

    def ask_on() -> None:
        while not ended.is_set():
            ask(store, OWN, time.perf_counter)

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure_other(plain: MemoryStore, large: MemoryStore, rounds: int) -> tuple[list[float], list[float]]:
    """Return the other tenant's milliseconds beside a tenant without large records, and beside one with them."""
    before: list[float] = []
    after: list[float] = []
    for _ in range(rounds):
        for store, found in ((plain, before), (large, after)):
            with asking(store):
                ask(store, OTHER, time.perf_counter)
                found += [ask(store, OTHER, time.perf_counter) for _ in range(4)]
    return before, after


def measure_case(name: str, rounds: int) -> dict[str, float]:
    """Return the figures of one case."""
    with tempfile.TemporaryDirectory() as folder:
        places = Path(folder, "plain"), Path(folder, "large")
        with MemoryStore.open(places[0]) as plain, MemoryStore.open(places[1]) as large:
            for store in (plain, large):
                for tenant in (OWN, OTHER):
                    store.upsert(small_records(tenant), tenant=tenant)
                    ask(store, tenant, time.perf_counter)
            # Usual documents, as long as the embedder reads: they take the memory that embedding takes.
            large.upsert((large_records(at, text=long_text(at, 2000)) for at in range(32)), tenant="warm")
            memory = resident_mb()
            began = time.perf_counter()
            large.upsert(CASES[name](), tenant=OWN)
            written = time.perf_counter() - began
            first = ask(large, OWN, time.process_time)
            times = [[ask(store, OWN, time.process_time) for store in (plain, large)] for _ in range(4 * rounds)]
            before, after = (statistics.median(column) for column in zip(*times, strict=True))
            beside = [statistics.median(found) for found in measure_other(plain, large, rounds)]
            return {
                "write_s": round(written, 2),
                "first_ms": round(first, 1),
                "own_ms": round(after, 1),
                "own": round(after / before, 2),
                "other_ms": round(beside[1], 1),
                "other": round(beside[1] / beside[0], 2),
                "memory_mb": round(resident_mb() - memory, 1),
            }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all cases."""
    return {name: measure_case(name, arguments.rounds) for name in arguments.cases}


def show(figures: dict[str, Any], console: Console) -> None:
    """Print a line for each case."""
    table = Table(title=f"large records ({machine()})", box=box.SIMPLE)
    for column in ("case", "write s", "first ms", "own ms", "own ×", "other ms", "other ×", "memory MB"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, row in figures.items():
        table.add_row(name, *(str(value) for value in row.values()))
    console.print(table)


def known_cases(text: str) -> list[str]:
    """Return the names of cases."""
    names = text.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"got {unknown[0]!r}; allowed: {', '.join(CASES)}")
    return names


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=known_cases, default=list(CASES), help="cases, joined by commas (all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    print_report(parser.parse_args(), measure, show)


if __name__ == "__main__":
    main()
