"""`recall-loop batch`: a file of requests to a store (OPS-2)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recall_loop.cli.common import add_model_options, add_store_option, bounded_int, open_store, read_settings

_DESCRIPTION = """\
Run every request of a JSON Lines file and write one line per request: its result, or its error. A bad
request does not end the run; the exit code is then 1. Lines are written as requests complete.
"""
_EXAMPLE = """\
example:
  echo '{"id": "q1", "messages": [{"role": "user", "content": "Who sells us bread?"}]}' > requests.jsonl
  recall-loop batch requests.jsonl -o results.jsonl --store ./memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("batch", help="run a file of requests", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("requests", type=Path, metavar="REQUESTS", help="JSON Lines, each with an id")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="a new file for the result lines"
    )
    add_store_option(parser)
    add_model_options(parser)
    parser.add_argument(
        "--concurrency",
        type=bounded_int(1, 64),
        default=4,
        metavar="N",
        help="requests at a time, 1 to 64 (default: %(default)s)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the output of a run that was cut short (default: off; the output must be new)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the batch; 1 where a request failed, else 0.

    Raises:
        InvalidInputError: an option is not allowed, or the output exists.
        StoreError: the store can't be opened.
        OSError: a file can't be read or written.
    """
    from recall_loop.cli.bars import progress_bar
    from recall_loop.cli.render import Screen
    from recall_loop.cli.words import count
    from recall_loop.graph.batch import count_requests, run_batch

    settings = read_settings(args)
    total = count_requests(args.requests)
    with (
        open_store(args.store, settings, create=False, read_only=not settings.capture_runs) as store,
        progress_bar("batch", total, "requests") as advance,
    ):
        summary = run_batch(
            args.requests,
            args.output,
            store=store,
            settings=settings,
            concurrency=args.concurrency,
            resume=args.resume,
            progress=lambda so_far: advance(so_far.total, so_far.total - so_far.skipped),
        )
    skipped = f", {summary.skipped:,} done by an earlier run" if summary.skipped else ""
    words = f"{summary.succeeded:,} answered, {summary.failed:,} failed{skipped}"
    Screen().line(f"{args.output}: {count(summary.total, 'request')}: {words}")
    return 1 if summary.failed else 0
