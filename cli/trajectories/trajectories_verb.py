"""`recall-loop trajectories`: convert, add, score, search, show and migrate past runs (TRAJ-1 to TRAJ-8)."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.condition_options import add_filter_option
from recall_loop.cli.core.shared_options import (
    Group,
    add_action,
    add_json_option,
    add_scope_options,
    bounded_int,
    not_blank,
)

if TYPE_CHECKING:  # loaded when an action runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Past runs of agents. Execution says how a run ended: completed, incomplete, failed, error or unknown. Learning
value says how much can be learned from it, from 0 to 1. Neither affects the other: a run that ended in an
error may teach a lot.
"""
_EXAMPLE = """\
examples:
  recall-loop trajectories add runs.jsonl --store ./my-memory
  recall-loop trajectories search "refund of a cancelled order" --contrasts --store ./my-memory
  recall-loop trajectories show run-17 --store ./my-memory
  recall-loop trajectories migrate --store ./my-memory --dry-run
"""
_READING_ACTIONS = ("search", "show", "stats")
_RUNS_HELP = "JSON Lines, one run per line: `messages`, and optionally `id`, `task`, `stop_reason`, `error` …"


def add_parser(subparsers: Any) -> None:
    """Add the verb, its actions and their options."""
    parser = subparsers.add_parser(
        "trajectories",
        help="past runs: convert, add, score, search, show, migrate, stats",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_intake(actions)
    _add_score(actions)
    _add_search(actions)
    _add_show(actions)
    migrate = add_action(
        actions, "migrate", "rewrite old records (`outcome.type`) in the new format", "--dry-run", writes=True
    )
    migrate.add_argument("--dry-run", action="store_true", help="count only, change nothing (default: off)")
    add_json_option(migrate)


def _add_intake(actions: Any) -> None:
    convert = add_action(
        actions, "convert", "convert runs into records", "runs.jsonl -o records.jsonl", stored=False, tenant=False
    )
    convert.add_argument("files", nargs="+", type=Path, metavar="FILE", help=_RUNS_HELP)
    convert.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file (default: stdout)")
    _add_masking(convert)
    add = add_action(
        actions, "add", "add runs to a store", "runs.jsonl --store ./my-memory --agent support", writes=True
    )
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help=_RUNS_HELP)
    add.add_argument("--agent", metavar="A", help="agent that the runs belong to (default: from each line)")
    add.add_argument("--tag", action="append", default=[], metavar="T", help="tag for every run; may be repeated")
    add.add_argument(
        "--score",
        choices=("auto", "rules", "llm", "later"),
        default="auto",
        help="auto: by the language model of the settings, else by rules; later: queue (default: %(default)s)",
    )
    _add_masking(add)


def _add_masking(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("secrets, masked before anything is stored").add_argument
    add("--mask", action="append", default=[], metavar="REGEX", help="also mask matching text; may be repeated")
    add(
        "--mask-key",
        action="append",
        default=[],
        metavar="REGEX",
        help="mask values whose name (in snake_case) this matches; may be repeated",
    )
    add(
        "--default-masks",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="mask passwords, tokens, keys and the like (default: on)",
    )


def _add_score(actions: Any) -> None:
    words = "score runs that have no learning value, or named ones again"
    score = add_action(actions, "score", words, "--pending --store ./my-memory", writes=True)
    score.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="runs to score, also where they are scored already (default: those without)",
    )
    score.add_argument(
        "--pending",
        action="store_true",
        help="only runs whose scoring failed or was postponed (default: all without a score)",
    )
    score.add_argument(
        "--by",
        choices=("auto", "rules", "llm"),
        default="auto",
        help="auto: by the language model of the settings, else by rules (default: %(default)s)",
    )
    score.add_argument("--limit", type=bounded_int(1, 1_000_000), metavar="N", help="at most N runs (default: all)")


def _add_search(actions: Any) -> None:
    search = add_action(actions, "search", "search past runs by their task", '"late refund" --store ./my-memory')
    search.add_argument("query", type=not_blank, metavar="QUERY", help="task of the runs")
    add_scope_options(search.add_argument_group("where to look"), "runs")
    _add_contrasts(search.add_argument_group("learning value and contrasts"))
    _add_filters(search.add_argument_group("conditions that must all hold"))
    search.add_argument("--limit", metavar="N", help="maximum runs, with contrasts per tier, 1 to 1000 (default: 5)")
    add_json_option(search)


def _add_contrasts(group: Group) -> None:
    add = group.add_argument
    add(
        "--contrasts",
        dest="include_contrasts",
        action="store_true",
        default=None,
        help="search high, moderate and low learning values separately (default: off)",
    )
    add("--min-score", metavar="X", help="learning value at least this, 0 to 1 (default: any)")
    add("--max-score", metavar="X", help="learning value at most this, 0 to 1 (default: any)")
    add("--success-threshold", metavar="X", help="learning value from which a run is in the upper tier (default: 0.7)")
    add("--failure-threshold", metavar="X", help="learning value up to which a run is in the lower tier (default: 0.3)")


def _add_filters(group: Group) -> None:
    add = group.add_argument
    add("--execution-status", metavar="S", help="completed, incomplete, failed, error or unknown")
    add("--tag", dest="tags", action="append", metavar="T", help="has this tag; repeated: all of them")
    add("--tool", dest="tools_used", action="append", metavar="NAME", help="used this tool; repeated: all of them")
    add("--category", dest="task_category", metavar="C", help="exactly this task category")
    add("--complexity", dest="complexity_level", metavar="L", help="trivial, simple, moderate, complex or expert")
    add("--start-time", metavar="T", help="created at or after, as 2024-05-01T09:30:00Z")
    add("--end-time", metavar="T", help="created before")
    add("--agent-id", dest="agent_ids", action="append", metavar="A", help="any of these agents; may be repeated")
    add("--min-similarity", metavar="X", help="similarity at least this, 0 to 1 (default: 0.3)")
    add_filter_option(group)


def _add_show(actions: Any) -> None:
    show = add_action(actions, "show", "print a run in readable form", "run-17 --store ./my-memory")
    show.add_argument("id", metavar="ID", help="id of the run")
    show.add_argument("--full", action="store_true", help="show every text in full (default: shortened)")
    add_json_option(show)
    stats = add_action(actions, "stats", "count runs by execution and learning value", "--store ./my-memory")
    add_json_option(stats)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what the action says; 0, or 1 where it was done in part."""
    module = "trajectories_show" if args.action in _READING_ACTIONS else "trajectories_intake"
    action = getattr(import_module(f"recall_loop.cli.trajectories.{module}"), args.action)
    return int(action(args, settings))
