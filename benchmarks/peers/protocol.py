"""What the runner and a peer tell each other: files in, one file out. Needs Python and numpy alone.

The runner writes a folder: `documents.jsonl` (id, collection, text), `questions.jsonl` (id, collection, text),
`vectors.npy` with `texts.json` (the text of each row), and `job.json` (k, the folder for stores). A peer is a script
that calls `serve` with a class of its own; what it found and how long it took goes to `result.json`. Vectors are given,
so no peer embeds anything: what that takes is measured once, apart.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

DOCUMENTS, QUESTIONS, VECTORS, TEXTS = "documents.jsonl", "questions.jsonl", "vectors.npy", "texts.json"
JOB, RESULT = "job.json", "result.json"
_MB = 1024 * 1024


class Peer(Protocol):
    """What is compared."""

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: Any) -> None:
        """Take the documents of one collection; all of them are found when this returns."""

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        """Return the ids of the best k documents of a collection, best first."""


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def serve(make: Any, packages: list[str]) -> int:
    """Run a peer on the job in the folder that the command line names; `make` is called with a folder for its store."""
    import numpy as np

    folder = Path(sys.argv[1])
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    vectors: dict[str, Any] = {}
    if (folder / VECTORS).is_file():
        matrix = np.load(folder / VECTORS)
        vectors = dict(zip(json.loads((folder / TEXTS).read_text(encoding="utf-8")), matrix, strict=True))
    documents, questions = read_json_lines(folder / DOCUMENTS), read_json_lines(folder / QUESTIONS)
    before = memory()
    peer = make(Path(job["store"]), vectors)
    seconds = _fill(peer, documents, vectors)
    filled = memory()
    answers = [_ask(peer, question, vectors, job["k"]) for question in questions]
    result = {
        "versions": {name: version(name) for name in packages},
        "documents": len(documents),
        "ingest_seconds": seconds,
        "memory_mb": {"before": before, "filled": filled, "asked": memory()},
        "answers": answers,
    }
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")
    return 0


def _fill(peer: Peer, documents: list[dict[str, Any]], vectors: dict[str, Any]) -> float:
    collections: dict[str, list[dict[str, Any]]] = {}
    for document in documents:
        collections.setdefault(document["collection"], []).append(document)
    started = time.perf_counter()
    for name, members in collections.items():
        texts = [document["text"] for document in members]
        rows = [vectors.get(text) for text in texts]
        peer.add(name, [document["id"] for document in members], texts, rows)
    return time.perf_counter() - started


def _ask(peer: Peer, question: dict[str, Any], vectors: dict[str, Any], k: int) -> dict[str, Any]:
    vector = vectors.get(question["text"])
    started = time.perf_counter()
    ids = peer.ask(question["collection"], question["text"], vector, k)
    return {"id": question["id"], "ids": ids, "ms": (time.perf_counter() - started) * 1000}


def memory() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / _MB
