"""Recall Loop beside other memories on the same questions: recall, nDCG, latency, rate of writing, memory.

    python benchmarks/peers/run.py [--sets a,b | --data PATH] [--questions N] [--peers a,b] [--cache DIR] [--json FILE]

Each peer runs in a process and a virtual environment of its own, which this script makes with pip in `--cache` (a
folder in the system's temporary one unless given), and is no dependency of the product. All but bm25s have the same
vectors of the same embedder, made once here. docs/benchmarks.md explains every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from figures import ANY, ASKED, IN_CONTEXT, peer_row
from jobs import SETS, PeerJob, PeerSet, load_questions, write_job
from protocol import JOB, RESULT
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.state.errors import InvalidInputError, RecallError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2] / "shared" / "data"
RECALL_LOOP, SESSIONS = "recall-loop", "sessions"


class PeerFailedError(RuntimeError):
    """A peer couldn't be installed, or broke."""


@dataclass(frozen=True)
class PeerSpec:
    """What is compared: its script, what pip installs for it, whether it is given vectors."""

    script: str
    packages: tuple[str, ...] = ()
    vectors: bool = True


PEERS = {
    SESSIONS: PeerSpec("peer_sessions.py"),
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
    "bm25s": PeerSpec("peer_bm25s.py", ("bm25s==0.3.16", "rjieba==0.2.1", "numpy"), vectors=False),
    "mem0": PeerSpec("peer_mem0.py", ("mem0ai==2.2.1", "qdrant-client==1.20.0", "fastembed==0.9.1", "numpy")),
    RECALL_LOOP: PeerSpec("peer_recall_loop.py", vectors=False),
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    report: dict[str, Any] = {
        "machine": _machine(),
        "date": date.today().isoformat(),
        "seed": arguments.seed,
        "asked": ASKED,
        "sets": [],
    }
    try:
        names = _named("peers", arguments.peers, PEERS)
        for key, data in _sets(arguments).items():
            sys.stderr.write(f"{key}:\n")
            report["sets"].append({"key": key} | _compared(data, names, arguments))
            if arguments.json:
                arguments.json.parent.mkdir(parents=True, exist_ok=True)
                arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            _show(report["sets"][-1])
    except RecallError as error:
        sys.stderr.write(f"peers: error: {error}\n")
        return 2
    failed = [f"{data['key']}: {name} failed: {why}" for data in report["sets"] for name, why in data["failed"].items()]
    for each in failed:
        sys.stderr.write(f"peers: {each}\n")
    return 1 if failed else 0


def _named(field: str, given: str | None, known: dict[str, Any]) -> list[str]:
    names = list(known) if given is None else given.split(",")
    for name in names:
        if name not in known:
            raise InvalidInputError(field, name, f"some of {', '.join(known)}")
    return names


def _sets(arguments: argparse.Namespace) -> dict[str, PeerSet]:
    if arguments.data is None:
        return {name: SETS[name] for name in _named("sets", arguments.sets, SETS)}
    name = arguments.data.resolve().name
    return {name: PeerSet(name, str(arguments.data.resolve()), kinds=arguments.kinds)}


def _machine() -> dict[str, Any]:
    """Return what figures of time depend on: processor, its cores, memory, system, Python."""
    said = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    models = [line.partition(":")[2].strip() for line in said if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _compared(data: PeerSet, names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all peers on one set."""
    dataset, prompts = load_questions(data, arguments.root, arguments.questions, arguments.seed)
    names = [name for name in names if data.sessions or name != SESSIONS]
    cache = arguments.cache or Path(tempfile.gettempdir()) / "recall-loop-peers"
    with tempfile.TemporaryDirectory() as folder:
        job = write_job(Path(folder), data, dataset, prompts, any(PEERS[name].vectors for name in names))
        rows, failed = _measured(names, Path(folder), cache, job)
    cost = job.embedding
    found = {"query_ms": cost.query_ms, "documents_per_second": cost.documents_per_second}
    return {
        "title": data.title,
        "note": data.note,
        "wide": data.wide,
        "kinds": dataset.kinds.value,
        "collections": len({prompt.request.tenant for prompt in prompts}),
        "documents": len(job.texts),
        "questions": len(prompts),
        "embedder": data.embedder,
        "embedding": found if cost.query_ms else None,
        "peers": rows,
        "failed": failed,
    }


def _measured(
    names: Sequence[str], folder: Path, cache: Path, job: PeerJob
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a row for each peer that ran, and why the others didn't: one that breaks spoils no other."""
    rows, failed = [], {}
    for name in names:
        try:
            rows.append(_measure(name, folder, cache, job))
        except PeerFailedError as error:
            failed[name] = str(error)
    return rows, failed


def _measure(name: str, folder: Path, cache: Path, job: PeerJob) -> dict[str, Any]:
    peer = PEERS[name]
    python = str(_environment(name, peer, cache)) if peer.packages else sys.executable
    sys.stderr.write(f"{name} …\n")
    with tempfile.TemporaryDirectory() as store:
        told = {"k": ASKED, "language": job.data.language, "store": f"{store}/store"}
        (folder / JOB).write_text(json.dumps(told), encoding="utf-8")
        (folder / RESULT).unlink(missing_ok=True)
        own = {key: value for key, value in os.environ.items() if not (peer.packages and key == "PYTHONPATH")}
        own["RECALL_LOOP_EMBEDDER"] = job.data.embedder
        command = [python, str(HERE / peer.script), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
        if done.returncode or not (folder / RESULT).is_file():
            raise PeerFailedError(f"exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return peer_row(name, peer.vectors, result, job)


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


def _show(found: dict[str, Any]) -> None:
    title = f"{found['title']} ({found['kinds']}), {found['questions']} questions, {found['documents']} documents"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("")
    for head in ("R@5", "R@10", "R@20", "nDCG@10", "any@10", "1,000 tokens", "p50 ms", "p95 ms", "docs/s", "MB"):
        table.add_column(head, justify="right")
    shown = ("recall@5", "recall@10", "recall@20", "ndcg@10", ANY, IN_CONTEXT)
    for row in sorted(found["peers"], key=lambda row: row["recall@10"]):
        cells = [f"{row[name]:.3f}" for name in shown]
        cells += [f"{row['latency_ms'][name]:.1f}" for name in ("p50", "p95")]
        cells += [f"{row['documents_per_second']:.0f}", f"{row['data_mb']:.0f}"]
        table.add_row(row["name"], *cells, style="bold" if row["name"] == RECALL_LOOP else None)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table)
    cost = found["embedding"]
    if cost is not None:  # else no peer was given vectors
        console.print(f"one query embedding {cost['query_ms']:.1f} ms, {cost['documents_per_second']:.0f} texts/s")
    told = "; ".join(" ".join(f"{key} {value}" for key, value in row["versions"].items()) for row in found["peers"])
    console.print(told, markup=False)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sets", metavar="A,..", help=f"some of {', '.join(SETS)} (default: all)")
    what.add_argument("--data", type=Path, help="a data set of your own instead, as `recall-loop eval` takes it")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the named sets")
    parser.add_argument("--kinds", help="documents to load of --data, as for `recall-loop eval`")
    parser.add_argument("--questions", type=int, metavar="N", help="ask N of each set (default: all with gold)")
    parser.add_argument("--seed", type=int, default=0, help="seed of that draw")
    parser.add_argument("--peers", metavar="A,..", help=f"some of {', '.join(PEERS)} (default: all)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder of the peers' environments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report, updated after each set")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
