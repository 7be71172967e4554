"""`recall-loop store`: inspect, verify, rebuild, move, back up, export a store, or delete from it (STORE-2, -5, -6)."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.condition_options import add_filter_option
from recall_loop.cli.core.shared_options import (
    add_action,
    add_json_option,
    add_scope_options,
    add_tenant_option,
    add_types_option,
    bounded_int,
    comma_separated,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

# Actions with a module of their own, and the function that does each.
_ELSEWHERE = {
    "list": ("record_actions", "list_records"),
    "update": ("record_actions", "update_record"),
    "move": ("copy_actions", "move"),
    "backup": ("copy_actions", "backup"),
}
_EXAMPLE = """\
examples:
  recall-loop store info --store ./my-memory
  recall-loop store tenants --store ./my-memory
  recall-loop store verify --store ./my-memory
  recall-loop store backup --store ./my-memory ./backups/monday
  recall-loop store move --store ./my-memory --to postgresql://recall@db/recall
  recall-loop store list --store ./my-memory --tenant acme --user u-5
  recall-loop store export --store ./my-memory --tenant acme -o acme.jsonl
  recall-loop store export --store ./my-memory --tenant acme --user u-5
  recall-loop store delete --store ./my-memory --tenant acme --ids m-17 m-18
  recall-loop store delete --store ./my-memory --tenant acme --user u-5 --compact
  RECALL_LOOP_EMBEDDER=openai recall-loop store rebuild --re-embed --store ./my-memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb, its actions and their options."""
    parser = subparsers.add_parser(
        "store",
        help="inspect, list, verify, rebuild, move, back up, export or delete from a store",
        epilog=_EXAMPLE,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, "info", "print what the store holds")
    add_json_option(
        add_action(
            actions,
            "tenants",
            "print each tenant with its records, how many more have expired and await a sweep, and the bytes of all",
            tenant=False,
        )
    )
    _add_maintenance(actions)
    _add_list(actions)
    _add_update(actions)
    export = add_action(actions, "export", "print a tenant's records", "--tenant acme --user u-5 -o u-5.jsonl")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file (default: stdout)")
    add_scope_options(export)
    add_filter_option(export)
    _add_delete(actions)
    _add_forgetting(actions)


def _add_maintenance(actions: Any) -> None:
    verify = add_action(
        actions,
        "verify",
        "check the store for damage, and count its records and the expired ones that await a sweep; the exit code is 0 "
        "if it is sound, else 1",
        tenant=False,
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object (default: a line per finding)")
    rebuild = add_action(actions, "rebuild", "rebuild the indexes", tenant=False, writes=True)
    rebuild.add_argument(
        "--re-embed",
        action="store_true",
        help="embed all records again with the settings' embedder; if it was interrupted, the same command continues "
        "(default: off)",
    )
    rebuild.add_argument(
        "--token-vectors",
        choices=("make", "drop"),
        help="create missing token vectors for reranking, or drop all of them (default: no change)",
    )
    rebuild.add_argument("--move", action="store_true", help="move the vectors to the server of --url (default: off)")
    example = "--store ./my-memory --to postgresql://recall@db/recall"
    move = add_action(
        actions, "move", "copy a store to PostgreSQL or to a new folder, and compare both sides", example, tenant=False
    )
    move.add_argument("--to", required=True, metavar="PATH", help="new folder, or postgresql://user@host/database")
    add_json_option(move)
    example = "--store ./my-memory ./backups/monday"
    words = "copy a store in a folder to a new folder, even while a service writes to it, and verify the copy; "
    words += "records that have expired and await a sweep are copied, and counted separately"
    backup = add_action(actions, "backup", words, example, tenant=False)
    backup.add_argument("target", metavar="TARGET", help="a folder that doesn't exist yet")
    add_json_option(backup)
    add_action(actions, "compact", "rewrite the store's files without deleted data", tenant=False, writes=True)


def _add_list(actions: Any) -> None:
    listing = add_action(
        actions, "list", "print a tenant's records, newest first", "--tenant acme --user u-5 --limit 20"
    )
    add_scope_options(listing)
    add_types_option(listing, "all")
    add_filter_option(listing)
    listing.add_argument(
        "--limit", type=bounded_int(1, 1000), default=20, metavar="N", help="maximum records (default: %(default)s)"
    )
    listing.add_argument("--after", default="", metavar="PLACE", help="end of the previous page (default: start)")
    add_json_option(listing)


def _add_update(actions: Any) -> None:
    example = '--tenant acme m-17 text="I moved to Oslo." tags=["home"]'
    update = add_action(actions, "update", "change some fields of a record", example, writes=True)
    update.add_argument("id", metavar="ID", help="id of the record")
    update.add_argument(
        "changes", nargs="+", metavar="FIELD=VALUE", help="a field and its new value: text, or JSON; null empties it"
    )
    update.add_argument("--actor", metavar="NAME", help="author of the change, for its history (default: none)")


def _add_delete(actions: Any) -> None:
    delete = add_action(
        actions, "delete", "delete records", "--tenant acme --user u-5 --compact", tenant=False, writes=True
    )
    add_tenant_option(delete, required=True)
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", nargs="+", metavar="ID", help="ids of the records")
    which.add_argument("--ids-file", type=Path, metavar="F", help="file with one id per line")
    which.add_argument("--user", dest="user_id", metavar="ID", help="every record of a user")
    which.add_argument("--agent", dest="agent_id", metavar="ID", help="every record of an agent")
    which.add_argument("--conversation", dest="conversation_id", metavar="ID", help="every record of a conversation")
    which.add_argument("--all", action="store_true", help="every record of the tenant")
    delete.add_argument(
        "--compact", action="store_true", help="rewrite the store's files without deleted data (default: off)"
    )


def _add_forgetting(actions: Any) -> None:
    words = "erase expired records, those selected by the setting `retention`, and old versions"
    add_json_option(add_action(actions, "sweep", words, tenant=False, writes=True))
    example = "--tenant acme --speech-acts acknowledgement --older-than-days 7 --dry-run"
    forget = add_action(
        actions, "forget", "delete, or count, the records selected by the options", example, tenant=False, writes=True
    )
    add_tenant_option(forget, required=True)
    add_scope_options(forget)
    add_types_option(forget, "all")
    add_filter_option(forget)
    add = forget.add_argument
    add("--roles", type=comma_separated, metavar="R,..", help="user, assistant, tool, system (default: any)")
    acts = "statement, question, request, acknowledgement, non_answer"
    add("--speech-acts", type=comma_separated, metavar="A,..", help=f"every sentence is one of {acts} (default: any)")
    add("--older-than-days", metavar="N", help="created at least this many days ago (default: any time)")
    add("--dry-run", action="store_true", help="only count the records (default: off)")
    add_json_option(forget)
    history = add_action(actions, "history", "print the changes of a record, oldest first", "f-12 --tenant acme")
    history.add_argument("id", metavar="ID", help="id of the record")
    add_json_option(history)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what the action says; return 0, or 1 where `verify` found something."""
    module, name = _ELSEWHERE.get(args.action, ("store_actions", args.action))
    return int(getattr(import_module(f"recall_loop.cli.store.{module}"), name)(args, settings))
