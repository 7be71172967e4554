"""What the runner and a peer tell each other: files in, one file out. Needs Python and numpy alone.

The runner writes a folder: `documents.jsonl` (id, collection, text, session), `questions.jsonl` (id, collection, text,
and `before`, the last document that was there when it was asked, or null), `sessions.jsonl` (id, collection, text),
`vectors.npy` with `texts.json` (the text of each row), and `job.json` (k, language, the folder for stores). A peer is a
script that calls `serve` with a class of its own; what it found and how long it took goes to `result.json`. Vectors are
given, so no peer embeds anything: what that takes is measured once, apart.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

DOCUMENTS, QUESTIONS, SESSIONS = "documents.jsonl", "questions.jsonl", "sessions.jsonl"
VECTORS, TEXTS = "vectors.npy", "texts.json"
JOB, RESULT = "job.json", "result.json"
_MB = 1024 * 1024


class Peer(Protocol):
    """What is compared."""

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: Any) -> None:
        """Take further documents of a collection; all of them are found when this returns."""

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        """Return the ids of the best k documents of a collection, best first."""


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_job(folder: Path) -> dict[str, Any]:
    """Read what a peer is told beside documents and questions."""
    return json.loads((folder / JOB).read_text(encoding="utf-8"))


def serve(make: Any, packages: list[str]) -> int:
    """Run a peer on the job in the folder that the command line names; `make` is called with a folder for its store."""
    import numpy as np

    folder = Path(sys.argv[1])
    job = read_job(folder)
    vectors: dict[str, Any] = {}
    if (folder / VECTORS).is_file():
        matrix = np.load(folder / VECTORS)
        vectors = dict(zip(json.loads((folder / TEXTS).read_text(encoding="utf-8")), matrix, strict=True))
    run = _Run(read_json_lines(folder / DOCUMENTS), read_json_lines(folder / QUESTIONS), vectors)
    peer = make(Path(job["store"]), vectors)
    before = memory()
    answers = run.answers(peer, job["k"])
    result = {
        "versions": {name: version(name) for name in packages},
        "documents": run.written,
        "ingest_seconds": run.seconds,
        "memory_mb": {"before": before, "asked": memory()},
        "answers": answers,
    }
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")
    return 0


class _Run:
    """One peer on one job: writes as far as each question may see, and asks it."""

    def __init__(
        self, documents: list[dict[str, Any]], questions: list[dict[str, Any]], vectors: dict[str, Any]
    ) -> None:
        self.written, self.seconds = 0, 0.0
        self._vectors = vectors
        self._collections: dict[str, list[dict[str, Any]]] = {}
        for document in documents:
            self._collections.setdefault(document["collection"], []).append(document)
        places = {
            (name, document["id"]): at
            for name, members in self._collections.items()
            for at, document in enumerate(members, start=1)
        }
        self._until = {
            question["id"]: places[question["collection"], question["before"]]
            if question["before"]
            else len(self._collections[question["collection"]])
            for question in questions
        }
        self._questions = sorted(questions, key=lambda question: self._until[question["id"]])
        self._there = dict.fromkeys(self._collections, 0)

    def answers(self, peer: Peer, k: int) -> list[dict[str, Any]]:
        """Ask all questions; what every question of a collection may see is written before the first is asked."""
        first: dict[str, int] = {}
        for question in self._questions:
            first.setdefault(question["collection"], self._until[question["id"]])
        for name, until in first.items():
            self._write(peer, name, until)
        return [self._asked(peer, question, k) for question in self._questions]

    def _write(self, peer: Peer, name: str, until: int) -> None:
        further = self._collections[name][self._there[name] : until]
        if not further:
            return
        texts = [document["text"] for document in further]
        rows = [self._vectors.get(text) for text in texts]
        started = time.perf_counter()
        peer.add(name, [document["id"] for document in further], texts, rows)
        self.seconds += time.perf_counter() - started
        self.written += len(further)
        self._there[name] = until

    def _asked(self, peer: Peer, question: dict[str, Any], k: int) -> dict[str, Any]:
        self._write(peer, question["collection"], self._until[question["id"]])
        vector = self._vectors.get(question["text"])
        started = time.perf_counter()
        ids = peer.ask(question["collection"], question["text"], vector, k)
        return {"id": question["id"], "ids": ids, "ms": (time.perf_counter() - started) * 1000}


def memory() -> float:
    """Return the resident memory of this process in MB, after what is free was given back to the system."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / _MB
