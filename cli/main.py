"""The `recall-loop` command: finds the verb, runs it, and turns errors into one line and an exit code.

Exit codes: 0 done; 1 done in part (rejected lines, failed requests); 2 wrong usage, a bad value, or a
store or file that can't be used; 130 interrupted. Only the verb that was asked for is imported, and
each verb imports what is heavy when it runs, so that help is immediate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

PROGRAM = "recall-loop"
VERBS = {
    "demo": "recall_loop.cli.demo_verb",
    "ingest": "recall_loop.cli.ingest_verb",
    "import": "recall_loop.cli.import_verb",
    "retrieve": "recall_loop.cli.retrieve.retrieve_verb",
    "search": "recall_loop.cli.search.search_verb",
    "batch": "recall_loop.cli.batch.batch_verb",
    "serve": "recall_loop.cli.serve_verb",
    "mcp": "recall_loop.cli.mcp_verb",
    "keys": "recall_loop.cli.keys_verb",
    "store": "recall_loop.cli.store.store_verb",
    "trajectories": "recall_loop.cli.trajectories.trajectories_verb",
    "eval": "recall_loop.cli.evals.eval_verb",
    "replay": "recall_loop.cli.evals.replay_verb",
    "ablate": "recall_loop.cli.evals.ablate_verb",
    "calibrate": "recall_loop.cli.evals.calibrate_verb",
}
PARTIAL, FAILED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

_EPILOG = """\
Start with:
  recall-loop demo
Then with memory of your own:
  recall-loop ingest records.jsonl --store ./memory
  recall-loop retrieve "When did we order the windows?" --store ./memory
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, and that takes no abbreviated options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._verbs: Any = None

    def add_subparsers(self, **options: Any) -> Any:
        """Add verbs, and remember them."""
        self._verbs = super().add_subparsers(**options)
        return self._verbs

    def leaf_parsers(self) -> list[Parser]:
        """Return the parsers below this one that have no further verbs."""
        if self._verbs is None:
            return [self]
        children = {id(child): child for child in self._verbs.choices.values()}
        return [leaf for child in children.values() for leaf in child.leaf_parsers()]

    def error(self, message: str) -> NoReturn:
        """Write the complaint and where to read on, and leave with 2."""
        self.exit(FAILED, f"{PROGRAM}: error: {one_line(message)} (see `{self.prog} --help`)\n")


class _Version(argparse.Action):
    """Prints the installed version; looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"{PROGRAM} {version('recall-loop')}\n")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _escape_unencodable()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse: help, version, usage errors
        return leaving.code if isinstance(leaving.code, int) else 0
    except KeyboardInterrupt:
        sys.stderr.write(f"{PROGRAM}: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        return _handle_broken_pipe()
    except OSError as error:
        return _print_error(_os_error_text(error))
    except Exception as error:
        if not _is_recall_error(error):
            raise
        return _print_error(str(error))


def build_parser(verbs: Sequence[str]) -> Parser:
    """Return the parser with the given verbs' options."""
    parser = Parser(
        prog=PROGRAM,
        description="A memory for agents: search until there is enough new evidence, and say why it stopped.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in verbs:
        _module(verb).add_parser(subparsers)
    for leaf in parser.leaf_parsers():
        _add_log_options(leaf)
    return parser


def one_line(text: str) -> str:
    """Return `text` on one line, with control characters shown as escapes."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(text.split()))


def _dispatch(argv: list[str]) -> int:
    first = argv[0] if argv else ""
    args = build_parser([first] if first in VERBS else list(VERBS)).parse_args(argv)
    stop_logging = _start_logging(args)
    try:
        return int(_module(args.verb).run(args))
    finally:
        stop_logging()


def _add_log_options(parser: Parser) -> None:
    log = parser.add_argument_group("log", "What is written to standard error besides errors.")
    log.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="least level; info has a line for each finished run (default: $RECALL_LOOP_LOG_LEVEL, else warning)",
    )
    log.add_argument(
        "--log-format",
        choices=("console", "json"),
        help="lines to read, or one JSON object a line (default: $RECALL_LOOP_LOG_FORMAT, else console)",
    )


def _start_logging(args: argparse.Namespace) -> Callable[[], None]:
    """Start the log as the options or the environment say, and return what ends it.

    Raises:
        InvalidInputError: a variable's value is not allowed.
    """
    from recall_loop.state.settings.settings import Settings
    from recall_loop.telemetry.logs import start_logging

    settings = Settings.from_env()
    return start_logging(
        args.log_format or settings.log_format, args.log_level or settings.log_level, content=settings.trace_content
    )


def _module(verb: str) -> ModuleType:
    return import_module(VERBS[verb])


def _escape_unencodable() -> None:
    """Show what the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _is_recall_error(error: Exception) -> bool:
    from recall_loop.state.errors import RecallError

    return isinstance(error, RecallError)


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


def _print_error(message: str) -> int:
    sys.stderr.write(f"{PROGRAM}: error: {one_line(message)}\n")
    return FAILED


def _handle_broken_pipe() -> int:
    """Leave quietly when the reader of a pipe has left, as `head` does."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file behind it: then nothing is left to flush either
        return BROKEN_PIPE
    return BROKEN_PIPE
