"""The actions of `recall-loop store`: info, verify, rebuild, compact, export, delete."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from recall_loop.cli.core.common import (
    atomic_output,
    open_as_it_is,
    open_store,
    scope_from,
    store_path,
    warn_of_empty_scope,
)
from recall_loop.cli.core.filter_pairs import filters_from
from recall_loop.cli.core.progress_bars import Advance, progress_bar, rebuild_progress
from recall_loop.cli.core.run_rendering import format_minute
from recall_loop.cli.core.screen import Screen, print_json, sanitize_json
from recall_loop.cli.core.shared_options import given_fields
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import embedder_of_version
from recall_loop.memory.store.recovery.verify import VerificationReport, verify_place
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.display import format_count, truncate
from recall_loop.state.errors import EmbedderMismatchError, InvalidInputError, validate_model
from recall_loop.state.scope import Filters, RetentionRule, Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

_SHOWN = 100


def info(_: argparse.Namespace, settings: Settings) -> int:
    """Print what a tenant's memory holds, and where (STORE-5)."""
    scope = Scope(tenant=settings.tenant)
    with open_as_it_is(settings) as store:
        counts = {kind.value: store.count(scope, content_types=[kind]) for kind in ContentType}
        info = store.maintenance.info()
        rows: dict[str, Any] = {"path": info["path"], "size on disk": f"{store.maintenance.size() / 1_000_000:.1f} MB"}
        rows |= {"embedder": _embedder(info, settings), "dimension": store.dimension}
        rows |= {"generation": store.generation, "tenant": scope.tenant}
        rows |= {name: info[name] for name in ("url", "collection") if info[name]}
        rows |= _vector_search(info)
        warn_of_empty_scope(store, scope)
    screen = Screen()
    for name, value in {**rows, **counts, "records": sum(counts.values())}.items():
        screen.line(f"{name:<13} {value:,}" if isinstance(value, int) else f"{name:<13} {value}")
    return 0


def _embedder(info: Mapping[str, Any], settings: Settings) -> str:
    """Return the embedder's name, and where it isn't the one that the settings name, or that in an earlier version."""
    named = make_embedder(settings)
    own = embedder_of_version(named, info["fingerprint"])
    if own is None:
        note = f" (the settings name {settings.embedder}; `store rebuild --re-embed` changes to it)"
    elif own.fingerprint != named.fingerprint:
        note = " (an earlier version; `store rebuild --re-embed` updates it)"
    else:
        note = ""
    return str(info["embedder"]) + note


def _vector_search(info: dict[str, Any]) -> dict[str, str]:
    """Return which engine compares vectors, and why the store is degraded, if it is (SEARCH-9)."""
    known = info["vector_search"]
    backends = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    backend = backends.get(known["larger_scopes"])
    above = "Chroma" if backend is None else f"all vectors compared, from {backend}"
    lines = {"vectors": f"in memory up to {known['rows_compared_in_memory']:,} records in scope; above: {above}"}
    return lines | ({"degraded": info["degraded_reason"]} if info["degraded_reason"] else {})


def tenants(args: argparse.Namespace, settings: Settings) -> int:
    """Print each tenant that has records, how many, and the bytes of these and their vectors (STORE-8)."""
    with open_as_it_is(settings) as store:
        found = store.maintenance.tenants()
    if args.json:
        print_json({"tenants": [asdict(one) for one in found]})
        return 0
    screen = Screen()
    for one in found:
        size = f"{one.records:>12,} records {one.bytes / 1_000_000:>12,.1f} MB"
        screen.line(f"{size}  {one.tenant}{f' ({one.expired:,} more expired)' if one.expired else ''}")
    if not found:
        screen.line("No records.")
    return 0


def export(args: argparse.Namespace, settings: Settings) -> int:
    """Print the records of a tenant or an owner as lines that `ingest` reads (STORE-2); say where there is none."""
    filters, scope, line = _export_filters(args.filter), scope_from(args, settings), ""
    with open_as_it_is(settings) as store, atomic_output(args.output) as out:
        for line in export_lines(store, scope, filters):
            out.write((line if args.output else sanitize_json(line)) + "\n")
        if not line:
            warn_of_empty_scope(store, scope, filters)
    return 0


def _export_filters(pairs: Sequence[str]) -> Filters | None:
    """Return the conditions on records; None where there are none, for then superseded facts are exported too."""
    filters = filters_from(pairs)
    if filters and filters.min_similarity is not None:
        raise InvalidInputError("--filter min_similarity", filters.min_similarity, "no value: an export has no query")
    return filters


def verify(args: argparse.Namespace, settings: Settings) -> int:
    """Print the damage found in the store, a line each; return 0 if there is none, else 1 (STORE-4)."""
    report = verify_place(store_path(settings), api_key=settings.chroma_api_key)
    if args.json:
        print_json(report.as_json())
        return 0 if report.sound else 1
    lines = [*report.findings, *(f"note: {note}" for note in report.notes)]
    if report.sound:
        both = "" if report.chroma_rows is None else ", the same on both sides"
        lines.append(f"Sound: {format_count(report.records or 0, 'record')}{expired_words(report)}{both}.")
    screen = Screen()
    for line in lines:
        screen.line(line)
    return 0 if report.sound else 1


def expired_words(report: VerificationReport) -> str:
    """Return what to say beside a report's records of those that have expired; empty without any."""
    return f" ({report.expired:,} more expired)" if report.expired else ""


def rebuild(args: argparse.Namespace, settings: Settings) -> int:
    """Rebuild the indexes, with bars on a terminal (STORE-5, OPEN-3)."""
    with (
        rebuild_progress() as (embedding, advance),
        _opened_for_rebuild(args, settings, embedding) as (store, embedded),
    ):
        embedder = make_embedder(settings) if args.re_embed and not embedded else None
        if args.token_vectors == "drop":
            store.maintenance.drop_token_vectors()
        store.maintenance.rebuild(embedder=embedder, progress=advance, embedding=embedding)
        if args.token_vectors == "make":
            store.maintenance.make_token_vectors()
        generation, repairs = store.generation, list(store.repairs)
    screen = Screen()
    for repair in repairs:
        screen.line(f"note: {repair}")
    screen.line(f"Rebuilt; generation {generation}.")
    return 0


@contextmanager
def _opened_for_rebuild(
    args: argparse.Namespace, settings: Settings, embedding: Advance
) -> Iterator[tuple[MemoryStore, bool]]:
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
        store, embedded = open_deferred(re_embed=True, progress=embedding), True
    with store:
        yield store, embedded


def compact(_: argparse.Namespace, settings: Settings) -> int:
    """Rewrite the store's files without deleted data, with a progress bar on a terminal (STORE-6)."""
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
        if not deleted:
            warn_of_empty_scope(store, scope)
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


def sweep(args: argparse.Namespace, settings: Settings) -> int:
    """Erase expired records, those selected by retention rules, and old versions, and print their numbers (LIVE-7)."""
    # Opening it otherwise would sweep it first and leave nothing to count.
    with MemoryStore.from_settings(settings, store_path(settings), create=False, defer=True) as store:
        store.delete([])  # pending writes are sent to Chroma, even if nothing is erased
        report = store.maintenance.sweep()
    if args.json:
        print_json(asdict(report))
        return 0
    ruled = format_count(report.retained_no_longer, "record")
    expired, old = format_count(report.expired, "expired record"), format_count(report.versions, "version")
    Screen().line(f"Erased {expired}, {ruled} by retention rules, and {old}.")
    return 0


def forget(args: argparse.Namespace, settings: Settings) -> int:
    """Delete the records that filters, types and a rule name, or count them (LIVE-7)."""
    given, scope = given_fields(args, RetentionRule.model_fields), scope_from(args, settings)
    with open_store(settings, read_only=args.dry_run) as store:
        report = store.forget(
            scope,
            filters=filters_from(args.filter),
            rule=validate_model(RetentionRule, given) if given else None,
            content_types=args.content_types,
            dry_run=args.dry_run,
        )
        if not report.records:
            warn_of_empty_scope(store, scope)
    if args.json:
        print_json({"records": report.records, "by_kind": dict(report.by_kind), "dry_run": report.dry_run})
        return 0
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in report.by_kind.items())
    verb = "Would delete" if report.dry_run else "Deleted"
    Screen().line(f"{verb} {format_count(report.records, 'record')}{f' ({kinds})' if kinds else ''}.")
    return 0


def history(args: argparse.Namespace, settings: Settings) -> int:
    """Print the changes of a record, oldest first; return 1 if there is no such record (API-3)."""
    with open_as_it_is(settings) as store:
        found = bool(store.get([args.id], scope=Scope(tenant=settings.tenant)))
        versions = store.history(args.id, tenant=settings.tenant)
    if args.json:
        print_json({"versions": [version.model_dump(mode="json", exclude_none=True) for version in versions]})
        return 0 if found else 1
    screen = Screen()
    for version in versions:
        who = f" by {version.actor}" if version.actor else ""
        screen.line(f"{version.number}  {format_minute(version.changed_at)}  {version.action}{who}")
        screen.line(f"   - {truncate(version.before.text, _SHOWN)}")
        screen.line(f"   + {truncate(version.after.text, _SHOWN)}")
    if not versions:
        screen.line("No changes." if found else "There is no record with this id.")
    return 0 if found else 1
