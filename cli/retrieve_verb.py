"""`recall-loop retrieve`: one question to a store (OPS-1)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.condition_options import add_condition_options
from recall_loop.cli.core.shared_options import (
    add_language_option,
    add_model_options,
    add_scope_options,
    add_store_option,
    add_tenant_option,
    add_types_option,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.request import RetrieveRequest
    from recall_loop.state.result import RetrieveResult
    from recall_loop.state.run.events import ProgressEvent
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Search a store until enough new evidence is found, and print ranked facts with their sources, the confidence
in the result, and why the search stopped. The store is opened for reading only.
"""
_EXAMPLE = """\
examples:
  recall-loop retrieve "Who supplies the windows, and what do they cost?" --store ./my-memory
  recall-loop retrieve "What failed last time?" --types trajectory --store ./my-memory --stream
  recall-loop retrieve "Who owns the granary?" --store ./my-memory --model gpt-5-mini --answer
  recall-loop retrieve "What did we decide?" --start-time 2024-05-01 --role user --store ./my-memory
  recall-loop retrieve "When was that?" --messages window.jsonl --store ./my-memory --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("retrieve", help="ask a store a question", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument(
        "question", nargs="?", metavar="QUESTION", help="what you want to know; - reads it from standard input"
    )
    add_store_option(parser)
    add_tenant_option(parser)
    _add_request_options(parser)
    add_condition_options(parser)
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--debug", action="store_true", default=None, help="add score components and the trace")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="show each iteration and the components of scores; with --json print one event per line, the result last",
    )


def _add_request_options(parser: argparse.ArgumentParser) -> None:
    add_scope_options(parser)
    add_types_option(parser, "fact,archival,message; trajectory with a trajectory filter")
    add = parser.add_argument
    add("--max-facts", metavar="N", help="maximum facts, 1 to 1000 (default: 30)")
    add("--fuzzy", metavar="N", help="typo tolerance of the searches: 0 none, 1 some, 2 high (default: 0)")
    add_language_option(parser, "the question")
    add("--max-iterations", metavar="N", help="maximum iterations, 1 to 100 (default: 10)")
    add("--reference-time", metavar="T", help="current time (default: that of the newest message, else now)")
    add("--goal", metavar="G", help="what the answer is for, in addition to the question")
    add(
        "--messages",
        type=Path,
        metavar="FILE",
        help="conversation before the question: a JSON list or JSON Lines of {role, author, content, timestamp}",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Answer the question; 1 where the search itself failed, else 0."""
    from recall_loop.cli.core.common import open_store
    from recall_loop.graph.run import stream_retrieve
    from recall_loop.state.types import StopReason

    request = _build_request(args, settings)
    with open_store(settings, read_only=not settings.capture_runs) as store:
        steps = stream_retrieve(request, store=store, settings=settings)
        result = _print_json(steps, stream=args.stream) if args.json else _print_run(steps, args, request)
    return 1 if result.stop.reason is StopReason.TOOL_FAILURE else 0


def _build_request(args: argparse.Namespace, settings: Settings) -> RetrieveRequest:
    """Return the request that the options describe."""
    from recall_loop.cli.core.common import argument_text, model_from, scope_from
    from recall_loop.state.errors import NOTHING, InvalidInputError
    from recall_loop.state.request import RetrieveRequest

    messages: list[Any] = _read_messages(args.messages) if args.messages else []
    if args.question is not None:
        args.question = argument_text(args.question)
        messages.append({"role": "user", "content": args.question})
    if not messages or not (args.question or "?").strip():
        asked = NOTHING if args.question is None else args.question
        raise InvalidInputError("QUESTION", asked, "a question, or --messages FILE that ends with one")
    fields: dict[str, Any] = {"messages": messages, "tenant": settings.tenant}
    if args.stream and not args.json:
        fields["debug"] = True
    request = model_from(args, RetrieveRequest, **fields)
    scope_from(args, settings)  # incompatible options are rejected before a store is opened
    return request


def _read_messages(path: Path) -> list[Any]:
    """Return the messages of a file: a JSON list, an object with `messages`, or one object a line."""
    from recall_loop.state.errors import InvalidInputError

    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("--messages", str(path), "a file in UTF-8") from error
    try:
        whole = json.loads(text)
    except ValueError:
        return [_message(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(whole, dict):
        whole = whole.get("messages", [whole])
    if not isinstance(whole, list):
        raise InvalidInputError("--messages", str(path), "a list of messages")
    return whole


def _message(path: Path, number: int, line: str) -> Any:
    from recall_loop.state.errors import InvalidInputError

    try:
        return json.loads(line)
    except ValueError as error:
        raise InvalidInputError("--messages", f"{path}, line {number}", f"JSON ({error})") from error


def _print_run(
    steps: Iterator[ProgressEvent | RetrieveResult], args: argparse.Namespace, request: RetrieveRequest
) -> RetrieveResult:
    from recall_loop.cli.core.run_rendering import RunScreen
    from recall_loop.graph.run import follow
    from recall_loop.text.words.tokens import query_terms

    screen = RunScreen()
    result = follow(steps, screen.event if args.stream else None)
    question = args.question or request.messages[-1].content
    screen.result(result, debug=bool(args.debug or args.stream), terms=query_terms(question))
    return result


def _print_json(steps: Iterator[ProgressEvent | RetrieveResult], *, stream: bool) -> RetrieveResult:
    from recall_loop.cli.core.screen import print_json, print_json_text
    from recall_loop.graph.run import follow

    result = follow(steps, print_json if stream else None)
    print_json_text(result.model_dump_json(indent=None if stream else 2))
    return result
