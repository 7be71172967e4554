"""The options of a search of past runs, apart from what reads them, so that help is immediate."""

from __future__ import annotations

import argparse

from recall_loop.cli.core.shared_options import add_json_option, add_scope_options, bounded_int


def add_trajectory_search_options(parser: argparse.ArgumentParser) -> None:
    """Add every option of the search but the store and the tenant."""
    add_scope_options(parser.add_argument_group("where to look"), "runs")
    _add_contrasts(parser.add_argument_group("learning value and contrasts"))
    _add_filters(parser.add_argument_group("what runs must satisfy (all that is given)"))
    parser.add_argument(
        "--limit",
        type=bounded_int(1, 1000),
        default=5,
        metavar="N",
        help="most runs, with contrasts of each tier, 1 to 1000 (default: %(default)s)",
    )
    add_json_option(parser)


def _add_contrasts(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--contrasts", action="store_true", help="search high, moderate and low learning values apart (default: off)")
    add("--min-score", type=float, metavar="X", help="learning value at least this, 0 to 1 (default: any)")
    add("--max-score", type=float, metavar="X", help="learning value at most this, 0 to 1 (default: any)")
    add(
        "--success-threshold",
        type=float,
        default=0.7,
        metavar="X",
        help="learning value from which a run is in the upper tier (default: %(default)s)",
    )
    add(
        "--failure-threshold",
        type=float,
        default=0.3,
        metavar="X",
        help="learning value up to which a run is in the lower tier (default: %(default)s)",
    )


def _add_filters(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--execution-status", metavar="S", help="completed, incomplete, failed, error or unknown")
    add("--tag", dest="tags", action="append", metavar="T", help="has this tag; repeated: all of them")
    add("--tool", dest="tools_used", action="append", metavar="NAME", help="used this tool; repeated: all of them")
    add("--category", dest="task_category", metavar="C", help="exactly this task category")
    add("--complexity", dest="complexity_level", metavar="L", help="trivial, simple, moderate, complex or expert")
    add("--start-time", metavar="T", help="created at or after, as 2024-05-01T09:30:00Z")
    add("--end-time", metavar="T", help="created before")
    add("--agent-id", dest="agent_ids", action="append", metavar="A", help="any of these agents; may be repeated")
    add("--min-similarity", metavar="X", type=float, help="similarity at least this, 0 to 1 (default: 0.3)")
