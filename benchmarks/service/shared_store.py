"""A store in PostgreSQL beside the same store in a folder: writing, retrieving, and many processes at once (HOST-2).

    python benchmarks/service/shared_store.py --postgres ADDRESS [--data DIR] [--questions N] [--processes N] [--json]

One collection of a data set is written to both backends by the same process, and the same questions are asked of both
in turn, after some that warm the caches. Then processes without a model (vectors are made of hashed words) write and
search tenants of their own for some seconds: one process, and several. Figures are ratios within one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the embedder without a model is that of the tests
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import machine, own_schema, print_report

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.evals.runs.prompts import settings_with
from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import run_graph
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_holder import RunInputs
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo"
WARM = 10
BULK = 3_000
SECONDS = 8.0
WORDS = ["ferry", "harbour", "timetable", "coffee", "window", "garden", "invoice", "holiday", "lantern", "piano"]


def asked(stores: dict[str, MemoryStore], questions: list[Any], settings: Any) -> dict[str, float]:
    """Return the median milliseconds of a question in each backend; each is asked of all backends in turn."""
    graphs = {backend: build_graph(store, settings=settings, output="state") for backend, store in stores.items()}
    seconds: dict[str, list[float]] = {backend: [] for backend in stores}
    for question in questions:
        request = RetrieveRequest(
            messages=(ChatMessage(content=question.question),),
            tenant=question.collection,
            reference_time=question.reference_time,
        )
        for backend, graph in graphs.items():
            started = time.perf_counter()
            run_graph(graph, RunInputs(request))
            seconds[backend].append(time.perf_counter() - started)
    return {backend: 1000 * median(one[WARM:]) for backend, one in seconds.items()}


def bulk(store: MemoryStore) -> float:
    """Return the records a second of one long write, without a model."""
    records = [
        {"text": f"{WORDS[at % 10]} {WORDS[at // 10 % 10]} number {at}", "conversation_id": f"c{at % 20}"}
        for at in range(BULK)
    ]
    started = time.perf_counter()
    store.upsert(records, tenant="bulk")
    return BULK / (time.perf_counter() - started)


def work(place: str, name: str) -> None:
    """Write and search a tenant for some seconds; print how many requests were answered, and how many were wrong."""
    answered = wrong = 0
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            word = f"w{name}x{answered}"
            store.upsert([{"id": f"r{answered}", "text": f"{word} {WORDS[answered % 10]}"}], tenant=name)
            for _ in range(3):
                found = search(store, f"{word} {WORDS[answered % 10]}", scope=Scope(tenant=name))
                wrong += not found.hits or found.hits[0].record.id != f"r{answered}"
            answered += 1
    sys.stdout.write(f"{4 * answered} {wrong}\n")


def many(place: str, processes: int) -> tuple[float, int]:
    """Return the requests a second of several processes together, and the wrong answers."""
    command = [sys.executable, __file__, "--work", place]
    running = [
        subprocess.Popen([*command, "--name", f"t{processes}n{at}"], stdout=subprocess.PIPE, text=True)
        for at in range(processes)
    ]
    counts = [tuple(map(int, one.communicate()[0].split())) for one in running]
    return sum(count for count, _ in counts) / SECONDS, sum(wrong for _, wrong in counts)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure both backends."""
    settings, place = settings_with([]), own_schema(arguments.postgres)
    dataset = load_dataset(arguments.data, kinds="messages")
    name = dataset.questions[0].collection
    questions = [one for one in dataset.questions if one.collection == name][: arguments.questions + WARM]
    figures: dict[str, Any] = {"machine": machine(), "questions": len(questions) - WARM}
    with tempfile.TemporaryDirectory() as folder:
        backends = {"sqlite": f"{folder}/store", "postgresql": place}
        with ExitStack() as stack:
            embedder, stores = MiniLmEmbedder(), dict[str, MemoryStore]()
            for backend, where in backends.items():
                stores[backend] = stack.enter_context(MemoryStore.open(where, embedder=embedder))
                started = time.perf_counter()
                records = ingest(stores[backend], dataset, [name])[name]
                figures[backend] = {"records_per_second": records / (time.perf_counter() - started)}
            for backend, milliseconds in asked(stores, questions, settings).items():
                figures[backend]["retrieve_ms_p50"] = milliseconds
        bare = {"sqlite": f"{folder}/bare", "postgresql": own_schema(arguments.postgres)}
        for backend, where in bare.items():
            with MemoryStore.open(where, embedder=WordHashEmbedder()) as store:
                figures[backend]["bulk_records_per_second"] = bulk(store)
        shared = own_schema(arguments.postgres)
        MemoryStore.open(shared, embedder=WordHashEmbedder()).close()
        for processes in (1, arguments.processes):
            rate, wrong = many(shared, processes)
            figures[f"processes_{processes}"] = {"requests_per_second": rate, "wrong": wrong}
    sqlite, postgres = figures["sqlite"], figures["postgresql"]
    one, several = figures["processes_1"], figures[f"processes_{arguments.processes}"]
    figures["ratios"] = {
        "retrieve, PostgreSQL / SQLite (goal at most 1.3)": postgres["retrieve_ms_p50"] / sqlite["retrieve_ms_p50"],
        "bulk writes, PostgreSQL / SQLite (goal at least 0.5)": postgres["bulk_records_per_second"]
        / sqlite["bulk_records_per_second"],
        "writes with the default embedder": postgres["records_per_second"] / sqlite["records_per_second"],
        f"{arguments.processes} processes / 1 (goal at least 1.8 on two cores)": several["requests_per_second"]
        / one["requests_per_second"],
    }
    return figures


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures."""
    table = Table("figure", "value")
    for backend in ("sqlite", "postgresql"):
        for label, value in figures[backend].items():
            table.add_row(f"{backend}: {label}", f"{value:.1f}")
    for key, value in figures.items():
        if key.startswith("processes_"):
            table.add_row(key, f"{value['requests_per_second']:.0f} requests/s, {value['wrong']} wrong")
    for label, value in figures["ratios"].items():
        table.add_row(label, f"{value:.2f}")
    console.print(table)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="A store in PostgreSQL beside one in a folder.")
    parser.add_argument("--postgres", metavar="ADDRESS", help="a database that schemas may be made in")
    parser.add_argument("--data", type=Path, default=DATA, help="data set (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=40, help="measured questions (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="processes at once (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.name)
        return
    print_report(parser.parse_args(), run, show)


if __name__ == "__main__":
    main()
