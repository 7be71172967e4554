"""What reranking gains, and what it costs a query.

    python benchmarks/search/rerank_gain.py [--data DIR …] [--store DIR] [--questions N] [--on-the-fly N] [--json]

Each data set is written to a store on disk with its token vectors, and every question that has gold is searched
once as it is, hybrid, 50 results: no loop, no planning. The same results are then reranked by late interaction,
and both orders are measured. The stage is timed with stored token vectors, query tokens given, as in a search;
and for some questions with nothing stored, everything made when asked for. With `--store` the stores are kept
in that folder, one for each set, and used again. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import ndcg_at_10, percentile, recall_at_k
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.memory.search.engine import search
from recall_loop.memory.search.rerank.late_interaction import LateInteractionReranker
from recall_loop.memory.search.rerank.rerank import Candidate, run_reranker
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.encoding.indexing import index_text
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, SearchParams

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("locomo", "hotpotqa", "musique")
METRICS = ("R@5", "R@10", "R@20", "nDCG@10")
NO_LIMIT_MS = 1e9


@dataclass
class RerankMeasurements:
    """Figures of one data set: metrics of each question without and with the stage, milliseconds of the stage."""

    before: list[list[float]] = field(default_factory=list)
    after: list[list[float]] = field(default_factory=list)
    stored_ms: list[float] = field(default_factory=list)
    made_ms: list[float] = field(default_factory=list)


def rowids_by_id(store: MemoryStore, tenant: str) -> dict[str, int]:
    """Return the rowid of each record of a tenant."""
    view = store.view(Scope(tenant=tenant))
    return {row.record.id: rowid for rowid, row in view.rows(view.rowids()).items()}


def token_bytes(store: MemoryStore, tenants: Sequence[str]) -> float:
    """Return the mean number of bytes of a record's token vectors."""
    sizes: list[int] = []
    for tenant in tenants:
        rowids = store.view(Scope(tenant=tenant)).rowids().tolist()
        sizes += [packed.values.nbytes for packed in store.token_source(tenant).tokens(rowids).values()]
    return fmean(sizes)


def metrics(ranked: Sequence[str], gold: Sequence[str]) -> list[float]:
    """Return R@5, R@10, R@20 and nDCG@10."""
    return [*(recall_at_k(ranked, gold, k) for k in (5, 10, 20)), ndcg_at_10(ranked, gold)]


def ask(
    store: MemoryStore, question: LabelledQuestion, rowids: dict[str, int], found: RerankMeasurements, *, make: bool
) -> None:
    """Search one question, rerank what was found, and add the figures to `found`."""
    scope = Scope(tenant=question.collection)
    options = SearchParams(rerank=False, limit=DEFAULT_RERANK_POOL, limit_per_type=False)
    hits = search(store, question.question, scope=scope, params=options).hits
    pool = [
        Candidate(hit.record.id, index_text(hit.record.model_dump(mode="json")), hit.score, rowids[hit.record.id])
        for hit in hits
    ]
    tokens = {question.question: store.embedder.embed_queries_with_tokens([question.question])[1][0]}
    source = store.token_source(question.collection)
    stored = LateInteractionReranker(store.embedder, source, query_tokens=tokens)
    started = time.perf_counter()
    scores = run_reranker(stored, question.question, pool).scores
    found.stored_ms.append((time.perf_counter() - started) * 1000)
    found.before.append(metrics([each.id for each in pool], question.gold))
    order = sorted(range(len(pool)), key=lambda at: -scores[at])
    found.after.append(metrics([pool[at].id for at in order], question.gold))
    if make:
        source = store.token_source(question.collection)
        source.stored = False  # the same store, as if it held no token vectors
        fresh = LateInteractionReranker(store.embedder, source, NO_LIMIT_MS, tokens)
        started = time.perf_counter()
        run_reranker(fresh, question.question, pool)
        found.made_ms.append((time.perf_counter() - started) * 1000)


def measure(folder: Path, place: Path, most: int | None, made: int) -> dict[str, Any]:
    """Return the figures of the data set in `folder`, with its store in `place`."""
    dataset = load_dataset(folder)
    found = RerankMeasurements()
    with MemoryStore.open(place, embedder=MiniLmEmbedder()) as store:
        if not rowids_by_id(store, next(iter(dataset.collections))):
            ingest(store, dataset, list(dataset.collections))
        store.maintenance.make_token_vectors()
        rowids = {name: rowids_by_id(store, name) for name in dataset.collections}
        asked = [question for question in dataset.questions if question.gold][:most]
        for index, question in enumerate(asked):
            ask(store, question, rowids[question.collection], found, make=index < made)
        size = token_bytes(store, list(dataset.collections))
    return summary(folder.name, found, size)


def summary(name: str, found: RerankMeasurements, size: float) -> dict[str, Any]:
    """Return means of the metrics, and times in milliseconds."""
    return {
        "set": name,
        "questions": len(found.before),
        "without": dict(zip(METRICS, map(fmean, zip(*found.before, strict=True)), strict=True)),
        "with": dict(zip(METRICS, map(fmean, zip(*found.after, strict=True)), strict=True)),
        "bytes_per_record": size,
        "stored_ms": {"p50": percentile(found.stored_ms, 0.5), "p95": percentile(found.stored_ms, 0.95)},
        "made_ms": {"p50": percentile(found.made_ms, 0.5)} if found.made_ms else None,
    }


def show(results: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the figures as a table, without → with the stage."""
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    table = Table(box=box.SIMPLE_HEAD, caption=machine)
    columns = ("set", "questions", *METRICS, "stage ms p50 / p95", "made when asked, ms", "bytes/record")
    for column in columns:
        table.add_column(column, justify="left" if column == "set" else "right")
    for row in results:
        cells = [f"{row['without'][name]:.3f} → {row['with'][name]:.3f}" for name in METRICS]
        times = f"{row['stored_ms']['p50']:.1f} / {row['stored_ms']['p95']:.1f}"
        made = f"{row['made_ms']['p50']:.0f}" if row["made_ms"] else "–"
        table.add_row(row["set"], str(row["questions"]), *cells, times, made, f"{row['bytes_per_record']:,.0f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[DATA / name for name in SETS])
    parser.add_argument("--store", type=Path, help="folder to keep the stores in; without it they are thrown away")
    parser.add_argument("--questions", type=int, help="only the first N of each set")
    parser.add_argument("--on-the-fly", type=int, default=10, help="questions to time without stored token vectors")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = chosen.store or Path(temporary)
        results = [measure(each, base / each.name, chosen.questions, chosen.on_the_fly) for each in chosen.data]
    console = Console()
    if chosen.json:
        console.print_json(data=results)
    else:
        show(results, console)


if __name__ == "__main__":
    main()
