"""The `recall-loop` command: finds the verb, runs it, and turns errors into one line and an exit code.

A verb is a module with `add_parser(subparsers)` and `run(args, settings)`, which returns the exit code. `run` raises
InvalidInputError for an option or an input that is not allowed, another RecallError for a store, an embedder, a source
or a process that can't be used, and OSError for a file that can't be read or written.

Exit codes: 0 done; 1 done in part (rejected lines, failed requests); 2 wrong usage, a bad value, or a
store or file that can't be used; 130 interrupted. Only the given verb is imported, and
each verb imports heavy modules only when it runs, so that help is immediate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from recall_loop.cli.core.interruptions import Interruptions, comes_of_interruption
from recall_loop.cli.core.shared_options import add_log_options

PROGRAM = "recall-loop"
VERBS = {
    "demo": "recall_loop.cli.demo_verb",
    "add": "recall_loop.cli.store.add_verb",
    "ingest": "recall_loop.cli.ingest_verb",
    "import": "recall_loop.cli.import_verb",
    "chat": "recall_loop.cli.talk.chat_verb",
    "retrieve": "recall_loop.cli.retrieve_verb",
    "search": "recall_loop.cli.search.search_verb",
    "batch": "recall_loop.cli.batch_verb",
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
FAILED, BROKEN_PIPE = 2, 141
# These commands shut down their event loops themselves.
_WITH_LOOPS = (["serve"], ["mcp"])

_EPILOG = """\
Start with:
  recall-loop demo
Then with a memory of your own:
  recall-loop add "We ordered the windows in May." --store ./my-memory
  recall-loop ingest records.jsonl --store ./my-memory
  recall-loop retrieve "When did we order the windows?" --store ./my-memory
"""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error on one line, and takes no abbreviated options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._verbs: Any = None

    def add_subparsers(self, **options: Any) -> Any:
        """Add verbs, and keep them for `leaf_parsers`."""
        self._verbs = super().add_subparsers(**options)
        return self._verbs

    def leaf_parsers(self) -> list[Parser]:
        """Return the parsers below this one that have no further verbs."""
        if self._verbs is None:
            return [self]
        children = {id(child): child for child in self._verbs.choices.values()}
        return [leaf for child in children.values() for leaf in child.leaf_parsers()]

    def options(self) -> list[argparse.Action]:
        """Return what this parser takes."""
        return list(self._actions)

    def parse_known_args(self, *given: Any, **options: Any) -> Any:
        """Parse arguments; an unknown one is an error of its command, whose help lists the known ones."""
        namespace, unknown = super().parse_known_args(*given, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = self._meant(str(value)) if action is self._verbs else []
            if not meant:
                raise
            raise argparse.ArgumentError(action, f"{error.message}; did you mean `{'` or `'.join(meant)}`?") from error

    def _meant(self, name: str) -> list[str]:
        """Return the commands that an unknown name may mean: `list` is an action of `store`."""
        from recall_loop.state.schemas.schema_words import nearest_name

        actions = [leaf.prog for leaf in self.leaf_parsers() if leaf.prog.endswith(f" {name}")]
        near = nearest_name(name, self._verbs.choices)
        return actions or ([f"{self.prog} {near}"] if near else [])

    def error(self, message: str) -> NoReturn:
        """Write the error and where to read on, and exit with 2."""
        self.exit(FAILED, f"{PROGRAM}: error: {one_line(message)} (see `{self.prog} --help`)\n")


class _Version(argparse.Action):
    """Prints the installed version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"{PROGRAM} {version('recall-loop')}\n")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if sys.stdout is None:
        return _print_error("standard output is closed")
    _escape_unencodable()
    given = list(sys.argv[1:] if argv is None else argv)
    with Interruptions(taken=given[:1] not in _WITH_LOOPS) as pressed:
        try:
            code = _dispatch(given)
            sys.stdout.flush()
            return code
        except SystemExit as leaving:  # argparse: help, version, usage errors
            return leaving.code if isinstance(leaving.code, int) else 0
        except KeyboardInterrupt:
            return pressed.tell()
        except Exception as error:
            failed = pressed.tell() if comes_of_interruption(error) else _code_of(error)
            if failed is None:
                raise
            return failed


def _code_of(error: Exception) -> int | None:
    """Print an error that is meant for the user, and return its exit code; None for any other error."""
    if isinstance(error, BrokenPipeError):
        return _handle_broken_pipe()
    if isinstance(error, OSError):
        return _print_error(_os_error_text(error))
    from recall_loop.state.errors import RecallError

    return _print_error(str(error)) if isinstance(error, RecallError) else None


def build_parser(verbs: Sequence[str]) -> Parser:
    """Return the parser with the given verbs' options."""
    parser = Parser(
        prog=PROGRAM,
        description="A memory for agents: search until there is enough new evidence, and say why it stopped.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in verbs:
        import_module(VERBS[verb]).add_parser(subparsers)
    for leaf in parser.leaf_parsers():
        add_log_options(leaf)
        leaf.set_defaults(parser=leaf)
    return parser


def one_line(text: str) -> str:
    """Return `text` on one line, with control characters shown as escapes."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(text.split()))


def _dispatch(argv: list[str]) -> int:
    first = argv[0] if argv else ""
    args = build_parser([first] if first in VERBS else list(VERBS)).parse_args(argv)
    from recall_loop.cli.core.common import named_by_option
    from recall_loop.state.errors import InvalidInputError

    try:
        return _run(args)
    except InvalidInputError as error:
        raise (named_by_option(error, args, argv) or error) from None


def _run(args: argparse.Namespace) -> int:
    from recall_loop.cli.core.common import read_settings, warn_of_unknown_variables
    from recall_loop.telemetry.logs import start_logging

    settings = read_settings(args)
    stop_logging = start_logging(settings.log_format, settings.log_level, content=settings.trace_content)
    try:
        warn_of_unknown_variables()
        return int(import_module(VERBS[args.verb]).run(args, settings))
    finally:
        stop_logging()


def _escape_unencodable() -> None:
    """Write characters that the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


def _print_error(message: str) -> int:
    sys.stderr.write(f"{PROGRAM}: error: {one_line(message)}\n")
    return FAILED


def _handle_broken_pipe() -> int:
    """Leave quietly when the reader of a pipe has left, as `head` does."""
    with suppress(OSError, ValueError):  # not a real file: there is nothing left to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
