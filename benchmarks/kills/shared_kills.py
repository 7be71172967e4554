"""A store in PostgreSQL whose processes, whose server and whose Chroma die at random moments (HOST-3).

    python benchmarks/kills/shared_kills.py [--kills N] [--restarts N] [--outage SECONDS] [--seed N]

Three processes write batches of five records for tenants of all of them, delete and search. One of them after another
is killed and replaced; PostgreSQL is stopped as by a power cut and started again; Chroma is away for a while. Every
acknowledged batch must be there and whole in the end, every acknowledged deletion must hold, and both sides be equal.
Leaves with 1 where anything is lost, half-written, or failed with another error than a typed one.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the servers are those of the tests

from recall_loop.memory.store.shared import outbox
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.chroma_server import ChromaProcess
from tests.embedders import WordHashEmbedder
from tests.foreign.postgres_backend import PostgresServer

BATCH = 5
TENANTS = 4
WRITERS = 3
WRITER = """
import random, time
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
place, url, name = sys.argv[1:]
chance, at, store = random.Random(name), 0, None
while True:
    tenant = f"t{at % 4}"
    try:
        store = store or MemoryStore.open(place, embedder=WordHashEmbedder(), url=url)
        batch = [{"id": f"{name}-{at}-{n}", "text": f"{name} batch {at} {n}", "session": "s"} for n in range(5)]
        store.upsert(batch, tenant=tenant)
        print("w", tenant, at, flush=True)
        if not search(store, f"{name} batch {at}", scope=Scope(tenant=tenant)).hits:
            print("wrong", tenant, at, flush=True)
        if chance.random() < 0.2:
            print("maybe", tenant, at, flush=True)
            store.delete([one["id"] for one in batch], tenant=tenant)
            print("d", tenant, at, flush=True)
        at += 1
    except RecallError as error:
        print("typed", type(error).__name__, flush=True)
        at += 1  # what failed may be there or not, and is asked for by nobody
        time.sleep(0.2)
"""


class Writers:
    """Processes that write, with what each has acknowledged: by tenant and batch: written, deleted, or maybe."""

    def __init__(self, place: str, url: str) -> None:
        self._arguments = (place, url)
        self.acknowledged: dict[tuple[str, str], str] = {}
        self.met: Counter[str] = Counter()
        self.untyped: list[str] = []
        self._running: list[tuple[subprocess.Popen[str], threading.Thread]] = []
        self._started = 0

    def start(self) -> None:
        """Start one more."""
        root = Path(__file__).resolve().parents[2]
        name = f"n{self._started}"
        self._started += 1
        script = f"import sys; sys.path.insert(0, {str(root)!r})\n{WRITER}"
        process = subprocess.Popen(
            [sys.executable, "-c", script, *self._arguments, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        thread = threading.Thread(target=self._listen, args=(process, name))
        thread.start()
        self._running.append((process, thread))

    def _listen(self, process: subprocess.Popen[str], name: str) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):  # the kill cut it off
                return
            kind, *rest = line.split()
            self.met[kind if kind != "typed" else rest[0]] += 1
            if kind in ("w", "d", "maybe"):
                self.acknowledged[rest[0], f"{name}-{rest[1]}"] = kind

    def kill(self, chance: random.Random) -> None:
        """Kill one at random, and wait for what it had said."""
        process, thread = self._running.pop(chance.randrange(len(self._running)))
        process.kill()
        thread.join()
        assert process.stderr is not None
        said = process.stderr.read()
        process.wait()
        if "Traceback" in said:
            self.untyped.append(said[-2000:])


def check(store: MemoryStore, acknowledged: dict[tuple[str, str], str]) -> list[str]:
    """Return what is lost, half-written or back from the dead."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for tenant in store.tenants():
        for record in store.scan(Scope(tenant=tenant)):
            found[tenant, record.id.rpartition("-")[0]] += 1
    wrong = [f"half-written: {key} {count}" for key, count in found.items() if count != BATCH]
    wrong += [f"lost: {key}" for key, kind in acknowledged.items() if kind == "w" and key not in found]
    return wrong + [f"deleted and back: {key}" for key, kind in acknowledged.items() if kind == "d" and key in found]


def disturb(arguments: argparse.Namespace, postgres: PostgresServer, chroma: ChromaProcess, writers: Writers) -> None:
    """Kill and restart at random moments."""
    chance = random.Random(arguments.seed)
    events = ["kill"] * arguments.kills + ["restart"] * arguments.restarts
    chance.shuffle(events)
    away = len(events) // 2
    for at, event in enumerate(events):
        time.sleep(chance.uniform(0.2, 1.5))
        if event == "kill":
            writers.kill(chance)
            writers.start()
        else:
            postgres.stop()
            time.sleep(chance.uniform(0, 0.5))
            postgres.start()
        if at == away and arguments.outage:
            chroma.kill()
            threading.Timer(arguments.outage, chroma.start).start()


def main() -> int:
    """Run, and say what was lost."""
    parser = argparse.ArgumentParser(description="Kills around a store in PostgreSQL.")
    parser.add_argument("--kills", type=int, default=200, help="processes that are killed (default: %(default)s)")
    parser.add_argument("--restarts", type=int, default=20, help="power cuts of PostgreSQL (default: %(default)s)")
    parser.add_argument("--outage", type=float, default=60, help="seconds without Chroma (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        postgres, chroma = PostgresServer(), ChromaProcess(Path(folder) / "chroma")
        chroma.start()
        place = postgres.address("kills")
        writers = Writers(place, chroma.url)
        for _ in range(WRITERS):
            writers.start()
        disturb(arguments, postgres, chroma, writers)
        time.sleep(arguments.outage if arguments.outage else 1)
        for _ in range(WRITERS):
            writers.kill(random.Random(0))
        with MemoryStore.open(place, embedder=WordHashEmbedder(), url=chroma.url) as store:
            end = time.monotonic() + 120
            while sum(outbox.count_waiting(store._session.database)) and time.monotonic() < end:
                time.sleep(0.5)
            wrong = check(store, writers.acknowledged)
            report = store.maintenance.verify()
        chroma.kill()
    wrong += [*report.findings, *report.notes, *writers.untyped]
    wrong += ["a search found nothing"] * writers.met["wrong"]
    print(f"acknowledged: {len(writers.acknowledged)} batches; met: {dict(writers.met)}; records: {report.records}")
    print("\n".join(wrong) or f"nothing lost after {arguments.kills} kills and {arguments.restarts} restarts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
