"""`recall-loop search`: one query to the search engine, without the loop (SEARCH-1 to SEARCH-10)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import open_store
from recall_loop.cli.core.shared_options import add_store_option, add_tenant_option
from recall_loop.cli.search.search_options import add_output_options, add_search_options

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Search a store once and print what matches, best first: no planning, no further rounds. Where nothing is
found it says where was looked. A query may end with a time: `< 3 days` (within), `> 2 weeks` (longer ago),
`1-3 months`, `2 days ago`; in quotation marks it is text. The store is opened for reading only.
"""
_EXAMPLE = """\
examples:
  recall-loop search "ferry to the island" --store ./memory
  recall-loop search "deploy failed < 3 days" --types message --role tool --store ./memory
  recall-loop search "windws" --mode fts --fuzzy 1 --store ./memory --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("search", help="search a store once", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("query", metavar="QUERY", help="what to look for")
    add_store_option(parser)
    add_tenant_option(parser)
    add_search_options(parser)
    add_output_options(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Search, print, and return 0, also where nothing was found.

    Raises:
        InvalidInputError: an option is not allowed.
        StoreError: the store can't be opened or read.
        EmbedderError: the embedder fails and the mode needs it.
    """
    from recall_loop.cli.search.search_arguments import build_search
    from recall_loop.cli.search.search_rendering import print_results, print_results_json

    command = build_search(args, settings)
    with open_store(settings, read_only=True) as store:
        response = command.run(store)
    (print_results_json if args.json else print_results)(response, command.profile)
    return 0
