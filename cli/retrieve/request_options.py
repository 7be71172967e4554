"""The options of a retrieval request, apart from what reads them, so that help is immediate."""

from __future__ import annotations

import argparse
from pathlib import Path

from recall_loop.cli.core.shared_options import add_scope_options, bounded_int


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add every option of a request but the store and the tenant."""
    add = parser.add_argument
    add_scope_options(parser)
    add(
        "--types",
        metavar="T,..",
        help="fact, archival, message, trajectory (default: fact,archival,message)",
    )
    add("--max-facts", type=bounded_int(1, 1000), metavar="N", help="most facts, 1 to 1000 (default: 30)")
    add(
        "--max-iterations",
        type=bounded_int(1, 100),
        metavar="N",
        help="most search iterations, 1 to 100 (default: 10)",
    )
    add(
        "--reference-time",
        metavar="T",
        help="now, as 2024-05-01T09:30:00Z (default: time of the newest message, else the clock)",
    )
    add("--goal", metavar="G", help="what the answer is for, in addition to the question")
    add(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="role, start_time, end_time, label, tags, fact_type, session, min_similarity …; may be repeated",
    )
    add(
        "--messages",
        type=Path,
        metavar="FILE",
        help="JSON list or JSON Lines of {role, author, content, timestamp} before the question",
    )
