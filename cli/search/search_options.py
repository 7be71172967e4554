"""The options of a search, apart from what reads them, so that help is immediate."""

from __future__ import annotations

import argparse

from recall_loop.cli.core.shared_options import add_scope_options, bounded_int

DEFAULT_LIMIT = 10
_MAX_LIMIT = 1000


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add every option of a search but the store and the tenant."""
    _add_scope_and_types(parser.add_argument_group("where to look"))
    _add_filters(parser.add_argument_group("what results must satisfy (all that is given)"))
    _add_mode_options(parser.add_argument_group("how to search"))


def _add_scope_and_types(group: argparse._ArgumentGroup) -> None:
    add_scope_options(group)
    group.add_argument(
        "--types",
        metavar="T,..",
        help="fact, archival, message, trajectory "
        "(default: fact,archival,message; trajectory where a filter of trajectories is given)",
    )


def _add_filters(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--agent-id", dest="agent_ids", action="append", metavar="A", help="any of these agents; may be repeated")
    add("--role", metavar="R", help="role of the speaker: user, assistant, tool, system")
    add("--start-time", metavar="T", help="created at or after, as 2024-05-01T09:30:00Z")
    add("--end-time", metavar="T", help="created before")
    add("--label", metavar="L", help="exactly this label")
    add("--tag", dest="tags", action="append", metavar="T", help="has this tag; repeated: all of them")
    add("--fact-type", metavar="T", help="exactly this fact type")
    add("--session", metavar="ID", help="exactly this session")
    add("--include-superseded", action="store_true", default=None, help="also facts that newer ones have superseded")
    add("--as-of", metavar="T", help="what was there and true at this time, as 2024-05-01T09:30:00Z")
    add("--min-similarity", metavar="X", help="similarity at least this, 0 to 1")
    add(
        "--execution-status",
        metavar="S",
        help="how the run of a trajectory ended: completed, incomplete, failed, error, unknown",
    )
    add("--min-outcome-score", metavar="X", help="learning value of a trajectory at least this, 0 to 1")
    add("--max-outcome-score", metavar="X", help="learning value of a trajectory at most this, 0 to 1")


def _add_mode_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--mode",
        choices=("vector", "fts", "hybrid", "auto"),
        default="auto",
        help="vector: meaning; fts: words; hybrid: both; auto: what fits the query (default: %(default)s)",
    )
    add(
        "--fuzzy",
        type=bounded_int(0, 2),
        default=0,
        metavar="N",
        help="typo tolerance of the words: 0 none, 1 some, 2 high; not in mode vector (default: %(default)s)",
    )
    add(
        "--limit",
        type=bounded_int(1, _MAX_LIMIT),
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"most results of each type, 1 to {_MAX_LIMIT} (default: %(default)s)",
    )
    add("--no-limit-per-type", action="store_true", help="one limit for all types together (default: off)")
    add(
        "--order-by",
        choices=("relevance", "created_at"),
        default="relevance",
        help="best first, or newest first among the best (default: %(default)s)",
    )
    add(
        "--no-content-scoring",
        action="store_true",
        help="let tool output and reasoning weigh as much as what was said (default: off)",
    )
    add(
        "--rerank",
        action=argparse.BooleanOptionalAction,
        help="look at the best 50 once more, word by word (default: where the store holds token vectors)",
    )
    add(
        "--rerank-learned",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="where it does, let the learned order have its say (default: yes)",
    )
    add(
        "--rerank-budget-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="milliseconds for token vectors that aren't stored (default: %(default)s)",
    )
    add(
        "--reference-time",
        metavar="T",
        help="now, for a time at the end of the query such as `< 3 days` (default: the clock)",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what is shown."""
    group = parser.add_argument_group("what is shown")
    much = group.add_mutually_exclusive_group()
    much.add_argument("--full", action="store_true", help="every text in full (default: off)")
    much.add_argument(
        "--profile",
        metavar="P",
        help="how much of each text: local, constellation, messages, or steps such as 2:full,5:1000,400 "
        "(default: by scope and types)",
    )
    group.add_argument("--json", action="store_true", help="print results and where was looked as JSON")
    group.add_argument("--debug", action="store_true", help="add each leg's rank and score")
