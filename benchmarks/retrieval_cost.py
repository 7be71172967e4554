"""What one retrieval costs, and how much of that is embedding and the store.

    python benchmarks/retrieval_cost.py [--data DIR] [--collection NAME] [--records N] [--questions N] [--json]

One collection of a data set is written to a store on disk, with other questions the caches are warmed, and
each measured question is asked once. The embedder and the store are the real ones; their methods are
wrapped in a clock, and the memory engine's search in another, so that a request's whole time and the time
that it spends in them are of the same request. With `--records` as many others lie around the collection, in the
same scope. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import RepeatingEmbedder, Stopwatch, fill, instrument, machine, print_report, timed_embedder
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import percentile
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.evals.runs.prompts import settings_with
from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import run_graph
from recall_loop.graph.traced_graph import TracedGraph
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import TokenEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import RetrievalParts
from recall_loop.nodes.runtime.run_holder import RunInputs
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.text.words.tokens import stems

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
GOAL = 1.5
GOALS_BY_EMBEDDING = {"p50": 6, "p95": 10}
STARTS = 5
BARE_LIMIT = 10


@dataclass(frozen=True)
class QuestionTiming:
    """One question: milliseconds of the request, of what it spent inside, of the bare look-up, and of one embedding.

    `engine` is everything that the memory engine did: embedding, look-ups, fusion, reranking. `inside` is embedding
    and look-ups alone. `embedding` is that of the question, once, just before.
    """

    embedding: float
    total: float
    engine: float
    inside: float
    bare: float
    parts: dict[str, float]
    calls: dict[str, int]
    iterations: int


def measure(
    store: MemoryStore, graph: TracedGraph, question: LabelledQuestion, clock: Stopwatch, engine: Stopwatch
) -> QuestionTiming:
    """Ask `question` once, then look it up barely."""
    request = RetrieveRequest(
        messages=(ChatMessage(content=question.question),),
        tenant=question.collection,
        reference_time=question.reference_time,
    )
    started = time.perf_counter()
    store.embedder.embed_queries([question.question])
    embedding = time.perf_counter() - started
    clock.reset()
    engine.reset()
    started = time.perf_counter()
    result = run_graph(graph, RunInputs(request))
    total = time.perf_counter() - started
    parts, calls, inside = dict(clock.seconds), dict(clock.calls), clock.total
    bare = bare_lookup(store, question)
    engine_ms = engine.total * 1000
    milliseconds = {name: seconds * 1000 for name, seconds in parts.items()}
    return QuestionTiming(
        embedding * 1000,
        total * 1000,
        engine_ms,
        inside * 1000,
        bare * 1000,
        milliseconds,
        calls,
        result.stop.iteration,
    )


def bare_lookup(store: MemoryStore, question: LabelledQuestion) -> float:
    """Return the seconds of one query embedding, one Chroma query and one full-text query."""
    view, words = store.view(Scope(tenant=question.collection)), stems(question.question)
    with store._session.connection.searching() as chroma:
        if chroma is None:
            raise SystemExit("Chroma is not there: nothing to compare with")
        started = time.perf_counter()
        vector = store.embedder.embed_queries([question.question])
        chroma.nearest(vector, BARE_LIMIT)
        view.top_by_stems([(word, 1.0) for word in words], BARE_LIMIT)
        return time.perf_counter() - started


def start_times() -> dict[str, float]:
    """Return milliseconds of fresh processes, the best of five each."""
    script = Path(sys.executable).with_name("recall-loop")
    by_module = [sys.executable, "-c", "import sys; from recall_loop.cli.main import main; sys.exit(main())"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import recall_loop": [sys.executable, "-c", "import recall_loop"],
        "recall-loop --help": [str(script), "--help"] if script.exists() else [*by_module, "--help"],
    }
    return {name: min(_wall(command) for _ in range(STARTS)) for name, command in commands.items()}


def _wall(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def report(name: str, records: int, samples: Sequence[QuestionTiming]) -> dict[str, Any]:
    """Return all figures; times in milliseconds."""
    totals = [sample.total for sample in samples]
    embedding = percentile([sample.embedding for sample in samples], 0.5)
    retrieval = {"p50": percentile(totals, 0.5), "p95": percentile(totals, 0.95)}
    inside, bare = sum(sample.inside for sample in samples), sum(sample.bare for sample in samples)
    names = sorted({part for sample in samples for part in sample.parts})
    return {
        "collection": name,
        "records": records,
        "questions": len(samples),
        "machine": machine(),
        "retrieval_ms": retrieval,
        "embedding_ms": embedding,
        "total_by_embedding": {name: spent / embedding for name, spent in retrieval.items()},
        "goals_by_embedding": GOALS_BY_EMBEDDING,
        "mean_iterations": sum(sample.iterations for sample in samples) / len(samples),
        "total_by_engine": {
            "goal": GOAL,
            "overall": sum(totals) / sum(sample.engine for sample in samples),
            "p50": percentile([sample.total / sample.engine for sample in samples], 0.5),
            "p95": percentile([sample.total / sample.engine for sample in samples], 0.95),
        },
        "total_by_inside": {
            "overall": sum(totals) / inside,
            "p50": percentile([sample.total / sample.inside for sample in samples], 0.5),
            "p95": percentile([sample.total / sample.inside for sample in samples], 0.95),
        },
        "inside_ms": {
            part: {
                "mean_ms": sum(sample.parts.get(part, 0.0) for sample in samples) / len(samples),
                "mean_calls": sum(sample.calls.get(part, 0) for sample in samples) / len(samples),
            }
            for part in names
        },
        "bare_ms": percentile([sample.bare for sample in samples], 0.5),
        "total_by_bare": sum(totals) / bare,
        "start_ms": start_times(),
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures as a table."""
    title = f"{figures['collection']}: {figures['records']} records, {figures['questions']} questions"
    table = Table(title=title, title_justify="left", caption=figures["machine"], box=box.SIMPLE_HEAD)
    table.add_column("figure")
    table.add_column("value", justify="right")
    engine, ratio = figures["total_by_engine"], figures["total_by_inside"]
    for part, row in figures["inside_ms"].items():
        table.add_row(f"inside {part} ({row['mean_calls']:.1f} calls)", f"{row['mean_ms']:.2f} ms")
    table.add_section()
    table.add_row("one retrieval, p50", f"{figures['retrieval_ms']['p50']:.1f} ms")
    table.add_row("one retrieval, p95", f"{figures['retrieval_ms']['p95']:.1f} ms")
    table.add_row("one query embedding, p50", f"{figures['embedding_ms']:.1f} ms")
    for name, multiple in figures["total_by_embedding"].items():
        goal = figures["goals_by_embedding"][name]
        table.add_row(f"one retrieval in query embeddings, {name}, goal {goal}", f"{multiple:.1f}")
    table.add_row("mean iterations", f"{figures['mean_iterations']:.2f}")
    table.add_row(f"retrieval / memory engine, goal {engine['goal']}", f"{engine['overall']:.2f}")
    table.add_row("  the same per question, p50 / p95", f"{engine['p50']:.2f} / {engine['p95']:.2f}")
    table.add_row(f"retrieval / (embedding + look-ups alone), goal {engine['goal']}", f"{ratio['overall']:.2f}")
    table.add_row("  the same per question, p50 / p95", f"{ratio['p50']:.2f} / {ratio['p95']:.2f}")
    table.add_row("one embedding + Chroma query + full-text query, p50", f"{figures['bare_ms']:.1f} ms")
    table.add_row("retrieval as a multiple of that", f"{figures['total_by_bare']:.1f}")
    table.add_section()
    for name, value in figures["start_ms"].items():
        table.add_row(name, f"{value:.0f} ms")
    console.print(table)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill a store, warm it, measure, and return the figures."""
    settings, clock, engine = settings_with(arguments.set), Stopwatch(), Stopwatch()
    dataset = load_dataset(arguments.data, arguments.kinds)
    name = arguments.collection or dataset.questions[0].collection
    asked = [each for each in dataset.questions if each.collection == name and each.scored]
    asked = asked[: arguments.warm + arguments.questions]
    if len(asked) <= arguments.warm:
        raise SystemExit(f"{name}: {len(asked)} questions; more than --warm ({arguments.warm}) are needed")
    model = make_embedder(settings)
    if arguments.records and not isinstance(model, TokenEmbedder):
        raise SystemExit(f"--records needs an embedder with token vectors, such as minilm; got {model.name}")
    embedder = timed_embedder(RepeatingEmbedder(model) if isinstance(model, TokenEmbedder) else model, clock)
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore.open(Path(folder) / "store", embedder=embedder) as store,
    ):
        records = ingest(store, dataset, [name])[name]
        fill(store, name, _other_texts(dataset, name), arguments.records - records)
        records = max(records, arguments.records)
        instrument(store, clock)
        instrument(store, engine)
        parts = RetrievalParts(search=engine.timed("search", search_many))
        graph = build_graph(store, settings=settings, output="state", parts=parts)
        samples = [measure(store, graph, question, clock, engine) for question in asked]
    return report(name, records, samples[arguments.warm :])


def _other_texts(dataset: Dataset, name: str) -> list[str]:
    """Return the texts of the other collections, or of the one that is asked where there is no other."""
    others = [each for each in dataset.collections if each != name] or [name]
    return list(dict.fromkeys(record.text for each in others for record in dataset.collections[each]))


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="What one retrieval costs.")
    parser.add_argument("--data", type=Path, default=DATA, help="data set (default: %(default)s)")
    parser.add_argument("--kinds", default="messages+facts", help="documents to load (default: %(default)s)")
    parser.add_argument("--collection", help="which collection (default: that of the first question)")
    parser.add_argument("--records", type=int, default=0, help="records in scope, filled up with others")
    parser.add_argument("--questions", type=int, default=50, help="measured questions (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=10, help="questions before them (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    parser.add_argument("--json", action="store_true", help="print JSON")
    print_report(parser.parse_args(), run, show)


if __name__ == "__main__":
    main()
