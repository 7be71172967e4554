"""`recall-loop retrieve`: one question to a store (OPS-1 on the command line)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import (
    add_model_options,
    add_store_option,
    add_tenant_option,
    open_store,
    read_settings,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.events import ProgressEvent
    from recall_loop.state.request import RetrieveRequest
    from recall_loop.state.result import RetrieveResult

_DESCRIPTION = """\
Search a store until enough new evidence is found, and print ranked facts with where they come from, how
sure the result is, and why the search stopped. The store is opened for reading only.
"""
_EXAMPLE = """\
examples:
  recall-loop retrieve "Who supplies the windows, and what do they cost?" --store ./memory
  recall-loop retrieve "What failed last time?" --types trajectory --store ./memory --stream
  recall-loop retrieve "Who owns the granary?" --store ./memory --model gpt-5-mini --answer
  recall-loop retrieve "When was that?" --messages window.jsonl --store ./memory --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    from recall_loop.cli.retrieve.request_options import add_request_options

    parser = subparsers.add_parser("retrieve", help="ask a store a question", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="what you want to know")
    add_store_option(parser)
    add_tenant_option(parser)
    add_request_options(parser)
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--debug", action="store_true", help="add score components and the trace")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="show each iteration and what scores are made of; with --json one event a line, result last",
    )


def run(args: argparse.Namespace) -> int:
    """Answer the question; 1 where the search itself failed, else 0.

    Raises:
        InvalidInputError: an option is not allowed.
        StoreError: the store can't be opened or read.
        OSError: a file can't be read.
    """
    from recall_loop.cli.retrieve.request_arguments import build_request
    from recall_loop.graph.run import stream_retrieve
    from recall_loop.state.types import StopReason

    settings = read_settings(args)
    request = build_request(args, settings.tenant if args.tenant is None else args.tenant)
    with open_store(args.store, settings, create=False, read_only=not settings.capture_runs) as store:
        steps = stream_retrieve(request, store=store, settings=settings)
        show = _show_json if args.json else _show
        result = show(steps, args, request)
    return 1 if result.stop.reason is StopReason.TOOL_FAILURE else 0


def _show(
    steps: Iterator[ProgressEvent | RetrieveResult], args: argparse.Namespace, request: RetrieveRequest
) -> RetrieveResult:
    from recall_loop.cli.core.rendering import Screen
    from recall_loop.text.words.keys import query_terms

    screen = Screen()
    result = _last(steps, screen.event if args.stream else None)
    asked = args.question or request.messages[-1].content
    screen.result(result, debug=args.debug or args.stream, terms=query_terms(asked))
    return result


def _show_json(
    steps: Iterator[ProgressEvent | RetrieveResult], args: argparse.Namespace, _: RetrieveRequest
) -> RetrieveResult:
    from recall_loop.cli.core.rendering import sanitize_json

    def write_event(event: Any) -> None:
        sys.stdout.write(sanitize_json(json.dumps(event, ensure_ascii=False)) + "\n")
        sys.stdout.flush()

    result = _last(steps, write_event if args.stream else None)
    sys.stdout.write(sanitize_json(result.model_dump_json(indent=None if args.stream else 2)) + "\n")
    return result


def _last(steps: Iterator[ProgressEvent | RetrieveResult], on_event: Any) -> RetrieveResult:
    """Hand on each event, and return the result, which comes last."""
    from recall_loop.state.result import RetrieveResult

    result: RetrieveResult | None = None
    for step in steps:
        if isinstance(step, RetrieveResult):
            result = step
        elif on_event:
            on_event(step)
    if result is None:
        raise RuntimeError("the run ended without a result")
    return result
