"""Helpers of measurements: a clock around embedder and store, memory of processes, and the printing of figures.

The objects under the clock stay the real ones: each call is handed on and only timed, at about a microsecond.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isfunction
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.console import Console

from recall_loop.memory.store.embed.embedders import ConversationalEmbedder, Embedder, TokenEmbedder
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError
from recall_loop.state.records.records import Message

_FILLED_AT_ONCE = 1_000


@dataclass
class Stopwatch:
    """Adds up the time spent inside wrapped methods, by name; what a wrapped call calls counts once.

    Attributes:
        seconds: time inside, by name, of all threads together.
        calls: number of outermost calls, by name.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _thread: threading.local = field(default_factory=threading.local, repr=False)

    def reset(self) -> None:
        """Forget all figures."""
        with self._lock:
            self.seconds, self.calls = {}, {}

    @property
    def total(self) -> float:
        """Seconds inside, over all names."""
        return sum(self.seconds.values())

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, timed under `name`."""

        def wrapped(*args: Any, **options: Any) -> Any:
            with self._timing(name):
                return call(*args, **options)

        return wrapped

    @contextmanager
    def _timing(self, name: str) -> Iterator[None]:
        if getattr(self._thread, "inside", False):
            yield
            return
        self._thread.inside = True
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self._thread.inside = False
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.calls[name] = self.calls.get(name, 0) + 1


class _TimedEmbedder:
    """The attributes of an embedder; its methods are timed."""

    def __init__(self, inner: Embedder, clock: Stopwatch) -> None:
        for name in ("name", "dimension", "fingerprint", "token_dimension"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        for method in ("embed_documents", "embed_queries"):
            for name in (method, f"{method}_with_tokens"):
                if hasattr(inner, name):
                    setattr(self, name, clock.timed(method, getattr(inner, name)))
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = _TimedEmbedder(inner.conversational, clock)


def timed_embedder(inner: Embedder, clock: Stopwatch) -> Any:
    """Return `inner` with the clock around its methods; with token vectors if it gives any."""
    return _TimedEmbedder(inner, clock)


_AGAIN = re.compile(r" \(\d+\)$")


class RepeatingEmbedder:
    """An embedder that embeds a text once, however often it is stored again with a number in brackets behind it."""

    def __init__(self, inner: TokenEmbedder) -> None:
        self.name, self.dimension, self.fingerprint = inner.name, inner.dimension, inner.fingerprint
        self.token_dimension = inner.token_dimension
        self.embed_queries, self.embed_queries_with_tokens = inner.embed_queries, inner.embed_queries_with_tokens
        self._inner = inner
        self._known: dict[str, tuple[Any, Any]] = {}
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = RepeatingEmbedder(cast("TokenEmbedder", inner.conversational))

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Return unit vectors [n, d]."""
        return self.embed_documents_with_tokens(texts)[0]

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[Any, list[Any]]:
        """Return unit vectors [n, d], and token vectors [t, d] of each text."""
        plain = [_AGAIN.sub("", text) for text in texts]
        new = [text for text in dict.fromkeys(plain) if text not in self._known]
        self._known |= dict(zip(new, zip(*self._inner.embed_documents_with_tokens(new), strict=True), strict=True))
        return np.stack([self._known[text][0] for text in plain]), [self._known[text][1] for text in plain]


def fill(store: MemoryStore, tenant: str, texts: Sequence[str], number: int) -> None:
    """Write so many messages beside what a tenant has, in sessions of 20; used up, the texts come again, numbered."""
    for start in range(0, number, _FILLED_AT_ONCE):
        store.upsert(
            [
                Message(
                    id=f"filler-{at}",
                    text=f"{texts[at % len(texts)]} ({at // len(texts)})",
                    author=f"speaker {at % 2}",
                    session=f"filler-{at // 20}",
                    position=at % 20,
                )
                for at in range(start, min(start + _FILLED_AT_ONCE, number))
            ],
            tenant=tenant,
        )


def instrument(store: MemoryStore, clock: Stopwatch) -> None:
    """Put the clock around the store's reads, and around the methods of every view opened from now on."""

    def timed_view(view: View) -> View:
        snapshot = clock.timed("snapshot_view", view.snapshot_view)
        _time_methods(view, clock, [name for name in vars(View) if not name.startswith("_")])
        setattr(view, "snapshot_view", lambda *others: timed_view(snapshot(*others)))  # noqa: B010
        return view

    open_view = clock.timed("view", store.view)
    setattr(store, "view", lambda *given, **options: timed_view(open_view(*given, **options)))  # noqa: B010
    _time_methods(store, clock, ["get", "count"])


def _time_methods(target: Any, clock: Stopwatch, names: Sequence[str]) -> None:
    for name in names:
        if isfunction(getattr(type(target), name)):
            setattr(target, name, clock.timed(name, getattr(target, name)))


def own_schema(postgres: str) -> str:
    """Return the address of a schema of this run's own in a database of PostgreSQL."""
    return f"{postgres}{'&' if '?' in postgres else '?'}schema=bench_{uuid.uuid4().hex[:12]}"


def machine() -> str:
    """Return what figures depend on, in words."""
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def resident_mb(pid: int | str = "self") -> float:
    """Return the resident memory of a process in MB, Linux only."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def print_report(
    arguments: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    show: Callable[[dict[str, Any], Console], None],
) -> None:
    """Measure, and print the figures as a table, or as JSON with `--json`."""
    try:
        figures = measure(arguments)
    except RecallError as error:
        raise SystemExit(str(error)) from error
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures, Console())
