"""Damage one side of a store that was killed, in every way, and look whether anything acknowledged was lost (GUARD-1).

    python benchmarks/kills/damage_matrix.py [--records N] [--flips N] [--seed N] [--states fresh,closed,compacted]

A process writes, replaces and deletes records, and is killed with SIGKILL. Its store was never closed, closed once,
or compacted before. Then, each time on a copy of the folder: the sidecar's write-ahead file is deleted, truncated at
each quarter, or gets a bit flipped; an earlier sidecar or an earlier Chroma is put back; or either side is removed.
The store is opened for writing. Every acknowledged record has to be there with its last text and its attributes, and
no deleted one; `verify` has to find nothing; `repairs` has to name what was done; and a second open has nothing left
to repair. Exit status 1 if one case fails.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kill_nine import LetterCountEmbedder

from recall_loop.memory.store.store import MemoryStore

STATES = ("fresh", "closed", "compacted")
SIDECAR, WAL = "sidecar.sqlite3", "sidecar.sqlite3-wal"
_CHUNK = 20
Damage = Callable[[Path], None]


def record(number: int, stamp: int) -> dict[str, Any]:
    """Return a message with attributes; neighbours by number share windows."""
    return {
        "id": f"m{number}",
        "kind": "message",
        "text": f"ferry {number} leaves at {stamp}",
        "conversation_id": f"c{number % 7}",
        "position": number,
        "attributes": {"stamp": stamp, "list": [number]},
    }


def expected(records: int) -> dict[str, int]:
    """Return the stamps of the records that are there in the end."""
    stamps = dict.fromkeys(range(records), 0)
    for number in range(0, records // 4, 3):
        stamps[number] = 1
    for number in range(1, records // 4, 3):
        del stamps[number]
    return {f"m{number}": stamp for number, stamp in stamps.items()}


def work(folder: Path, state: str, records: int, pause: Callable[[str], None]) -> None:
    """Be the process that gets killed: say what is written, and wait for word to go on."""
    half = records // 2

    def write(store: MemoryStore, numbers: range, stamp: int) -> None:
        for start in range(0, len(numbers), _CHUNK):
            store.upsert([record(number, stamp) for number in numbers[start : start + _CHUNK]])

    store = MemoryStore.open(folder, embedder=LetterCountEmbedder())
    write(store, range(half), 0)
    pause("older")
    if state != "fresh":
        if state == "compacted":
            store.maintenance.compact()
        store.close()
        store = MemoryStore.open(folder, embedder=LetterCountEmbedder())
    pause("earlier")
    write(store, range(half, records), 0)
    write(store, range(0, records // 4, 3), 1)
    store.delete([f"m{number}" for number in range(1, records // 4, 3)])
    pause("acknowledged")


def make(folder: Path, state: str, records: int) -> None:
    """Make a store that was killed, with the copies of it that were taken on the way."""
    ours, theirs = multiprocessing.Pipe()

    def pause(words: str) -> None:
        theirs.send(words)
        theirs.recv()

    # What it needs is imported, and nothing is open yet.
    child = multiprocessing.get_context("fork").Process(target=work, args=(folder / "store", state, records, pause))
    child.start()
    theirs.close()
    for name in ("older", "earlier", "acknowledged"):
        assert ours.recv() == name, "the writer failed"
        if name != "acknowledged":
            shutil.copytree(folder / "store", folder / name)
            ours.send(None)
    child.kill()
    child.join()
    ours.close()


def remove_sidecar(store: Path) -> None:
    """Remove the sidecar with what SQLite keeps beside it."""
    for file in store.glob(f"{SIDECAR}*"):
        file.unlink()


def put_back(copy: Path, side: str) -> Damage:
    """Return what puts one side of an earlier copy back."""

    def damage(store: Path) -> None:
        if side == "chroma":
            shutil.rmtree(store / "chroma")
            shutil.copytree(copy / "chroma", store / "chroma")
            return
        remove_sidecar(store)
        for name in (SIDECAR, WAL):
            if (copy / name).exists():
                shutil.copy2(copy / name, store / name)

    return damage


def flip(seed: str) -> Damage:
    """Return what flips a bit of the write-ahead file at a place that the seed draws."""

    def damage(store: Path) -> None:
        rng, content = random.Random(seed), bytearray((store / WAL).read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (store / WAL).write_bytes(content)

    return damage


def truncate(quarters: int) -> Damage:
    """Return what leaves so many quarters of the write-ahead file."""
    return lambda store: os.truncate(store / WAL, (store / WAL).stat().st_size * quarters // 4)


def damages(folder: Path, flips: int, seed: int) -> Iterator[tuple[str, Damage]]:
    """Yield every way in which a store is damaged."""
    yield "nothing", lambda _: None
    yield "write-ahead file deleted", lambda store: (store / WAL).unlink()
    for quarters in (0, 1, 2, 3):
        yield f"write-ahead file truncated at {quarters}/4", truncate(quarters)
    for number in range(flips):
        yield f"bit {number} of the write-ahead file flipped", flip(f"{seed} {number}")
    for name in ("earlier", "older"):
        yield f"{name} sidecar", put_back(folder / name, "sidecar")
        yield f"{name} Chroma", put_back(folder / name, "chroma")
    yield "sidecar missing", remove_sidecar
    yield "Chroma missing", lambda store: shutil.rmtree(store / "chroma")


def check(store: Path, records: int, *, quiet: bool) -> list[str]:
    """Open a damaged store, and raise `AssertionError` where something is lost, back again or not told."""
    with MemoryStore.open(store, embedder=LetterCountEmbedder()) as opened:
        repairs = list(opened.repairs)
        found = {held.id: (held.text, held.attributes) for held in opened.scan()}
        report = opened.maintenance.verify()
        assert opened.degraded_reason is None, opened.degraded_reason
    wanted = {name: record(int(name[1:]), stamp) for name, stamp in expected(records).items()}
    lost, back = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    assert not lost and not back, f"lost {len(lost)}, back again {len(back)}"
    stale = [name for name, one in wanted.items() if found[name] != (one["text"], one["attributes"])]
    assert not stale, f"older: {len(stale)}"
    assert report.sound, report.findings
    assert repairs or quiet, "nothing was told"
    with MemoryStore.open(store, embedder=LetterCountEmbedder()) as opened:
        assert not opened.repairs, opened.repairs
    return repairs


def run(folder: Path, state: str, records: int, flips: int, seed: int) -> tuple[int, int]:
    """Try every damage on a store in one state; return the number of cases, and of those that failed."""
    cases = failed = 0
    for name, damage in damages(folder, flips, seed):
        case = folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder / "store", case)
        damage(case)
        cases += 1
        try:
            # Behind the last frame of the write-ahead file, and after a checkpoint, nothing is lost.
            check(case, records, quiet=name == "nothing" or "write-ahead" in name)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            failed += 1
            sys.stdout.write(f"failed: {state}, {name}: {type(error).__name__}: {error}\n")
            shutil.move(case, folder / f"failed-{failed}")
    return cases, failed


def main(argv: list[str] | None = None) -> int:
    """Try every damage in every state; return 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=400, help="records of a store (default: 400)")
    parser.add_argument("--flips", type=int, default=50, help="places where a bit is flipped (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="seed of these places (default: 1)")
    parser.add_argument("--states", default=",".join(STATES), help="what became of the store before it was killed")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    options = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="damage-"))
    started, figures = time.monotonic(), dict[str, list[int]]()
    for state in options.states.split(","):
        (folder / state).mkdir(parents=True)
        make(folder / state, state, options.records)
    for state in options.states.split(","):
        figures[state] = list(run(folder / state, state, options.records, options.flips, options.seed))
    cases, failed = (sum(column) for column in zip(*figures.values(), strict=True))
    sys.stdout.write(json.dumps({"cases": cases, "failed": failed, "by state": figures}) + "\n")
    sys.stdout.write(f"{cases} cases in {time.monotonic() - started:.0f} s: {failed} failed\n")
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
