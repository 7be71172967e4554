"""Kill a writer with SIGKILL at random moments, and look whether anything acknowledged was lost (STORE-4).

    python benchmarks/kills/kill_nine.py [--moments N] [--jobs N] [--seed N] [--longest X] [--lines N]

Each moment: a process ingests, upserts, deletes, erases, rebuilds or compacts, and writes to a journal of
its own, synced to disk, what it is about to do and what was acknowledged. It is killed. Then the store is
opened again and compared with the journal: what was acknowledged is there, the call that was cut off is
there wholly or not at all, `verify` finds nothing, and every window and vector equals that of a store into
which the same records were written without any crash. Exit status 1 if one moment fails.

The processes are forked from one that has imported everything and opened nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import chromadb.api.rust
import chromadb.telemetry.product.posthog  # noqa: F401  # imported before the fork, opened after it
import numpy as np

from recall_loop.memory.intake.files.checkpoints import Checkpoint
from recall_loop.memory.intake.files.ingest import IngestOptions, ingest_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables.prepared_records import prepare_record
from recall_loop.state.records.records import parse_record
from recall_loop.state.scope import Scope

SCENARIOS = ("ingest", "upsert", "delete", "rebuild", "large")
_BATCH = 20
# From so many rows on Chroma keeps files of vectors beside its database.
_LARGE = 1_100
_LONGEST_SECONDS = {"ingest": 1.0, "upsert": 0.8, "delete": 0.8, "rebuild": 1.0, "large": 1.5}


class LetterCountEmbedder:
    """A fast embedder: how often each letter occurs."""

    name, dimension, fingerprint = "letters", 26, "letters:1"

    def embed_documents(self, texts: Any) -> Any:
        """Return one vector per text."""
        counts = np.array([[text.lower().count(chr(97 + n)) + 0.01 for n in range(26)] for text in texts])
        vectors = counts.reshape(len(texts), 26).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed_documents


class Journal:
    """Calls as they were begun and acknowledged, on disk when the method returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def note(self, entry: dict[str, Any]) -> None:
        """Append one entry."""
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def record(number: int, stamp: int) -> dict[str, Any]:
    """Return a message; neighbours by number share windows."""
    words = " ".join(random.Random(number * 7919 + stamp).choices(("quay", "ferry", "tide", "rope", "lamp"), k=4))
    return {
        "id": f"m{number}",
        "kind": "message",
        "text": f"{words} {number} of {stamp}",
        "conversation_id": f"c{number % 5}",
        "position": number,
        "user_id": "u",
    }


def calls(scenario: str, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the calls of one process, without end."""
    stamp = 1
    while True:
        stamp += 1
        chosen = rng.choice(
            {"delete": ["cut", "cut", "erase", "put"], "rebuild": ["rebuild", "compact", "put"]}.get(
                scenario, ["put", "put", "put", "cut"]
            )
        )
        if chosen == "put":
            yield {"call": "put", "stamp": stamp, "numbers": rng.sample(range(120), rng.randint(1, 40))}
        elif chosen == "cut":
            yield {"call": "cut", "numbers": rng.sample(range(120), rng.randint(1, 10))}
        elif chosen == "erase":
            yield {"call": "erase", "conversation": rng.randrange(5)}
        else:
            yield {"call": chosen}


def apply(store: MemoryStore, call: dict[str, Any]) -> None:
    """Make one call."""
    match call["call"]:
        case "put":
            store.upsert([record(number, call["stamp"]) for number in call["numbers"]])
        case "cut":
            store.delete([f"m{number}" for number in call["numbers"]])
        case "erase":
            store.erase(Scope(conversation_id=f"c{call['conversation']}"))
        case "rebuild":
            store.maintenance.rebuild()
        case "compact":
            store.maintenance.compact()


def expected(before: dict[str, str], call: dict[str, Any]) -> dict[str, str]:
    """Return texts by id as they are after a call."""
    after = dict(before)
    match call["call"]:
        case "put":
            for number in call["numbers"]:
                after[f"m{number}"] = record(number, call["stamp"])["text"]
        case "cut":
            for number in call["numbers"]:
                after.pop(f"m{number}", None)
        case "erase":
            after = {name: text for name, text in after.items() if int(name[1:]) % 5 != call["conversation"]}
    return after


def work(folder: Path, scenario: str, seed: int) -> None:
    """Be the process that gets killed."""
    rng, journal = random.Random(seed), Journal(folder / "journal.jsonl")
    with MemoryStore.open(folder / "store", embedder=LetterCountEmbedder()) as store:
        journal.note({"ready": True})
        if scenario == "ingest":
            ingest_file(folder / "in.jsonl", store, options=IngestOptions(batch_size=_BATCH))
            journal.note({"ingested": True})
        for call in calls(scenario, rng) if scenario != "ingest" else ():
            journal.note(call)
            apply(store, call)
            journal.note({"done": True})
        time.sleep(60)


def check(folder: Path, scenario: str) -> None:
    """Open the store that was left behind, and raise `AssertionError` where something is wrong."""
    lines = (
        (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        if (folder / "journal.jsonl").exists()
        else []
    )
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    with MemoryStore.open(folder / "store", embedder=LetterCountEmbedder()) as store:
        assert store.degraded_reason is None, store.degraded_reason
        report = store.maintenance.verify()
        assert report.sound, report.findings
        if scenario == "ingest":
            check_ingest(folder, store, {"ingested": True} in entries)
        else:
            check_calls(store, entries, folder / "base.json")
        compare_with_fresh(store)


def check_ingest(folder: Path, store: MemoryStore, ended: bool) -> None:
    """What the checkpoint counts as done is there, in whole batches; going on completes it."""
    mark = Checkpoint(store, folder / "in.jsonl", "default", "records").load()
    found = [held.id for held in store.scan()]
    assert found == [f"m{number}" for number in range(len(found))] and len(found) % _BATCH == 0, len(found)
    assert mark.line <= len(found) <= mark.line + _BATCH or ended, (mark, len(found))
    ingest_file(folder / "in.jsonl", store, options=IngestOptions(batch_size=_BATCH))
    assert store.count() == (folder / "in.jsonl").read_bytes().count(b"\n")


def check_calls(store: MemoryStore, entries: list[dict[str, Any]], base: Path) -> None:
    """Compare with the journal: everything acknowledged, and the last call wholly or not at all."""
    texts: dict[str, str] = json.loads(base.read_text(encoding="utf-8")) if base.exists() else {}
    begun: dict[str, Any] | None = None
    for entry in entries:
        if "call" in entry:
            begun = entry
        elif "done" in entry and begun is not None:
            texts, begun = expected(texts, begun), None
    found = {held.id: held.text for held in store.scan()}
    allowed = [texts] if begun is None else [texts, expected(texts, begun)]
    assert found in allowed, (begun, len(found), [len(way) for way in allowed])


def compare_with_fresh(store: MemoryStore) -> None:
    """Windows, lexical index and vectors equal those of a store that never crashed."""
    folder = store.path.with_name("fresh")
    with MemoryStore.open(folder, embedder=LetterCountEmbedder()) as fresh:
        fresh.upsert(store.scan())
        assert rows_of(store) == rows_of(fresh)


def rows_of(store: MemoryStore) -> list[tuple[Any, ...]]:
    """Return what is derived from each record, in order of the ids."""
    query = """SELECT r.id, b.window, f.window, v.own, v.context FROM records r JOIN bodies b ON b.rowid = r.rowid
        JOIN fts f ON f.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid ORDER BY r.id"""
    with closing(sqlite3.connect(store.path / "sidecar.sqlite3")) as connection:
        return connection.execute(query).fetchall()


def prepare(folder: Path, scenario: str, large: Path, lines: int) -> None:
    """Lay out what a moment begins with."""
    folder.mkdir(parents=True)
    if scenario == "large":
        shutil.copytree(large, folder, dirs_exist_ok=True)
    with (folder / "in.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record(number, 0)) + "\n" for number in range(lines))


def make_large(folder: Path) -> None:
    """Make a store whose Chroma keeps files of vectors."""
    with MemoryStore.open(folder / "store", embedder=LetterCountEmbedder()) as store:
        store.upsert(record(number, 0) for number in range(_LARGE))
    texts = {f"m{number}": record(number, 0)["text"] for number in range(_LARGE)}
    (folder / "base.json").write_text(json.dumps(texts), encoding="utf-8")


def forked(target: Any, *arguments: Any) -> int:
    """Run a function in a forked process; return its number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        target(*arguments)
        code = 0
    except BaseException:  # noqa: BLE001  # whatever it is, it is printed, and the exit status says so
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def moment(folder: Path, scenario: str, large: Path, rng: random.Random, options: argparse.Namespace) -> bool:
    """Kill one process at one moment; return whether the store is as it must be."""
    prepare(folder, scenario, large, options.lines)
    number = forked(work, folder, scenario, rng.randrange(1 << 30))
    journal, from_start = folder / "journal.jsonl", rng.random() < 0.15
    end = time.monotonic() + 60
    # What is written first is that the store is open.
    while not from_start and not (journal.exists() and journal.stat().st_size) and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(rng.random() * options.longest * _LONGEST_SECONDS[scenario])
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    _, status = os.waitpid(forked(check, folder, scenario), 0)
    if status == 0:
        shutil.rmtree(folder)
    return status == 0


def worker(folder: Path, large: Path, moments: int, seed: int, options: argparse.Namespace) -> None:
    """Do the moments of one job; print a line for each that failed, and a count at the end, and raise if any did."""
    rng, failed = random.Random(seed), 0
    for number in range(moments):
        scenario = "large" if number % 10 == 9 else SCENARIOS[number % 4]
        kept = folder / f"{number}-{scenario}"
        if not moment(kept, scenario, large, rng, options):
            failed += 1
            sys.stdout.write(f"failed: {scenario}, kept in {kept}\n")
    sys.stdout.write(json.dumps({"moments": moments, "failed": failed}) + "\n")
    assert not failed


def main(argv: list[str] | None = None) -> int:
    """Spread the moments over jobs; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--moments", type=int, default=500, help="how many processes to kill (default: 500)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (default: 1)")
    parser.add_argument("--longest", type=float, default=1.0, help="share of the usual time that they may work at most")
    parser.add_argument("--lines", type=int, default=400, help="how many lines are ingested (default: 400)")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    options = parser.parse_args(argv)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kill-nine-"))
    started, jobs = time.monotonic(), []
    # Every process of a moment would make the patterns and tables again, for longer than all else that it does.
    prepare_record("default", parse_record(record(0, 0)))
    large = folder / "large"
    large.mkdir(parents=True)
    os.waitpid(forked(make_large, large), 0)
    for job in range(options.jobs):
        share = options.moments // options.jobs + (job < options.moments % options.jobs)
        jobs.append(forked(worker, folder / f"job{job}", large, share, options.seed + job, options))
    failed = sum(os.waitpid(job, 0)[1] != 0 for job in jobs)
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"{options.moments} moments in {seconds:.0f} s: {'a store failed' if failed else 'all stores whole'}\n"
    )
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
