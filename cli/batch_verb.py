"""`recall-loop batch`: a file of requests to a store, and a summary of how they ended (OPS-2, OPS-3)."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import add_model_options, add_store_option, bounded_int, bounded_seconds

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.graph.batch.batch_output import BatchSummary
    from recall_loop.graph.batch.ray_engine import RayCluster
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

_MAX_CONCURRENCY = 64
# A process takes about two seconds to start; with fewer requests than this for each it isn't worth it.
_MIN_REQUESTS_PER_WORKER = 25
_MAX_DEFAULT_WORKERS = 8

_DESCRIPTION = """\
Run every request of a JSON Lines file and write one line per request: its result, or its error. A bad
request does not end the run. Then a summary is printed.
"""
_EXAMPLE = """\
exit codes:
  0 every request was answered; 1 some have an error line, or could not be searched; 2 the run could not
  start or continue; 130 interrupted. After 2 and 130 the same command with --resume continues the run.
example:
  echo '{"id": "q1", "messages": [{"role": "user", "content": "Who sells us bread?"}]}' > requests.jsonl
  recall-loop batch requests.jsonl -o results.jsonl --store ./my-memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("batch", help="run a file of requests", description=_DESCRIPTION, epilog=_EXAMPLE)
    add = parser.add_argument
    add("requests", type=_file, metavar="REQUESTS", help="JSON Lines, each with an id")
    add("-o", "--output", type=_file, required=True, metavar="FILE", help="a new file for the result lines")
    add_store_option(parser)
    add_model_options(parser)
    add(
        "--concurrency",
        type=bounded_int(1, _MAX_CONCURRENCY),
        default=4,
        metavar="N",
        help="requests at a time, 1 to 64; with --engine ray for each actor (default: %(default)s)",
    )
    add(
        "--workers",
        type=bounded_int(1, _MAX_CONCURRENCY),
        metavar="N",
        help="processes that share the requests, 1 to the concurrency, each about 300 MB (default: one per processor, "
        f"at most {_MAX_DEFAULT_WORKERS}, if each gets {_MIN_REQUESTS_PER_WORKER} requests)",
    )
    add(
        "--order",
        choices=("completed", "input"),
        default="completed",
        help="order of the lines: as requests finish, or as in the file (default: %(default)s)",
    )
    add(
        "--timeout",
        type=bounded_seconds(86_400),
        metavar="SECONDS",
        help="a request that takes longer gets an error line, up to 86,400 (default: no limit)",
    )
    add("--resume", action="store_true", help="continue an interrupted run (default: off; the output must be new)")
    _add_engine(parser)
    add("--quiet", action="store_true", help="no progress on stderr")
    add("--json", action="store_true", help="print the summary as JSON")


def _file(text: str) -> Path:
    """Return the path of a file: what `--resume` goes on with can't be a pipe, and nobody wants a file named `-`."""
    if text == "-":
        raise argparse.ArgumentTypeError("got '-'; allowed: a file, which --resume can read again, not a pipe")
    return Path(text)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where the requests run: on this machine, or in actors of a Ray cluster, for a store on a Chroma server "
        "(default: %(default)s)",
    )
    add("--address", metavar="HOST:PORT", help="head of the Ray cluster, or auto (default: start one on this machine)")
    add(
        "--actors",
        type=bounded_int(1, 1024),
        metavar="N",
        help="actors of the Ray cluster, 1 to 1024, each a processor and about 300 MB (default: 2)",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the batch; 1 where a request failed or could not be searched, in a run that is resumed too, else 0."""
    from recall_loop.cli.core.common import open_store
    from recall_loop.cli.core.progress_bars import progress_bar
    from recall_loop.cli.core.screen import print_json
    from recall_loop.graph.batch.batch_requests import count_requests
    from recall_loop.graph.batch.batch_run import run_batch

    ray = _ray(args)
    total = count_requests(args.requests)  # a missing file is reported before the store is opened
    began = time.monotonic()
    with open_store(settings, read_only=not settings.capture_runs) as store:
        workers = 1 if ray else args.workers or _default_workers(args, total, store, settings)
        with progress_bar("batch", total, "requests", quiet=args.quiet, lines=True) as advance:
            summary = run_batch(
                args.requests,
                args.output,
                store=store,
                settings=settings,
                concurrency=args.concurrency,
                workers=workers,
                ray=ray,
                order=args.order,
                timeout=args.timeout,
                resume=args.resume,
                progress=lambda summary: advance(summary.total, summary.total - summary.skipped),
            )
    seconds = time.monotonic() - began
    if args.json:
        print_json({"output": str(args.output), "seconds": round(seconds, 3), **summary.as_json()})
    else:
        _print_summary(args.output, summary, seconds)
    return 0 if summary.complete else 1


def _ray(args: argparse.Namespace) -> RayCluster | None:
    from recall_loop.state.errors import InvalidInputError

    if args.engine == "ray":
        from recall_loop.graph.batch.ray_engine import RayCluster

        if args.workers is not None:
            raise InvalidInputError("--workers", args.workers, "only without --engine ray, which takes --actors")
        return RayCluster(args.address, *(() if args.actors is None else (args.actors,)))
    for option in ("address", "actors"):
        if getattr(args, option) is not None:
            raise InvalidInputError(f"--{option}", getattr(args, option), "only with --engine ray")
    return None


def _default_workers(args: argparse.Namespace, total: int, store: MemoryStore, settings: Settings) -> int:
    """Return how many processes are worth starting for the remaining requests."""
    from recall_loop.graph.batch.batch_engines import multiprocess_blocker
    from recall_loop.graph.batch.batch_requests import RunOptions, count_requests
    from recall_loop.memory.store.embed.embedder_factory import available_processors

    left = total - (count_requests(args.output) if args.resume and args.output.is_file() else 0)
    wanted = min(available_processors(), args.concurrency, left // _MIN_REQUESTS_PER_WORKER, _MAX_DEFAULT_WORKERS)
    return 1 if wanted <= 1 or multiprocess_blocker(store, RunOptions(settings)) else wanted


def _print_summary(output: Path, summary: BatchSummary, seconds: float) -> None:
    """Write where the result lines are and how the requests ended."""
    from rich.text import Text

    from recall_loop.cli.core.screen import Screen, sanitize
    from recall_loop.state.display import format_count

    screen = Screen()
    skipped = f", {summary.skipped:,} done by an earlier run" if summary.skipped else ""
    outcome = f"{summary.succeeded:,} answered, {summary.failed:,} failed{skipped}"
    screen.line(f"{output}: {format_count(summary.total, 'request')}: {outcome}", "bold")
    for name, value in _summary_rows(summary, seconds):
        screen.row(Text(f"{name:<14}  ", "dim"), Text(sanitize(value)), indent=2)


def _summary_rows(summary: BatchSummary, seconds: float) -> Iterator[tuple[str, str]]:
    from recall_loop.state.display import format_count

    done = summary.total - summary.skipped
    rate = f", {done / seconds:,.1f} requests/s" if done and seconds > 0 else ""
    yield "time", f"{seconds:,.1f} s{rate}"
    if summary.succeeded:
        yield "stop reasons", _counts(summary.stop_reasons)
        yield "latency", ", ".join(f"{name} {value:,.2f} s" for name, value in summary.latency().items())
        yield "iterations", f"{summary.iterations:,}, {summary.iterations / summary.succeeded:.1f} a request"
    if summary.llm_calls:
        calls, tokens = format_count(summary.llm_calls, "call"), format_count(summary.llm_tokens, "token")
        yield "language model", f"{calls}, {tokens}"
    if summary.degraded:
        yield "degraded", f"{format_count(summary.degraded, 'result')}; `warnings` say why"
    if summary.errors:
        yield "errors", _counts(summary.errors)
    if summary.skipped_errors:
        yield "earlier errors", _counts(summary.skipped_errors)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common())
