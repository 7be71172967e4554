"""The actions of `recall-loop store`: info, verify, rebuild, compact, export, delete."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from recall_loop.cli.core.common import atomic_output, open_store, scope_from, store_path
from recall_loop.cli.core.progress_bars import progress_bar
from recall_loop.cli.core.screen import Screen, print_json, sanitize_json
from recall_loop.memory.intake.files.ingest import export_lines
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.display import format_count
from recall_loop.state.errors import EmbedderMismatchError, InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType


def info(_: argparse.Namespace, settings: Settings) -> int:
    """Print what a tenant's memory holds, and where (STORE-5)."""
    scope = Scope(tenant=settings.tenant)
    with open_store(settings, read_only=True) as store:
        counts = {kind.value: store.count(scope, content_types=[kind]) for kind in ContentType}
        rows: dict[str, Any] = {"path": store.path, "size on disk": _size(Path(str(store.path)))}
        rows |= {"embedder": store.embedder.name, "dimension": store.embedder.dimension}
        rows |= {"generation": store.generation, "tenant": scope.tenant}
        info = store.maintenance.info()
        rows |= {name: info[name] for name in ("url", "collection") if info[name]}
    screen = Screen()
    for name, value in {**rows, **counts, "records": sum(counts.values())}.items():
        screen.line(f"{name:<13} {value:,}" if isinstance(value, int) else f"{name:<13} {value}")
    return 0


def _size(folder: Path) -> str:
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{total / 1_000_000:.1f} MB"


def export(args: argparse.Namespace, settings: Settings) -> int:
    """Print a tenant's records as lines that `ingest` reads (STORE-2)."""
    with open_store(settings, read_only=True) as store, atomic_output(args.output) as out:
        for line in export_lines(store, Scope(tenant=settings.tenant)):
            out.write((line if args.output else sanitize_json(line)) + "\n")
    return 0


def verify(args: argparse.Namespace, settings: Settings) -> int:
    """Print the damage found in the store, a line each; return 0 if there is none, else 1 (STORE-4)."""
    report = verify_folder(store_path(settings), api_key=settings.chroma_api_key)
    if args.json:
        print_json(report.as_json())
        return 0 if report.sound else 1
    lines = [*report.findings, *(f"note: {note}" for note in report.notes)]
    if report.sound:
        lines.append(f"Sound: {format_count(report.records or 0, 'record')}, the same on both sides.")
    screen = Screen()
    for line in lines:
        screen.line(line)
    return 0 if report.sound else 1


def rebuild(args: argparse.Namespace, settings: Settings) -> int:
    """Rebuild the indexes, with a bar on a terminal (STORE-5)."""
    with (
        _opened_for_rebuild(args, settings) as (store, embedded),
        progress_bar("rebuild", int(store.maintenance.info()["records"]), "records") as advance,
    ):
        embedder = store.embedder if args.re_embed and not embedded else None
        if args.token_vectors == "drop":
            store.maintenance.drop_token_vectors()
        store.maintenance.rebuild(embedder=embedder, progress=lambda done, _: advance(done, done))
        if args.token_vectors == "make":
            store.maintenance.make_token_vectors()
        generation, repairs = store.generation, list(store.repairs)
    screen = Screen()
    for repair in repairs:
        screen.line(f"note: {repair}")
    screen.line(f"Rebuilt; generation {generation}.")
    return 0


@contextmanager
def _opened_for_rebuild(args: argparse.Namespace, settings: Settings) -> Iterator[tuple[MemoryStore, bool]]:
    """Yield the store, and whether opening it has embedded every record with another embedder."""
    if args.move and settings.chroma_url is None:
        raise InvalidInputError("--move", True, "only with --url, the server to move to")
    open_deferred = partial(
        MemoryStore.from_settings, settings, store_path(settings), create=False, move=args.move, defer=True
    )
    try:
        store, embedded = open_deferred(), False
    except EmbedderMismatchError:
        if not args.re_embed:
            raise
        store, embedded = open_deferred(re_embed=True), True
    with store:
        yield store, embedded


def compact(_: argparse.Namespace, settings: Settings) -> int:
    """Rewrite the store's files without what was deleted, with a bar on a terminal (STORE-6)."""
    with open_store(settings) as store:
        _compact(store)
    Screen().line("Compacted.")
    return 0


def _compact(store: MemoryStore) -> None:
    with progress_bar("compact", int(store.maintenance.info()["records"]), "records") as advance:
        store.maintenance.compact(progress=lambda done, _: advance(done, done))


def delete(args: argparse.Namespace, settings: Settings) -> int:
    """Delete records by id, or all of a user, an agent, a conversation or a tenant (STORE-2, STORE-6)."""
    ids, scope = _ids(args), scope_from(args, settings)
    with open_store(settings) as store:
        deleted = store.erase(scope) if ids is None else store.delete(ids, tenant=scope.tenant)
        if args.compact:
            _compact(store)
    missing = 0 if ids is None else len(ids) - deleted
    not_found = f"; {format_count(missing, 'id')} not found" if missing else ""
    Screen().line(f"Deleted {format_count(deleted, 'record')}{not_found}.")
    return 0


def _ids(args: argparse.Namespace) -> list[str] | None:
    """Return the ids to delete, each once; None where a whole scope is deleted."""
    if args.ids is None and args.ids_file is None:
        return None
    ids = args.ids or [line.strip() for line in args.ids_file.read_text(encoding="utf-8").splitlines()]
    return list(dict.fromkeys(filter(None, ids)))
