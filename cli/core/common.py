"""What the verbs share: settings, the store's options, and the checks of their values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from recall_loop.memory.intake.files.batch_size import BATCH_SIZE, MAX_BATCH_SIZE

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Add `--store` and `--url`."""
    parser.add_argument(
        "--store",
        metavar="PATH",
        help="folder of the memory store (default: $RECALL_LOOP_STORE_PATH)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="Chroma server that holds the vectors; a store remembers its own (default: $RECALL_LOOP_CHROMA_URL)",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add `--model`, `--base-url` and `--answer`."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="chat model that plans, judges and answers (default: $RECALL_LOOP_LLM_MODEL, else none)",
    )
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="OpenAI-compatible chat API (default: $RECALL_LOOP_LLM_BASE_URL, else OpenAI's); "
        "its key is $RECALL_LOOP_LLM_API_KEY",
    )
    parser.add_argument(
        "--answer",
        action=argparse.BooleanOptionalAction,
        help="write an answer with citations (default: where a chat model is set)",
    )


def add_tenant_option(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add `--tenant`."""
    default = "" if required else " (default: $RECALL_LOOP_TENANT, else `default`)"
    parser.add_argument(
        "--tenant", metavar="T", required=required, help=f"whose memory; nothing crosses tenants{default}"
    )


def read_settings(args: argparse.Namespace | None = None) -> Settings:
    """Return the settings of the environment, with the verb's own options over them.

    Raises:
        InvalidInputError: a variable's value is not allowed.
    """
    from recall_loop.state.errors import InvalidInputError
    from recall_loop.state.settings.settings import Settings

    options = {"chroma_url": "url", "llm_model": "model", "llm_base_url": "base_url", "write_answer": "answer"}
    options |= {"log_format": "log_format", "log_level": "log_level"}
    given = {name: getattr(args, option, None) for name, option in options.items()}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    if given["llm_base_url"] is not None and settings.llm_model is None:
        raise InvalidInputError("--base-url", given["llm_base_url"], "a URL together with --model")
    return settings


def store_path(given: str | None, settings: Settings) -> Path:
    """Return the store's folder, from the option or the environment.

    Raises:
        InvalidInputError: neither names one.
    """
    from recall_loop.state.errors import InvalidInputError

    path = given or settings.store_path
    if not path:
        raise InvalidInputError("--store", given, "a folder; or set RECALL_LOOP_STORE_PATH")
    return Path(path)


def open_store(given: str | None, settings: Settings, *, create: bool, read_only: bool) -> MemoryStore:
    """Open the store with the embedder that the settings name.

    Raises:
        InvalidInputError: no path was given.
        StoreError: it can't be opened so.
    """
    from recall_loop.memory.store.chroma.chroma_server import server_from_settings
    from recall_loop.memory.store.embed.embedder_factory import make_embedder
    from recall_loop.memory.store.store import MemoryStore

    path, embedder, url = store_path(given, settings), make_embedder(settings), server_from_settings(settings)
    return MemoryStore.open(path, embedder=embedder, create=create, read_only=read_only, url=url)


def add_batch_size_option(parser: argparse.ArgumentParser, items: str) -> None:
    """Add `--batch-size`, a number of `items` such as lines."""
    parser.add_argument(
        "--batch-size",
        type=bounded_int(1, MAX_BATCH_SIZE),
        default=BATCH_SIZE,
        metavar="N",
        help=f"{items} written and acknowledged at a time, 1 to {MAX_BATCH_SIZE} (default: %(default)s)",
    )


def bounded_int(low: int, high: int) -> type[int]:
    """Return an argparse type: an integer from `low` to `high`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"got {text!r}; allowed: an integer from {low} to {high}")
        return value

    return parse  # type: ignore[return-value]  # argparse takes any callable of one string


def bounded_seconds(high: float) -> type[float]:
    """Return an argparse type: seconds, more than 0 and at most `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= high:
            raise argparse.ArgumentTypeError(f"got {text!r}; allowed: seconds, more than 0 and at most {high:,.0f}")
        return value

    return parse  # type: ignore[return-value]  # argparse takes any callable of one string


@contextmanager
def atomic_output(path: Path | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that appears under its name only when it is whole.

    Raises:
        InvalidInputError: the file exists.
    """
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
