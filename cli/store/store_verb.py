"""`recall-loop store`: look at a store, verify, rebuild, compact and export it, delete from it (STORE-2, -5, -6)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import add_store_option, add_tenant_option, atomic_output, open_store, read_settings

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
        "store", help="look at, verify, rebuild, export or delete from a store", epilog=_EXAMPLE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_action(actions, "info", "what the store holds", "recall-loop store info --store ./memory")
    _add_maintenance(actions)
    export = _add_action(
        actions, "export", "print a tenant's records", "recall-loop store export --tenant acme -o acme.jsonl"
    )
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file (default: stdout)")
    _add_delete(actions)


def _add_maintenance(actions: Any) -> None:
    verify = _add_action(
        actions, "verify", "check the store for damage; 0 sound, 1 not", "recall-loop store verify --store ./memory"
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object (default: a line per finding)")
    rebuild = _add_action(actions, "rebuild", "make the indexes anew", "recall-loop store rebuild --store ./memory")
    rebuild.add_argument(
        "--re-embed",
        action="store_true",
        help="embed every record again, with the embedder of the settings (default: off)",
    )
    rebuild.add_argument(
        "--token-vectors",
        choices=("make", "drop"),
        help="make the token vectors that reranking needs where they are missing, or keep none (default: as it is)",
    )
    rebuild.add_argument(
        "--move", action="store_true", help="keep the vectors on the server of --url from now on (default: off)"
    )
    _add_action(
        actions,
        "compact",
        "rewrite the store's files, so that no deleted byte stays in them",
        "recall-loop store compact --store ./memory",
    )


def _add_delete(actions: Any) -> None:
    delete = _add_action(
        actions, "delete", "delete records", "recall-loop store delete --tenant acme --user u-5 --compact"
    )
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", nargs="+", metavar="ID", help="ids of the records")
    which.add_argument("--ids-file", type=Path, metavar="F", help="file with one id a line")
    which.add_argument("--user", metavar="ID", help="every record of a user")
    which.add_argument("--agent", metavar="ID", help="every record of an agent")
    which.add_argument("--conversation", metavar="ID", help="every record of a conversation")
    which.add_argument("--all", action="store_true", help="every record of the tenant")
    delete.add_argument(
        "--compact",
        action="store_true",
        help="rewrite the store's files, so that no deleted byte stays in them (default: off)",
    )


def _add_action(actions: Any, name: str, words: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=words[0].upper() + words[1:] + ".", epilog=f"example:\n  {example}"
    )
    add_store_option(parser)
    if name in ("info", "export", "delete"):
        add_tenant_option(parser, required=name == "delete")
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the action says; return 0, or 1 where `verify` found something.

    Raises:
        InvalidInputError: an option is not allowed.
        StoreError: the store can't be opened, read or written.
        OSError: a file can't be read or written.
    """
    from recall_loop.cli.store import store_maintenance

    settings = read_settings(args)
    actions: dict[str, Callable[[argparse.Namespace, Settings], int]] = {
        "info": _info,
        "verify": store_maintenance.verify,
        "rebuild": store_maintenance.rebuild,
        "compact": store_maintenance.compact,
        "export": _export,
        "delete": store_maintenance.delete,
    }
    return actions[args.action](args, settings)


def _info(args: argparse.Namespace, settings: Settings) -> int:
    from recall_loop.cli.core.rendering import Screen
    from recall_loop.state.scope import Scope
    from recall_loop.state.types import ContentType

    tenant = settings.tenant if args.tenant is None else args.tenant
    screen = Screen()
    with open_store(args.store, settings, create=False, read_only=True) as store:
        counts = {kind.value: store.count(Scope(tenant=tenant), content_types=[kind]) for kind in ContentType}
        facts: dict[str, Any] = {"path": store.path, "size on disk": _size(Path(str(store.path)))}
        facts |= {"embedder": store.embedder.name, "dimension": store.embedder.dimension}
        facts |= {"generation": store.generation, "tenant": tenant}
        facts |= {name: value for name, value in store.info().items() if name in ("url", "collection") and value}
    for name, value in {**facts, **counts, "records": sum(counts.values())}.items():
        screen.line(f"{name:<13} {value:,}" if isinstance(value, int) else f"{name:<13} {value}")
    return 0


def _size(folder: Path) -> str:
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{total / 1_000_000:.1f} MB"


def _export(args: argparse.Namespace, settings: Settings) -> int:
    from recall_loop.cli.core.rendering import sanitize_json
    from recall_loop.memory.intake.files.export import export_lines
    from recall_loop.state.scope import Scope

    scope = Scope(tenant=settings.tenant if args.tenant is None else args.tenant)
    with open_store(args.store, settings, create=False, read_only=True) as store, atomic_output(args.output) as out:
        for line in export_lines(store, scope):
            out.write((line if args.output else sanitize_json(line)) + "\n")
    return 0
