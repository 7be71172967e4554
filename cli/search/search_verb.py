"""`recall-loop search`: one query to the search engine, without the loop (SEARCH-1 to SEARCH-10)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.condition_options import add_condition_options
from recall_loop.cli.core.shared_options import (
    Group,
    add_language_option,
    add_scope_options,
    add_store_option,
    add_tenant_option,
    add_types_option,
    not_blank,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Search a store once and print the matches, best first: no planning, no further rounds. If nothing is found,
print a description of the search. A query may end with a time: `< 3 days` (within), `> 2 weeks` (longer ago),
`1-3 months`, `2 days ago`; in quotation marks it is text. The store is opened for reading only.
"""
_EXAMPLE = """\
examples:
  recall-loop search "ferry to the island" --store ./my-memory
  recall-loop search "deploy failed < 3 days" --types message --role tool --store ./my-memory
  recall-loop search "windws" --mode fts --fuzzy 1 --store ./my-memory --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("search", help="search a store once", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("query", type=not_blank, metavar="QUERY", help="what to look for")
    add_store_option(parser)
    add_tenant_option(parser)
    scope = parser.add_argument_group("where to look")
    add_scope_options(scope)
    add_types_option(scope, "fact,archival,message; trajectory with a trajectory filter")
    add_condition_options(parser)
    _add_mode_options(parser.add_argument_group("how to search"))
    _add_ranking_options(parser.add_argument_group("how to rank"))
    _add_output_options(parser.add_argument_group("output"))


def _add_mode_options(group: Group) -> None:
    add = group.add_argument
    add(
        "--mode",
        choices=("vector", "fts", "hybrid", "auto"),
        help="vector: meaning; fts: words; hybrid: both; auto: what fits the query (default: auto)",
    )
    add("--fuzzy", metavar="N", help="typo tolerance: 0 none, 1 some, 2 high; not in mode vector (default: 0)")
    add_language_option(group, "the query")
    add("--limit", default=10, metavar="N", help="maximum results of each type, 1 to 1000 (default: %(default)s)")
    _add_off(group, "--no-limit-per-type", "limit_per_type", "one limit for all types together (default: off)")
    add("--reference-time", metavar="T", help="current time, for `< 3 days` at the end of the query (default: now)")
    _add_off(
        group, "--no-time-suffixes", "time_suffixes", "treat a time at the end of the query as text (default: off)"
    )


def _add_ranking_options(group: Group) -> None:
    add = group.add_argument
    add(
        "--order-by",
        choices=("relevance", "created_at"),
        help="best first, or newest first among the best (default: relevance)",
    )
    words = "weigh tool output and reasoning the same as speech (default: off)"
    _add_off(group, "--no-content-scoring", "apply_content_scoring", words)
    add(
        "--rerank",
        action=argparse.BooleanOptionalAction,
        help="compare the best results word by word (default: if the store holds token vectors)",
    )
    add(
        "--rerank-learned",
        action=argparse.BooleanOptionalAction,
        help="apply the learned order if results are reranked (default: yes)",
    )
    add("--rerank-pool", metavar="N", help="number of best results to rerank, 1 to 100 (default: 50)")
    add("--rerank-budget-ms", metavar="MS", help="milliseconds for computing missing token vectors (default: 0)")


def _add_off(group: Group, option: str, field: str, words: str) -> None:
    """Add an option that sets a field to false."""
    group.add_argument(option, dest=field, action="store_false", default=None, help=words)


def _add_output_options(group: Group) -> None:
    length = group.add_mutually_exclusive_group()
    length.add_argument("--full", action="store_true", help="print every text in full (default: off)")
    length.add_argument(
        "--profile",
        metavar="P",
        help="how much of each text: local, constellation, messages, or steps such as 2:full,5:1000,400 "
        "(default: by scope and types)",
    )
    group.add_argument("--json", action="store_true", help="print the results and a description of the search as JSON")
    group.add_argument("--debug", action="store_true", default=None, help="add the rank and score of each retriever")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Search, print, and return 0, also where nothing was found."""
    from recall_loop.cli.core.common import model_from, open_store, scope_from
    from recall_loop.cli.core.screen import print_json
    from recall_loop.cli.search.search_rendering import print_results
    from recall_loop.memory.search.engine import search
    from recall_loop.memory.search.present.result_display import (
        FULL_PROFILE,
        parse_profile,
        profile_for,
        response_to_json,
    )
    from recall_loop.state.search import SearchParams

    scope, params = scope_from(args, settings), model_from(args, SearchParams)
    params.check_supported()
    named = parse_profile(args.profile) if args.profile else profile_for(scope, params.searched_types)
    profile = FULL_PROFILE if args.full else named
    with open_store(settings, read_only=True) as store:
        response = search(store, args.query, scope=scope, params=params)
    if args.json:
        print_json(response_to_json(response, profile), indent=2)
    else:
        print_results(response, profile)
    return 0
