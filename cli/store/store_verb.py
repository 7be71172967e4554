"""`recall-loop store`: inspect, verify, rebuild, compact or export a store, or delete from it (STORE-2, -5, -6)."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import add_action, add_tenant_option

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_EXAMPLE = """\
examples:
  recall-loop store info --store ./memory
  recall-loop store verify --store ./memory
  recall-loop store export --store ./memory --tenant acme -o acme.jsonl
  recall-loop store delete --store ./memory --tenant acme --ids m-17 m-18
  recall-loop store delete --store ./memory --tenant acme --user u-5 --compact
  RECALL_LOOP_EMBEDDER=openai recall-loop store rebuild --re-embed --store ./memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb, its actions and their options."""
    parser = subparsers.add_parser(
        "store", help="inspect, verify, rebuild, compact, export or delete from a store", epilog=_EXAMPLE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, "info", "print what the store holds")
    _add_maintenance(actions)
    export = add_action(actions, "export", "print a tenant's records", "--tenant acme -o acme.jsonl")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file (default: stdout)")
    _add_delete(actions)


def _add_maintenance(actions: Any) -> None:
    verify = add_action(
        actions, "verify", "check the store for damage; the exit code is 0 if it is sound, else 1", tenant=False
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object (default: a line per finding)")
    rebuild = add_action(actions, "rebuild", "rebuild the indexes", tenant=False)
    rebuild.add_argument(
        "--re-embed", action="store_true", help="embed every record again, by the settings' embedder (default: off)"
    )
    rebuild.add_argument(
        "--token-vectors",
        choices=("make", "drop"),
        help="make the token vectors that reranking needs where they are missing, or keep none (default: no change)",
    )
    rebuild.add_argument(
        "--move", action="store_true", help="keep the vectors on the server of --url from now on (default: off)"
    )
    add_action(actions, "compact", "rewrite the store's files, so that no deleted byte stays in them", tenant=False)


def _add_delete(actions: Any) -> None:
    delete = add_action(actions, "delete", "delete records", "--tenant acme --user u-5 --compact", tenant=False)
    add_tenant_option(delete, required=True)
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", nargs="+", metavar="ID", help="ids of the records")
    which.add_argument("--ids-file", type=Path, metavar="F", help="file with one id per line")
    which.add_argument("--user", dest="user_id", metavar="ID", help="every record of a user")
    which.add_argument("--agent", dest="agent_id", metavar="ID", help="every record of an agent")
    which.add_argument("--conversation", dest="conversation_id", metavar="ID", help="every record of a conversation")
    which.add_argument("--all", action="store_true", help="every record of the tenant")
    delete.add_argument(
        "--compact", action="store_true", help="rewrite the store's files without deleted bytes (default: off)"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what the action says; return 0, or 1 where `verify` found something."""
    action = getattr(import_module("recall_loop.cli.store.store_actions"), args.action)
    return int(action(args, settings))
