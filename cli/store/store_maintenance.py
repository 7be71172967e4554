"""The actions of `recall-loop store` that keep a store in order: verify, rebuild, compact, delete."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recall_loop.cli.core.common import open_store, store_path

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.store.recovery.verify import VerificationReport
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.scope import Scope
    from recall_loop.state.settings.settings import Settings


def verify(args: argparse.Namespace, settings: Settings) -> int:
    """Print what is wrong with the store, a line each; return 0 if nothing is, else 1 (STORE-4)."""
    import json

    from recall_loop.cli.core.rendering import Screen, sanitize_json
    from recall_loop.memory.store.recovery.verify import verify_folder
    from recall_loop.state.display import format_count

    report: VerificationReport = verify_folder(store_path(args.store, settings), api_key=settings.chroma_api_key)
    screen = Screen()
    if args.json:
        screen.line(sanitize_json(json.dumps(report.as_json(), ensure_ascii=False)))
        return 0 if report.sound else 1
    for line in report.findings:
        screen.line(line)
    for line in report.notes:
        screen.line(f"note: {line}")
    if report.sound:
        screen.line(f"Sound: {format_count(report.records or 0, 'record')}, the same on both sides.")
    return 0 if report.sound else 1


def rebuild(args: argparse.Namespace, settings: Settings) -> int:
    """Make the indexes anew, with a bar on a terminal (STORE-5)."""
    from recall_loop.cli.core.progress_bars import progress_bar
    from recall_loop.cli.core.rendering import Screen

    with (
        _opened_for_rebuild(args, settings) as (store, embedded),
        progress_bar("rebuild", int(store.info()["records"]), "records") as advance,
    ):
        again = store.embedder if args.re_embed and not embedded else None
        if args.token_vectors == "drop":
            store.drop_token_vectors()
        store.rebuild(embedder=again, progress=lambda done, _: advance(done, done))
        if args.token_vectors == "make":
            store.make_token_vectors()
        generation, repairs = store.generation, list(store.repairs)
    for words in repairs:
        Screen().line(f"note: {words}")
    Screen().line(f"Rebuilt; generation {generation}.")
    return 0


@contextmanager
def _opened_for_rebuild(args: argparse.Namespace, settings: Settings) -> Iterator[tuple[MemoryStore, bool]]:
    """Yield the store, and whether opening it has embedded every record with another embedder."""
    from recall_loop.memory.store.chroma.chroma_server import server_from_settings
    from recall_loop.memory.store.embed.embedder_factory import make_embedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.errors import EmbedderMismatchError, InvalidInputError

    if args.move and settings.chroma_url is None:
        raise InvalidInputError("--move", True, "only with --url, the server to move to")
    path, embedder, url = store_path(args.store, settings), make_embedder(settings), server_from_settings(settings)
    embedded = False
    try:
        store = MemoryStore.open(path, embedder=embedder, create=False, url=url, move=args.move, defer=True)
    except EmbedderMismatchError:
        if not args.re_embed:
            raise
        store = MemoryStore.open(
            path, embedder=embedder, create=False, url=url, move=args.move, defer=True, re_embed=True
        )
        embedded = True
    with store:
        yield store, embedded


def compact(args: argparse.Namespace, settings: Settings) -> int:
    """Rewrite the store's files without what was deleted, with a bar on a terminal (STORE-6)."""
    from recall_loop.cli.core.rendering import Screen

    with open_store(args.store, settings, create=False, read_only=False) as store:
        _compact(store)
    Screen().line("Compacted.")
    return 0


def _compact(store: MemoryStore) -> None:
    from recall_loop.cli.core.progress_bars import progress_bar

    with progress_bar("compact", int(store.info()["records"]), "records") as advance:
        store.compact(progress=lambda done, _: advance(done, done))


def delete(args: argparse.Namespace, settings: Settings) -> int:
    """Delete records by id, or all of a user, an agent, a conversation or a tenant (STORE-2, STORE-6)."""
    from recall_loop.cli.core.rendering import Screen
    from recall_loop.state.display import format_count

    wanted = _ids(args)
    scope = _scope(args)
    with open_store(args.store, settings, create=False, read_only=False) as store:
        deleted = store.erase(scope) if wanted is None else store.delete(wanted, tenant=scope.tenant)
        if args.compact:
            _compact(store)
    missing = 0 if wanted is None else len(wanted) - deleted
    words = f"; {format_count(missing, 'id')} not found" if missing else ""
    Screen().line(f"Deleted {format_count(deleted, 'record')}{words}.")
    return 0


def _ids(args: argparse.Namespace) -> list[str] | None:
    """Return the ids that are asked for, each once; None where a whole scope is."""
    if args.ids is None and args.ids_file is None:
        return None
    ids = args.ids or [line.strip() for line in args.ids_file.read_text(encoding="utf-8").splitlines()]
    return list(dict.fromkeys(filter(None, ids)))


def _scope(args: argparse.Namespace) -> Scope:
    from recall_loop.state.errors import validate_model
    from recall_loop.state.scope import Scope

    given = {"agent_id": args.agent, "user_id": args.user, "conversation_id": args.conversation}
    return validate_model(
        Scope, {"tenant": args.tenant, **{name: value for name, value in given.items() if value is not None}}
    )
