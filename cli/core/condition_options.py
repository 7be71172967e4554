"""Options for conditions on records, the same in every verb that finds some. It imports nothing heavy."""

from __future__ import annotations

import argparse

from recall_loop.cli.core.shared_options import Group

LIST_FILTERS = ("agent_ids", "speech_acts", "tags", "tools_used")


def add_condition_options(parser: argparse.ArgumentParser) -> None:
    """Add the group of options for conditions on results, including `--filter`."""
    group = parser.add_argument_group("conditions that results must meet, all of them")
    add = group.add_argument
    add("--agent-id", dest="agent_ids", action="append", metavar="A", help="any of these agents; may be repeated")
    add("--role", metavar="R", help="role of the speaker: user, assistant, tool, system")
    add("--start-time", metavar="T", help="created at or after, as 2024-05-01T09:30:00Z")
    add("--end-time", metavar="T", help="created before")
    add("--label", metavar="L", help="exactly this label")
    add("--tag", dest="tags", action="append", metavar="T", help="has this tag; repeated: all of them")
    add("--fact-type", metavar="T", help="exactly this fact type")
    add("--session", metavar="ID", help="exactly this session")
    add("--include-superseded", action="store_true", default=None, help="also facts superseded by newer ones")
    add("--as-of", metavar="T", help="records that existed and facts that held at this time, as 2024-05-01T09:30:00Z")
    add("--min-similarity", metavar="X", help="similarity at least this, 0 to 1")
    add(
        "--execution-status", metavar="S", help="of the trajectory's run: completed, incomplete, failed, error, unknown"
    )
    add("--min-outcome-score", metavar="X", help="learning value of a trajectory at least this, 0 to 1")
    add("--max-outcome-score", metavar="X", help="learning value of a trajectory at most this, 0 to 1")
    add_filter_option(group)


def add_filter_option(group: Group) -> None:
    """Add `--filter`, for every filter that has no option of its own."""
    group.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any filter of docs/search.md, such as scored=true, 'attributes.team=red' or 'attributes.age>=3'; may be "
        f"repeated; values of {', '.join(LIST_FILTERS)} and conditions on attributes accumulate",
    )
