"""The service under load, and through the death of its Chroma server.

    python benchmarks/service/service_load.py [--workers N] [--clients N] [--requests N] [--outage SECONDS]
    python benchmarks/service/service_load.py --postgres ADDRESS --workers 3 --requests 3000 --outage 0

`recall-loop serve` runs with several workers on a Chroma server, all on loopback. Clients of eight tenants write,
search, retrieve and read at once. Then the Chroma server is killed and started again while they go on. Leaves with 1
where a request fails that shouldn't, an answer has another tenant's or another text, an answer doesn't say that it is
degraded, memory grows, or an acknowledged record is missing. With PostgreSQL every worker writes, and what was written
must be found a tenth of a second later by whichever worker is asked (HOST-2). The default embedder is used; clients
and service share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the servers are those of the tests
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import own_schema
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRole, add_key
from tests.chroma_server import ChromaProcess
from tests.service_server import ServiceProcess

TENANTS = [f"t{at}" for at in range(8)]
TOPICS = ("ferry", "harbour", "timetable", "coffee", "windows", "garden", "invoice", "holiday")
MIX = ("search",) * 9 + ("retrieve",) * 4 + ("write",) * 4 + ("read",) * 2 + ("runs",)
SHARED_MIX = (*MIX, *("follow",) * 4)
PRELOADED = 200
MOST_GROWTH = 1.15  # of the service's memory, from a quarter of the load to its end
_RECOVERY_SECONDS = 60


@dataclass
class LoadObservations:
    """What the clients met."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    sent: dict[str, dict[str, str]] = field(default_factory=lambda: {tenant: {} for tenant in TENANTS})
    acknowledged: dict[str, dict[str, str]] = field(default_factory=lambda: {tenant: {} for tenant in TENANTS})
    degraded: list[tuple[float, bool]] = field(default_factory=list)
    written: list[tuple[float, bool]] = field(default_factory=list)


class Clients:
    """Clients of all tenants, each with requests of its own."""

    def __init__(self, url: str, keys: dict[str, str], count: int, mix: tuple[str, ...] = MIX) -> None:
        self.count = count
        self._mix = mix
        self.observations = LoadObservations()
        self._keys = keys
        limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
        self._client = httpx.AsyncClient(base_url=url, timeout=60, limits=limits)
        self._number = 0

    async def work(self, client: int, until: Any, outage: bool = False) -> None:
        """Make requests as long as `until()` is false."""
        draw = random.Random(client)
        while not until():
            tenant, kind = TENANTS[client % len(TENANTS)], draw.choice(self._mix)
            began = time.perf_counter()
            try:
                response = await getattr(self, kind)(tenant, draw)
            except httpx.HTTPError as error:
                self.observations.wrong.append(f"{kind}: {type(error).__name__}: {error}")
                continue
            self.observations.times[kind].append(time.perf_counter() - began)
            self.observations.statuses[kind, response.status_code] += 1
            refused = outage and kind == "write" and response.status_code == 503
            if response.status_code >= 300 and not refused:
                self.observations.wrong.append(f"{kind}: {response.status_code} {response.text[:200]}")
            if refused:
                await asyncio.sleep(0.2)

    async def ask(self, tenant: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._keys[tenant]}"}
        return await self._client.request(method, path, json=body, headers=headers)

    async def write(self, tenant: str, draw: random.Random, count: int = 3) -> httpx.Response:
        return await self.send(tenant, self.drawn(draw, count))

    def drawn(self, draw: random.Random, count: int) -> list[dict[str, str]]:
        records = []
        for _ in range(count):
            self._number += 1
            text = f"{draw.choice(TOPICS)} number {self._number} before the {draw.choice(TOPICS)}"
            place = {"conversation_id": "c", "session": f"s{self._number // 20}"}
            records.append({"id": f"m-{self._number}", "kind": "message", "text": text, **place})
        return records

    async def send(self, tenant: str, records: list[dict[str, str]]) -> httpx.Response:
        texts = {record["id"]: record["text"] for record in records}
        self.observations.sent[tenant].update(texts)
        response = await self.ask(tenant, "POST", "/api/memory/records", {"records": records})
        self.observations.written.append((time.monotonic(), response.status_code == 200))
        if response.status_code == 200:
            self.observations.acknowledged[tenant].update(texts)
        return response

    async def follow(self, tenant: str, draw: random.Random) -> httpx.Response:
        """Write a record, and search for it after the time within which every process sees it."""
        (record,) = self.drawn(draw, 1)
        response = await self.send(tenant, [record])
        if response.status_code != 200:
            return response
        await asyncio.sleep(0.1)
        response = await self.ask(tenant, "POST", "/api/memory/search", {"query": record["text"]})
        if response.status_code == 200 and record["id"] not in self.checked(tenant, response.json()["hits"], "content"):
            self.observations.wrong.append(f"follow: {record['id']} isn't found")
        return response

    def checked(self, tenant: str, found: list[dict[str, Any]], text: str) -> list[str]:
        """Return the ids of what was found, after a look whether the tenant has written each as it is."""
        for one in found:
            if self.observations.sent[tenant].get(one["id"]) != one[text]:
                self.observations.wrong.append(f"{tenant} was given {one['id']}: {one[text]}")
        return [one["id"] for one in found]

    async def search(self, tenant: str, draw: random.Random) -> httpx.Response:
        query = f"{draw.choice(TOPICS)} before {draw.choice(TOPICS)}"
        response = await self.ask(tenant, "POST", "/api/memory/search", {"query": query})
        if response.status_code == 200:
            found = response.json()
            self.observations.degraded.append((time.monotonic(), found["degraded"]))
            if not self.checked(tenant, found["hits"], "content"):
                self.observations.wrong.append(f"search: nothing found for {query}")
        return response

    async def retrieve(self, tenant: str, draw: random.Random) -> httpx.Response:
        content = f"What came before the {draw.choice(TOPICS)}?"
        response = await self.ask(tenant, "POST", "/api/memory/retrieve", {"messages": [{"content": content}]})
        if response.status_code == 200 and not self.checked(tenant, response.json()["facts"], "text"):
            self.observations.wrong.append(f"retrieve: nothing found for {content}")
        return response

    async def read(self, tenant: str, draw: random.Random) -> httpx.Response:
        known = self.observations.acknowledged[tenant]
        wanted = draw.choice(list(known))
        response = await self.ask(tenant, "GET", f"/api/memory/records/{wanted}")
        if response.status_code == 200 and response.json()["text"] != known[wanted]:
            self.observations.wrong.append(f"read: {wanted} is another record")
        return response

    async def runs(self, tenant: str, draw: random.Random) -> httpx.Response:
        body = {"query": draw.choice(TOPICS), "include_contrasts": True}
        return await self.ask(tenant, "POST", "/api/trajectories/search", body)

    async def preload(self) -> None:
        draw = random.Random(0)
        for tenant in TENANTS:
            (await self.write(tenant, draw, PRELOADED)).raise_for_status()
            (await self.search(tenant, draw)).raise_for_status()

    async def missing(self) -> list[str]:
        """Return the acknowledged records that aren't there, or aren't as they were written."""
        lost = []
        for tenant, known in self.observations.acknowledged.items():
            found: dict[str, str] = {}
            cursor = ""
            while cursor is not None:
                path = f"/api/memory/records?limit=1000{f'&cursor={cursor}' if cursor else ''}"
                page = (await self.ask(tenant, "GET", path)).raise_for_status().json()
                found |= {record["id"]: record["text"] for record in page["records"]}
                cursor = page.get("next_cursor")
            lost += [f"{tenant}/{name}" for name, text in known.items() if found.get(name) != text]
        return lost


def memory_of(pid: int) -> float:
    """Return the memory of a process and all that it has started, in MB (proportional, as Linux counts it)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return own + sum(memory_of(int(child)) for child in children)


async def steady(clients: Clients, pid: int, requests: int) -> tuple[float, float, float]:
    """Make so many requests; return seconds, and memory after a quarter of them and at the end."""

    def made() -> int:
        return sum(clients.observations.statuses.values()) + len(clients.observations.wrong)

    began, early = time.perf_counter(), 0.0
    working = [asyncio.create_task(clients.work(at, lambda: made() >= requests)) for at in range(clients.count)]
    while not all(task.done() for task in working):
        await asyncio.sleep(0.1)
        if not early and made() >= requests / 4:
            early = memory_of(pid)
    await asyncio.gather(*working)
    return time.perf_counter() - began, early, memory_of(pid)


async def outage(clients: Clients, chroma: ChromaProcess, seconds: float) -> dict[str, float]:
    """Kill Chroma under load, and start it again; return when that was noticed, and over."""
    ended = asyncio.Event()
    working = [asyncio.create_task(clients.work(at, ended.is_set, outage=True)) for at in range(clients.count)]
    await asyncio.sleep(1)
    killed = time.monotonic()
    await asyncio.to_thread(chroma.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(chroma.start)
    back = time.monotonic()
    while time.monotonic() < back + _RECOVERY_SECONDS and not recovered(clients.observations, back):
        await asyncio.sleep(0.5)
    ended.set()
    await asyncio.gather(*working)
    return {
        "degraded after": first(clients.observations.degraded, killed, True) - killed,
        "writes refused after": first(clients.observations.written, killed, False) - killed,
        "writes taken again after": first(clients.observations.written, back, True) - back,
        "whole again after": last(clients.observations.degraded, True) - back,
        "whole": float(recovered(clients.observations, back)),
    }


def recovered(seen: LoadObservations, since: float) -> bool:
    """Return whether the last answers of all workers were whole, and a write was acknowledged."""
    latest = [degraded for at, degraded in seen.degraded[-200:] if at > since]
    return len(latest) >= 150 and not any(latest[-150:]) and first(seen.written, since, True) < float("inf")


def first(events: list[tuple[float, bool]], since: float, wanted: bool) -> float:
    return min((at for at, value in events if at > since and value is wanted), default=float("inf"))


def last(events: list[tuple[float, bool]], wanted: bool) -> float:
    return max((at for at, value in events if value is wanted), default=float("-inf"))


def show(console: Console, title: str, seen: LoadObservations, seconds: float) -> None:
    table = Table(title=title, box=box.SIMPLE)
    for name in ("request", "count", "p50 ms", "p95 ms", "max ms", "statuses"):
        table.add_column(name, justify="left" if name in ("request", "statuses") else "right")
    total = [at for times in seen.times.values() for at in times]
    for kind, times in [*sorted(seen.times.items()), ("all", total)]:
        p50, p95 = (np.percentile(times, share) * 1000 for share in (50, 95))
        statuses = ", ".join(f"{status} × {n}" for (of, status), n in sorted(seen.statuses.items()) if of == kind)
        table.add_row(kind, f"{len(times):,}", f"{p50:.0f}", f"{p95:.0f}", f"{max(times) * 1000:.0f}", statuses)
    console.print(table)
    console.print(f"{len(total) / seconds:.0f} requests a second, {len(seen.wrong)} wrong")


async def run(args: argparse.Namespace, console: Console, folder: Path) -> bool:
    chroma, keys_file = ChromaProcess(folder / "chroma"), folder / "keys.json"
    keys = {tenant: add_key(keys_file, tenant, KeyRole.WRITE)[1] for tenant in TENANTS}
    chroma.start()
    place = own_schema(args.postgres) if args.postgres else str(folder / "memory")
    words = ["--store", place, "--chroma-url", chroma.url]
    words += ["--workers", str(args.workers), "--keys", str(keys_file)]
    served = ServiceProcess(words, folder)
    try:
        served.ready()
        clients = Clients(served.url, keys, args.clients, SHARED_MIX if args.postgres else MIX)
        await clients.preload()
        good = await steady_phase(args, console, clients, served.process.pid)
        if args.outage:
            good = await outage_phase(args, console, clients, chroma) and good
        status = served.end()
        console.print(f"the service ended with {status}")
        with MemoryStore.open(place) as store:
            report = store.maintenance.verify()
            console.print(f"store verify: {'sound' if report.sound else report.findings[:5]}")
        return good and status == 0 and report.sound
    finally:
        served.end(9)
        chroma.kill()


async def steady_phase(args: argparse.Namespace, console: Console, clients: Clients, pid: int) -> bool:
    """Print the figures of the steady load; return whether all went well and memory did not grow."""
    seen = clients.observations
    seen.times.clear()
    seen.statuses.clear()
    seconds, early, late = await steady(clients, pid, args.requests)
    show(console, f"{args.requests:,} requests, {args.clients} clients, {args.workers} workers", seen, seconds)
    console.print(f"memory of the service: {early:.0f} MB after a quarter, {late:.0f} MB at the end")
    good = await nothing_missing(console, clients)
    return good and late <= early * MOST_GROWTH


async def outage_phase(args: argparse.Namespace, console: Console, clients: Clients, chroma: ChromaProcess) -> bool:
    """Print the figures of the outage; return whether the service noticed it, recovered and lost nothing."""
    seen = clients.observations
    seen.wrong, seen.times, seen.statuses = [], defaultdict(list), Counter()
    began = time.perf_counter()
    noticed = await outage(clients, chroma, args.outage)
    show(console, f"Chroma killed for {args.outage:g} s", seen, time.perf_counter() - began)
    for name, value in noticed.items():
        if name != "whole":
            console.print(f"{name} {value:.1f} s")
    good = await nothing_missing(console, clients)
    return good and bool(noticed["whole"]) and noticed["degraded after"] < args.outage


async def nothing_missing(console: Console, clients: Clients) -> bool:
    """Print what was wrong and which acknowledged records are missing; return whether there is neither."""
    seen, lost = clients.observations, await clients.missing()
    count = sum(len(known) for known in seen.acknowledged.values())
    console.print(f"{count:,} records acknowledged, {len(lost)} of them missing")
    print_problems(console, [*seen.wrong, *lost])
    return not seen.wrong and not lost


def print_problems(console: Console, problems: list[str]) -> None:
    for problem in problems[:20]:
        console.print(problem, markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--outage", type=float, default=10.0, help="seconds that Chroma is away; 0 leaves that out")
    parser.add_argument("--postgres", metavar="ADDRESS", help="a database that a schema is made in for the store")
    args = parser.parse_args()
    os.environ.setdefault("RECALL_LOOP_SERVICE_RATE_PER_MINUTE", "1000000")
    os.environ.setdefault("RECALL_LOOP_SERVICE_RATE_BURST", "100000")
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="recall-loop-load-") as name:
        good = asyncio.run(run(args, console, Path(name)))
    console.print("passed" if good else "FAILED", style="bold")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
