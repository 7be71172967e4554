"""`recall-loop store`: look at a store, rebuild its indexes, export it, delete from it (STORE-2, STORE-5)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from recall_loop.cli.common import add_store_option, add_tenant_option, open_store, read_settings, store_path

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings import Settings

_EXAMPLE = """\
examples:
  recall-loop store info --store ./memory
  recall-loop store export --store ./memory --tenant acme -o acme.jsonl
  recall-loop store delete --store ./memory --tenant acme --ids m-17 m-18
  RECALL_LOOP_EMBEDDER=openai recall-loop store rebuild --re-embed --store ./memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb, its actions and their options."""
    parser = subparsers.add_parser("store", help="look at, rebuild, export or delete from a store", epilog=_EXAMPLE)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_action(actions, "info", "what the store holds", "recall-loop store info --store ./memory")
    rebuild = _add_action(actions, "rebuild", "make the indexes anew", "recall-loop store rebuild --store ./memory")
    rebuild.add_argument(
        "--re-embed",
        action="store_true",
        help="embed every record again, with the embedder of the settings (default: off)",
    )
    export = _add_action(
        actions, "export", "print a tenant's records", "recall-loop store export --tenant acme -o acme.jsonl"
    )
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file (default: stdout)")
    delete = _add_action(
        actions, "delete", "delete records by id", "recall-loop store delete --tenant acme --ids m-17 m-18"
    )
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", nargs="+", metavar="ID", help="ids of the records")
    which.add_argument("--ids-file", type=Path, metavar="F", help="file with one id a line")
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
    if name != "rebuild":
        add_tenant_option(parser, required=name == "delete")
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the action says, and return 0.

    Raises:
        InvalidInputError: an option is not allowed.
        StoreError: the store can't be opened, read or written.
        OSError: a file can't be read or written.
    """
    settings = read_settings()
    actions = {"info": _info, "rebuild": _rebuild, "export": _export, "delete": _delete}
    actions[args.action](args, settings)
    return 0


def _info(args: argparse.Namespace, settings: Settings) -> None:
    from recall_loop.cli.render import Screen
    from recall_loop.state.scope import Scope
    from recall_loop.state.types import ContentType

    tenant = settings.tenant if args.tenant is None else args.tenant
    screen = Screen()
    with open_store(args.store, settings, create=False, read_only=True) as store:
        counts = {kind.value: store.count(Scope(tenant=tenant), content_types=[kind]) for kind in ContentType}
        facts: dict[str, Any] = {"path": store.path, "size on disk": _size(Path(str(store.path)))}
        facts |= {"embedder": store.embedder.name, "dimension": store.embedder.dimension}
        facts |= {"generation": store.generation, "tenant": tenant}
    for name, value in {**facts, **counts, "records": sum(counts.values())}.items():
        screen.line(f"{name:<13} {value:,}" if isinstance(value, int) else f"{name:<13} {value}")


def _size(folder: Path) -> str:
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{total / 1_000_000:.1f} MB"


def _rebuild(args: argparse.Namespace, settings: Settings) -> None:
    from recall_loop.cli.bars import progress_bar
    from recall_loop.cli.render import Screen

    with (
        _opened_for_rebuild(args, settings) as (store, embedded),
        progress_bar("rebuild", int(store.info()["records"]), "records") as advance,
    ):
        again = store.embedder if args.re_embed and not embedded else None
        store.rebuild(embedder=again, progress=lambda done, _: advance(done, done))
        generation = store.generation
    Screen().line(f"Rebuilt; generation {generation}.")


@contextmanager
def _opened_for_rebuild(args: argparse.Namespace, settings: Settings) -> Iterator[tuple[MemoryStore, bool]]:
    """Yield the store, and whether opening it has embedded every record with another embedder."""
    from recall_loop.memory.store.embeddings import make_embedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.errors import EmbedderMismatchError

    path, embedder, embedded = store_path(args.store, settings), make_embedder(settings), False
    try:
        store = MemoryStore.open(path, embedder=embedder, create=False)
    except EmbedderMismatchError:
        if not args.re_embed:
            raise
        store = MemoryStore.open(path, embedder=embedder, create=False, re_embed=True)
        embedded = True
    with store:
        yield store, embedded


def _export(args: argparse.Namespace, settings: Settings) -> None:
    from recall_loop.cli.render import safe_json
    from recall_loop.memory.intake.export import export_lines
    from recall_loop.state.scope import Scope

    scope = Scope(tenant=settings.tenant if args.tenant is None else args.tenant)
    with open_store(args.store, settings, create=False, read_only=True) as store, _target(args.output) as out:
        for line in export_lines(store, scope):
            out.write((line if args.output else safe_json(line)) + "\n")


@contextmanager
def _target(path: Path | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that appears under its name only when it is whole."""
    from recall_loop.state.errors import InvalidInputError

    if path is None:
        yield sys.stdout
        return
    if path.exists():
        raise InvalidInputError("--output", str(path), "a file that doesn't exist yet")
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def _delete(args: argparse.Namespace, settings: Settings) -> None:
    from recall_loop.cli.render import Screen
    from recall_loop.cli.words import count

    ids = args.ids or [line.strip() for line in args.ids_file.read_text(encoding="utf-8").splitlines()]
    wanted = list(dict.fromkeys(filter(None, ids)))
    with open_store(args.store, settings, create=False, read_only=False) as store:
        deleted = store.delete(wanted, tenant=args.tenant)
        if args.compact:
            store.compact()
    missing = len(wanted) - deleted
    words = f"; {count(missing, 'id')} not found" if missing else ""
    Screen().line(f"Deleted {count(deleted, 'record')}{words}.")
