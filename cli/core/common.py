"""Shared by all verbs: settings, stores, exit codes, reports of bad lines."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from recall_loop.cli.core.filter_pairs import read_filters
from recall_loop.cli.core.screen import sanitize
from recall_loop.cli.core.shared_options import given_fields
from recall_loop.memory.store.files.store_files import atomic_file
from recall_loop.memory.store.files.store_place import ALLOWED_PLACES, checked_place
from recall_loop.state.display import format_count
from recall_loop.state.errors import NOTHING, InvalidInputError, RejectedRecordsError, display_value, validate_model
from recall_loop.state.schemas.schema_words import nearest_name
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.settings.settings import ENV_PREFIX, Settings
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.records.records import Record


_Model = TypeVar("_Model", bound=BaseModel)
_log = logging.getLogger(__name__)


def read_settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the environment, overridden by the options whose `dest` is the name of a setting."""
    given = given_fields(args, Settings.model_fields)
    settings = Settings(**given)
    if "llm_base_url" in given and settings.llm_model is None:
        raise InvalidInputError("--base-url", given["llm_base_url"], "a URL together with --model")
    return settings


def named_by_option(
    error: InvalidInputError, args: argparse.Namespace, argv: Sequence[str]
) -> InvalidInputError | None:
    """Return the error with the option that gave its value in place of the field; None where none did.

    Whoever typed `--types` knows no `content_types`, nor `content_types.0`. A field that is missing has the name of the
    option that would give it.
    """
    if isinstance(error, RejectedRecordsError):  # it has reasons of its own for each record
        return None
    for action in args.parser.options():
        given = getattr(args, action.dest, None)
        values = [given, *given] if isinstance(given, list | tuple) else [NOTHING if given is None else given]
        if action.dest in error.field.split(".") and error.value in map(display_value, values):
            names = action.option_strings
            typed = [one for one in names if given is None or any(word.split("=")[0] == one for word in argv)]
            return error.renamed(typed[0]) if typed else None
    return None


def warn_of_unknown_variables() -> None:
    """Log the variables that begin as those of settings do and are none: a misspelt one changes nothing."""
    given = sorted(name for name in os.environ if name.startswith(ENV_PREFIX))
    known = {name.upper() for name in Settings.model_fields}
    if any(name.startswith(f"{ENV_PREFIX}SERVICE_") for name in given):
        from recall_loop.service.core.config import SERVICE_ENV_PREFIX, ServiceConfig

        service = SERVICE_ENV_PREFIX.removeprefix(ENV_PREFIX)
        known |= {f"{service}{name.upper()}" for name in ServiceConfig.model_fields}
    for name in given:
        own = name.removeprefix(ENV_PREFIX)  # the common prefix would make any two names similar
        if own not in known:
            near = nearest_name(own, known)
            _log.warning("%s is not a setting%s", name, f"; {ENV_PREFIX}{near} is one" if near else "")


def scope_from(args: argparse.Namespace, settings: Settings) -> Scope:
    """Return the part of memory that the options name; without any, all of the tenant's."""
    fields = given_fields(args, ("agent_id", "user_id", "conversation_id"))
    if getattr(args, "scope", None) is not None:
        fields["mode"] = args.scope
    return validate_model(Scope, {"tenant": settings.tenant, **fields}, "scope")


def model_from(args: argparse.Namespace, model: type[_Model], **fields: Any) -> _Model:
    """Return a request model from the options whose `dest` is the name of a field or of a filter, and from `fields`."""
    names = Filters.model_fields.keys() - Scope.model_fields.keys() - model.model_fields.keys()
    given = given_fields(args, model.model_fields)
    if filters := read_filters(args.filter, given_fields(args, names)):
        given["filters"] = filters
    return validate_model(model, given | fields)


def store_path(settings: Settings) -> str | Path:
    """Return the store's folder, or its address; raise `InvalidInputError` where nothing names one."""
    if not settings.store_path:
        raise InvalidInputError("--store", NOTHING, f"{ALLOWED_PLACES}; or set RECALL_LOOP_STORE_PATH")
    return checked_place(settings.store_path, "--store")


def open_store(settings: Settings, *, create: bool = False, read_only: bool = False) -> MemoryStore:
    """Open the store with the embedder that the settings name; raises as `store_path`, and `StoreError`."""
    from recall_loop.memory.store.store import MemoryStore  # loaded only when a command needs it

    return MemoryStore.from_settings(settings, store_path(settings), create=create, read_only=read_only)


def open_as_it_is(settings: Settings) -> MemoryStore:
    """Open the store for reading its records, whatever embedder made it; raises as `open_store`."""
    from recall_loop.memory.store.embed.embedders import UnneededEmbedder
    from recall_loop.memory.store.store import MemoryStore

    return MemoryStore.from_settings(settings, store_path(settings), embedder=UnneededEmbedder(), read_only=True)


def warn_of_empty_scope(store: MemoryStore, scope: Scope, filters: Filters | None = None) -> None:
    """Say on standard error that a scope has no record, if so: nothing found is what a mistyped name finds, too."""
    if not store.count(scope, filters or Filters(include_superseded=True)):
        narrowed = " in this scope" if scope != Scope(tenant=scope.tenant) else ""
        narrowed += " that passes the filters" if filters else ""
        rest = narrowed or "; `recall-loop store tenants` lists those that have"
        sys.stderr.write(f"recall-loop: warning: tenant {display_value(scope.tenant)} has no record{rest}\n")


def check_readable(paths: Iterable[Path]) -> None:
    """Raise `OSError` where a file can't be read, before anything is written; opening a pipe would use it up."""
    for path in paths:
        if not path.exists() or path.is_file() or path.is_dir():
            path.open("rb").close()


@contextmanager
def strict_input() -> Iterator[None]:
    """Within the block, read standard input as text, whatever the locale; other bytes raise `InvalidInputError`."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "strict":
        sys.stdin.reconfigure(errors="strict")  # else some locales replace bytes by lone surrogates
    with _undecodable_named():
        yield


def strict_lines() -> Iterator[str]:
    """Yield the lines of standard input; one with other bytes raises as `strict_input`, after those before it."""
    if not isinstance(sys.stdin, io.TextIOWrapper):
        yield from sys.stdin
        return
    # Strict reading decodes ahead, and would fail before the lines that came first.
    sys.stdin.reconfigure(errors="surrogateescape")
    for line in sys.stdin:
        with _undecodable_named():
            line.encode(sys.stdin.encoding, "surrogateescape").decode(sys.stdin.encoding)
        yield line


@contextmanager
def _undecodable_named() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        allowed = f"text in {error.encoding.upper()}"
        raise InvalidInputError("stdin", error.object[error.start : error.end], allowed) from error


def argument_text(text: str) -> str:
    """Return the text of an argument; for `-` standard input (`strict_input`), without the line end of `echo`."""
    if text != "-":
        return text
    with strict_input():
        return sys.stdin.read().rstrip("\r\n")


@contextmanager
def atomic_output(path: Path | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that appears under its name only when it is whole; one that exists is refused."""
    if path is None:
        yield sys.stdout
        return
    if path.exists():
        raise InvalidInputError("--output", str(path), "a file that doesn't exist yet")
    with atomic_file(path) as file:
        yield file


_SHOWN_PROBLEMS = 20


class ProblemReport:
    """Writes the first 20 problems, one a line, and counts all of them."""

    def __init__(self, noun: str = "problem") -> None:
        self.count = 0
        self._noun = noun

    def add(self, where: str, verdict: str, reason: str) -> None:
        """Write "WHERE: VERDICT: REASON", such as "notes.jsonl:3: rejected: text: …"."""
        self.count += 1
        if self.count <= _SHOWN_PROBLEMS:
            sys.stderr.write(f"{sanitize(where)}: {verdict}: {sanitize(reason)}\n")

    def close(self) -> None:
        """Write how many problems weren't shown."""
        if self.count > _SHOWN_PROBLEMS:
            sys.stderr.write(f"… and {format_count(self.count - _SHOWN_PROBLEMS, f'more {self._noun}')}\n")


def trajectory_of(store: MemoryStore, run_id: str, tenant: str) -> Record:
    """Return a stored run; raise `InvalidInputError` where the tenant has no such run."""
    records = store.get([run_id], scope=Scope(tenant=tenant))
    if not records or records[0].kind is not ContentType.TRAJECTORY:
        raise InvalidInputError("ID", run_id, f"id of a trajectory of tenant {tenant!r}")
    return records[0]
