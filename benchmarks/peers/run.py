"""Recall Loop beside other memories on the same questions: recall, nDCG, latency, rate of writing, memory.

    python benchmarks/peers/run.py [--data PATH] [--questions N] [--peers a,b] [--cache DIR] [--json FILE]

Each peer runs in a process and a virtual environment of its own, which this script makes with pip in `--cache` (a
folder in the system's temporary one unless given), and is no dependency of the product. All but bm25s have the same
vectors of the same embedder, made once here. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from protocol import DOCUMENTS, JOB, QUESTIONS, RESULT, TEXTS, VECTORS
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import macro_average, percentile, score_ranking
from recall_loop.evals.runs.prompts import draw_sample
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.encoding.indexing import index_text
from recall_loop.state.errors import InvalidInputError, RecallError
from recall_loop.text.words.stop_words import STOP_WORDS

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data" / "locomo"
RECALL_LOOP = "recall-loop"
KS = (5, 10, 20)
_BATCH = 256
_TIMED = 100


class PeerFailedError(RuntimeError):
    """A peer couldn't be installed, or broke."""


@dataclass(frozen=True)
class PeerSpec:
    """What is compared: its script, what pip installs for it, whether it is given vectors, and what it is told."""

    script: str
    packages: tuple[str, ...] = ()
    vectors: bool = True
    environment: tuple[tuple[str, str], ...] = ()


UNLEARNED = (("RECALL_LOOP_LEARNED_ORDER", "false"), ("RECALL_LOOP_EMBEDDER", "minilm-plain"))
PEERS = {
    "bm25s": PeerSpec("peer_bm25s.py", ("bm25s==0.3.16", "numpy"), vectors=False),
    "chroma": PeerSpec("peer_chroma.py", ("chromadb==1.5.9", "numpy")),
    "langgraph": PeerSpec(
        "peer_langgraph.py",
        (
            "langgraph-checkpoint-sqlite==3.1.2",
            "langgraph==1.2.22",
            "sqlite-vec==0.1.9",
            "pysqlite3-binary==0.5.4.post2",
            "numpy",
        ),
    ),
    "llamaindex": PeerSpec(
        "peer_llamaindex.py", ("llama-index-core==0.14.25", "llama-index-retrievers-bm25==0.8.0", "numpy")
    ),
    "mem0": PeerSpec("peer_mem0.py", ("mem0ai==2.2.1", "qdrant-client==1.20.0", "fastembed==0.9.1", "numpy")),
    # What was learned has seen the development conversations: beside others on them, this is the fair one.
    f"{RECALL_LOOP}-unlearned": PeerSpec("peer_recall_loop.py", vectors=False, environment=UNLEARNED),
    RECALL_LOOP: PeerSpec("peer_recall_loop.py", vectors=False),
}


@dataclass(frozen=True)
class EmbeddingCost:
    """What embedding takes by itself: milliseconds for one question, documents a second."""

    query_ms: float
    documents_per_second: float


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    try:
        names = _names(arguments.peers)
        dataset = load_dataset(arguments.data, arguments.kinds)
        questions = _questions(dataset, arguments)
        cache = arguments.cache or Path(tempfile.gettempdir()) / "recall-loop-peers"
        with tempfile.TemporaryDirectory() as folder:
            embedding = _write_job(Path(folder), dataset, questions, any(PEERS[name].vectors for name in names))
            rows, failed = _measured(names, Path(folder), cache, questions, embedding)
    except RecallError as error:
        sys.stderr.write(f"peers: error: {error}\n")
        return 2
    found = {"query_ms": embedding.query_ms, "documents_per_second": embedding.documents_per_second}
    report = {
        "data": dataset.name,
        "kinds": dataset.kinds.value,
        "questions": len(questions),
        "embedding": found if embedding.query_ms else None,
        "peers": rows,
        "failed": failed,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    _show(report)
    for name, reason in failed.items():
        sys.stderr.write(f"peers: {name} failed: {reason}\n")
    return 1 if failed else 0


def _names(given: str | None) -> list[str]:
    names = list(PEERS) if given is None else given.split(",")
    for name in names:
        if name not in PEERS:
            raise InvalidInputError("peers", name, f"some of {', '.join(PEERS)}")
    return names


def _questions(dataset: Dataset, arguments: argparse.Namespace) -> list[LabelledQuestion]:
    """Return all questions with gold, those without an answer too: what was said is there to be found."""
    names = list(dataset.collections)[: arguments.collections]
    asked = [question for question in dataset.questions if question.gold and question.collection in names]
    if not asked:
        raise InvalidInputError("data", dataset.name, "a set with gold ids")
    return draw_sample(asked, arguments.questions, arguments.seed)


def _write_job(folder: Path, dataset: Dataset, questions: Sequence[LabelledQuestion], vectors: bool) -> EmbeddingCost:
    """Write the documents, the questions, and vectors where some peer needs them; return what embedding takes."""
    documents: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    for collection in dict.fromkeys(question.collection for question in questions):
        for record in dataset.collections[collection]:
            plain = record.model_dump(mode="json", exclude_defaults=True) | {"id": record.id, "kind": record.kind.value}
            documents.append({"id": record.id, "collection": collection, "text": index_text(plain)})
            records.append({"collection": collection, "record": plain})
    _jsonl(folder / DOCUMENTS, documents)
    _jsonl(folder / "records.jsonl", records)
    asked = [{"id": each.id, "collection": each.collection, "text": each.question} for each in questions]
    _jsonl(folder / QUESTIONS, asked)
    (folder / "stop_words.txt").write_text("\n".join(sorted(STOP_WORDS)), encoding="utf-8")
    texts = ([each["text"] for each in documents], [each["text"] for each in asked])
    return _embed(folder, *texts) if vectors else EmbeddingCost(0.0, float("inf"))


def _jsonl(path: Path, items: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")


def _embed(folder: Path, documents: Sequence[str], questions: Sequence[str]) -> EmbeddingCost:
    embedder = MiniLmEmbedder(None)
    embedder.embed_queries(["the model is loaded before the clock runs"])
    texts = list(dict.fromkeys([*documents, *questions]))
    parts, started = [], time.perf_counter()
    for start in range(0, len(texts), _BATCH):
        parts.append(embedder.embed_documents(texts[start : start + _BATCH]))
    rate = len(texts) / (time.perf_counter() - started)
    np.save(folder / VECTORS, np.concatenate(parts))
    (folder / TEXTS).write_text(json.dumps(texts), encoding="utf-8")
    times = []
    for question in questions[:_TIMED]:
        began = time.perf_counter()
        embedder.embed_queries([question])
        times.append((time.perf_counter() - began) * 1000)
    return EmbeddingCost(percentile(times, 0.5), rate)


def _measured(
    names: Sequence[str], job: Path, cache: Path, questions: Sequence[LabelledQuestion], embedding: EmbeddingCost
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a row for each peer that ran, and why the others didn't: one that breaks spoils no other."""
    rows, failed = [], {}
    for name in names:
        try:
            rows.append(_measure(name, job, cache, questions, embedding))
        except PeerFailedError as error:
            failed[name] = str(error)
    return rows, failed


def _measure(
    name: str, job: Path, cache: Path, questions: Sequence[LabelledQuestion], embedding: EmbeddingCost
) -> dict[str, Any]:
    peer = PEERS[name]
    python = str(_environment(name, peer, cache)) if peer.packages else sys.executable
    sys.stderr.write(f"{name} …\n")
    with tempfile.TemporaryDirectory() as store:
        (job / JOB).write_text(json.dumps({"k": KS[-1], "store": f"{store}/store"}), encoding="utf-8")
        (job / RESULT).unlink(missing_ok=True)
        own = {key: value for key, value in os.environ.items() if not (peer.packages and key == "PYTHONPATH")}
        command = [python, str(HERE / peer.script), str(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=own | dict(peer.environment))
        if done.returncode or not (job / RESULT).is_file():
            raise PeerFailedError(f"exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        result = json.loads((job / RESULT).read_text(encoding="utf-8"))
    return _row(name, peer, result, questions, embedding)


def _environment(name: str, peer: PeerSpec, cache: Path) -> Path:
    """Return the interpreter of a peer's own environment, made where it isn't there or wants other packages."""
    folder = cache / name
    python, mark = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join(peer.packages)
    if not mark.is_file() or mark.read_text(encoding="utf-8") != wanted:
        sys.stderr.write(f"{name}: installing {', '.join(peer.packages)} in {folder}\n")
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        install = [str(python), "-m", "pip", "install", "-q", *peer.packages]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run(install, check=True, env=clean)
        except subprocess.CalledProcessError as error:
            raise PeerFailedError(f"not installed: {error}") from error
        mark.write_text(wanted, encoding="utf-8")
    return python


def _row(
    name: str, peer: PeerSpec, result: dict[str, Any], questions: Sequence[LabelledQuestion], embedding: EmbeddingCost
) -> dict[str, Any]:
    """Return a peer's figures; one that was given vectors is charged for embedding what it was given."""
    answers = {answer["id"]: answer for answer in result["answers"]}
    scores = [score_ranking(answers[question.id]["ids"], question.gold, KS) for question in questions]
    times = [answers[question.id]["ms"] + (embedding.query_ms if peer.vectors else 0.0) for question in questions]
    seconds = result["ingest_seconds"]
    if peer.vectors:
        seconds += result["documents"] / embedding.documents_per_second
    memory = result["memory_mb"]
    return {
        "name": name,
        "versions": result["versions"],
        **{key: round(value, 4) for key, value in macro_average(scores).items()},
        "latency_ms": {"p50": round(percentile(times, 0.5), 2), "p95": round(percentile(times, 0.95), 2)},
        "documents_per_second": round(result["documents"] / seconds, 1),
        "memory_mb": {key: round(value, 1) for key, value in memory.items()},
    }


def _show(report: dict[str, Any]) -> None:
    embedding = report["embedding"]
    title = f"{report['data']} ({report['kinds']}), {report['questions']} questions with gold"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("")
    for head in ("R@5", "R@10", "R@20", "nDCG@10", "MRR", "p50 ms", "p95 ms", "docs/s", "MB", "of it data"):
        table.add_column(head, justify="right")
    for row in sorted(report["peers"], key=lambda row: row["recall@10"]):
        cells = [f"{row[name]:.3f}" for name in ("recall@5", "recall@10", "recall@20", "ndcg@10", "mrr")]
        memory = row["memory_mb"]
        held = f"{memory['asked']:.0f}", f"{memory['asked'] - memory['before']:.0f}"
        latency = (f"{row['latency_ms'][name]:.1f}" for name in ("p50", "p95"))
        style = "bold" if row["name"] == RECALL_LOOP else None
        table.add_row(row["name"], *cells, *latency, f"{row['documents_per_second']:.0f}", *held, style=style)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table)
    told = "; ".join(" ".join(f"{key} {value}" for key, value in row["versions"].items()) for row in report["peers"])
    if embedding is not None:  # else no peer was given vectors
        console.print(
            f"one query embedding {embedding['query_ms']:.1f} ms, {embedding['documents_per_second']:.0f} texts/s"
        )
    console.print(told, markup=False)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="data set, as `recall-loop eval` takes it")
    parser.add_argument("--kinds", help="documents to load, as for `recall-loop eval`")
    parser.add_argument("--questions", type=int, metavar="N", help="ask N of them (default: all with gold)")
    parser.add_argument("--collections", type=int, metavar="N", help="only the first N collections (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of that draw")
    parser.add_argument("--peers", metavar="A,..", help=f"some of {', '.join(PEERS)} (default: all)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder of the peers' environments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
