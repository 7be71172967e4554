"""What a search costs beside Chroma's and FTS5's own queries over the same records.

    python benchmarks/search/search_speed.py [--records N …] [--cache DIR] [--json]

Everything that is compared is asked in turn within one loop, so that noise hits all of it. Query vectors are
given: nothing is embedded. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from corpora import DATA, FILTERS, VERSION, PairEmbedder, TextPool, cases, load_pool
from rich import box
from rich.console import Console
from rich.table import Table
from search_measures import (
    BATCH,
    WARM,
    ExactIndex,
    K,
    QueryRunner,
    Timings,
    beside_brute_force,
    chroma_filtered,
    filtered,
    recalls,
    unfiltered,
    writes,
)
from speed_stores import BareIndexes, build_store, disk_mb, stale_key

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError

CACHE = Path(tempfile.gettempdir()) / "recall-loop-benchmarks"
# By the first word of a figure.
GOALS = {"hybrid": "≤ 1.5", "filter": "≤ 2", str(BATCH): "≤ 4", "recall": "≥ 0.98"}
_WHERE_ROUNDS, _RECALL_ROUNDS, _WRITES = 15, 60, 30
# What a search proposes for ten results: the index is measured there too.
_DEPTH = 5 * K
PARTS = {"all": "**/*", "sidecar": "sidecar*", "Chroma": "chroma/**/*"}


def measure(arguments: argparse.Namespace, pool: TextPool, count: int) -> dict[str, Any]:
    """Build what isn't there yet, and return all figures for one size."""
    folder = arguments.cache / f"store-{count}-{arguments.tenants}-{stale_key()}"
    _note(count, "building the store")
    built = build_store(folder, pool, count, arguments.tenants)
    _note(count, "building bare Chroma and FTS5")
    bare = None if arguments.no_bare else BareIndexes(arguments.cache / f"bare-{count}-v{VERSION}", pool, count)
    figures: dict[str, Any] = {
        "records": count,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "load_at_start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "built": built,
        "disk_mb": {part: disk_mb(folder / "store", pattern) for part, pattern in PARTS.items()},
        "cold": cold(arguments, folder / "store"),
    }
    _note(count, "a fresh process is done; timing searches")
    rounds = arguments.rounds
    chosen = {name: cases(name, WARM + max(rounds, _RECALL_ROUNDS)) for name in FILTERS}
    with MemoryStore.open(folder / "store", embedder=PairEmbedder(pool)) as store:
        asker = QueryRunner(store, pool)
        figures["unfiltered"] = _figures(unfiltered(asker, bare, rounds))
        _note(count, "timing filters")
        figures["filtered"] = _figures(filtered(asker, chosen, rounds))
        if bare is not None:
            _note(count, "timing Chroma's own filters")
            figures["chroma_where"] = _figures(chroma_filtered(asker, bare, chosen, min(rounds, _WHERE_ROUNDS)))
            bare.close()
        _note(count, "comparing with exact search")
        exact = ExactIndex(store)
        figures["brute_force"] = _figures(beside_brute_force(asker, exact, rounds))
        depths = {f"at_{limit}": limit for limit in (K, _DEPTH)}
        figures["recall"] = {
            name: recalls(asker, exact, chosen, limit, min(rounds, _RECALL_ROUNDS)) for name, limit in depths.items()
        }
    if not arguments.no_writes:
        _note(count, "writing")
        figures["writes"] = _writes(folder / "store", pool)
    figures["ratios"] = {part: ratios(figures, part) for part in ("p50", "cpu_p50")}
    return figures


def _note(count: int, what: str) -> None:
    """Say on standard error what goes on: a large store takes minutes."""
    Console(stderr=True).print(f"{time.strftime('%H:%M:%S')} {count:,} records: {what}", style="dim")


def _figures(measured: Mapping[str, Timings]) -> dict[str, dict[str, float]]:
    return {name: times.figures() for name, times in measured.items()}


def _writes(store: Path, pool: TextPool) -> dict[str, Any]:
    """Write into a copy: what is kept stays as it was built."""
    with tempfile.TemporaryDirectory(dir=store.parent.parent) as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "store"))
        with MemoryStore.open(copy, embedder=PairEmbedder(pool)) as opened:
            for number in range(WARM):
                QueryRunner(opened, pool).ask(number)
            return writes(opened, pool, _WRITES)


def ratios(figures: Mapping[str, Any], part: str) -> dict[str, float]:
    """Return what the goals are about: medians of one loop, divided; `part` is p50 or cpu_p50."""
    plain, some, force = (
        {name: times[part] for name, times in figures[group].items()}
        for group in ("unfiltered", "filtered", "brute_force")
    )
    found = {
        f"hybrid / (Chroma + FTS5), {of}": plain["hybrid"] / (plain[f"Chroma, {of}"] + plain[f"FTS5, {of}"])
        for of in ("the store's own", "bare")
        if f"Chroma, {of}" in plain
    }
    found |= {f"filter {name} / without": some[name] / some["without a filter"] for name in FILTERS}
    found[f"{BATCH} queries at once / one"] = plain[f"hybrid, {BATCH} at once"] / plain["hybrid"]
    found["vector search / numpy over all"] = force["vector"] / force["numpy"]
    return found


def cold(arguments: argparse.Namespace, store: Path) -> dict[str, float]:
    """Open the store and search in a fresh process; files may be in the system's cache."""
    command = [sys.executable, __file__, "--cold", str(store), "--data", str(arguments.data)]
    done = subprocess.run(
        [*command, "--cache", str(arguments.cache)], check=True, capture_output=True, text=True, timeout=3600
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cold_figures(folder: Path, pool: TextPool) -> dict[str, float]:
    """Return what opening, the first and the second search cost here, in ms, and memory in MB."""
    before, started = _resident_mb(), time.perf_counter()
    with MemoryStore.open(folder, embedder=PairEmbedder(pool)) as store:
        moments = [started, time.perf_counter()]
        for number in range(2):
            QueryRunner(store, pool).ask(number)
            moments.append(time.perf_counter())
        for number in range(WARM):
            QueryRunner(store, pool).ask(number)
        after = _resident_mb()
    spent = [(end - start) * 1000 for start, end in pairwise(moments)]
    names = ("open_ms", "first_search_ms", "second_search_ms")
    return {**dict(zip(names, spent, strict=True)), "memory_before_mb": before, "memory_after_mb": after}


def _resident_mb() -> float:
    """Return the resident memory of this process in MB (10^6 bytes); 0 where the system doesn't tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if status.exists() else 0.0


def profile(arguments: argparse.Namespace, pool: TextPool, count: int) -> None:
    """Print where warm hybrid searches spend their time."""
    folder = arguments.cache / f"store-{count}-{arguments.tenants}-{stale_key()}"
    build_store(folder, pool, count, arguments.tenants)
    with MemoryStore.open(folder / "store", embedder=PairEmbedder(pool)) as store:
        asker = QueryRunner(store, pool)
        for number in range(WARM):
            asker.ask(number)
        profiler = cProfile.Profile(time.process_time)
        with profiler:
            for number in range(WARM, WARM + arguments.rounds):
                asker.ask(number)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(arguments.profile)


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures of one size as tables."""
    title = f"{figures['records']:,} records; {figures['machine']}; load {figures['load_at_start'] or 0:.1f}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("milliseconds", "p50", "p95", "CPU p50"):
        table.add_column(name, justify="left" if name == "milliseconds" else "right")
    groups = {
        "": figures["unfiltered"],
        "hybrid, filter ": figures["filtered"],
        "Chroma where ": figures.get("chroma_where", {}),
        "beside numpy: ": figures["brute_force"],
        "writing: ": figures.get("writes", {}).get("ms", {}),
    }
    for prefix, group in groups.items():
        for name, times in group.items():
            table.add_row(prefix + name, *(f"{times[part]:.2f}" for part in ("p50", "p95", "cpu_p50")))
        table.add_section()
    console.print(table)
    summary = Table(box=box.SIMPLE_HEAD)
    for name in ("figure", "value", "by CPU time", "goal"):
        summary.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    for name, value in figures["ratios"]["p50"].items():
        by_cpu = figures["ratios"]["cpu_p50"][name]
        summary.add_row(name, f"{value:.2f}", f"{by_cpu:.2f}", GOALS.get(name.split(maxsplit=1)[0], ""))
    for row in _others(figures):
        summary.add_row(*row)
    console.print(summary)


def _others(figures: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = []
    for at, by_filter in figures["recall"].items():
        goal = GOALS["recall"] if at == f"at_{K}" else ""
        rows += [
            (f"recall {at.replace('_', ' ')}, {name} ({got['kept']:.1%})", f"{got['recall']:.3f}", "", goal)
            for name, got in by_filter.items()
        ]
    if "writes" in figures:
        rows.append(("share found at once after its write", f"{figures['writes']['found at once']:.2f}", "", "1"))
    rows += [(name.replace("_", " "), f"{value:.0f}", "", "") for name, value in figures["cold"].items()]
    rows += [(f"disk mb, {part}", f"{value:.0f}", "", "") for part, value in figures["disk_mb"].items()]
    rows += [(name, f"{value:.0f}", "", "") for name, value in figures["built"].items()]
    return rows


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="What a search costs.")
    parser.add_argument(
        "--records", type=int, nargs="+", default=[10_000, 100_000], help="sizes (default: %(default)s)"
    )
    parser.add_argument(
        "--tenants", type=int, default=1, help="tenants; further ones have 1 %% each (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=100, help="questions of each kind (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=DATA, help="data sets to take texts from (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where stores are kept (default: %(default)s)")
    parser.add_argument("--no-bare", action="store_true", help="don't build and ask bare Chroma and FTS5")
    parser.add_argument("--no-writes", action="store_true", help="don't copy the store and write into it")
    parser.add_argument("--profile", type=int, metavar="LINES", help="print a profile of hybrid searches instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Read the arguments, measure, print."""
    arguments = parse()
    pool = load_pool(arguments.data, arguments.cache, WARM + 100)
    try:
        if arguments.cold is not None:
            print(json.dumps(cold_figures(arguments.cold, pool)))
            return
        if arguments.profile:
            for count in arguments.records:
                profile(arguments, pool, count)
            return
        found = []
        for count in arguments.records:
            found.append(measure(arguments, pool, count))
            if not arguments.json:
                show(found[-1], Console())
    except RecallError as error:
        raise SystemExit(str(error)) from error
    if arguments.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
