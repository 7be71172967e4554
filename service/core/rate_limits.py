"""Limits of each key: its rate, over all workers of the service, and its share of the places of one."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SLOTS = 16_384
_SLOT = struct.Struct("=Qd")
_PROBES = 64


class PlaceLimiter:
    """Places for requests that are answered or wait for their turn, shared among keys (GUARD-4).

    A key may hold as many places as it leaves free: one key at most half of them, and each of n greedy keys about one
    of n + 1 parts, so that a key that holds none finds one.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._held: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """Places that are held."""
        return self._held.total()

    @contextmanager
    def hold(self, key: str, *, shared: bool) -> Iterator[bool]:
        """Give whether the key has a place until the block ends; where places aren't `shared` it may have them all."""
        free = self._places - self.taken
        if free <= 0 or (shared and self._held[key] >= free):
            yield False
            return
        self._held[key] += 1
        try:
            yield True
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


class RateLimiter:
    """A leaky bucket per key (GCRA): one number, the time at which the bucket would be empty.

    With several workers, the counts are in shared memory, so that the limit applies to the whole service. A key
    takes one of 16,384 slots; should the table be full of others, they share. `burst` requests may come at once
    before the rate counts.
    """

    def __init__(self, per_minute: int, burst: int, shared: Path | None = None) -> None:
        self._interval = 60.0 / per_minute
        self._tolerance = self._interval * max(0, burst - 1)
        self._file: int | None = None
        size = _SLOTS * _SLOT.size
        if shared is None:
            self._table = mmap.mmap(-1, size)
        else:
            self._file = os.open(shared, os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(self._file, size)
            self._table = mmap.mmap(self._file, size)

    def take(self, key: str, now: float | None = None) -> float:
        """Count a request; return 0, or in how many seconds the next one is allowed, where this one isn't."""
        moment = time.monotonic() if now is None else now  # system-wide, and so the same in all workers
        digest = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") | 1
        with self._locked():
            at = self._slot(digest)
            _, empty_at = _SLOT.unpack_from(self._table, at)
            begin = max(empty_at, moment)
            wait: float = begin - self._tolerance - moment
            if wait > 0:
                return wait
            _SLOT.pack_into(self._table, at, digest, begin + self._interval)
            return 0.0

    def _slot(self, digest: int) -> int:
        first = digest % _SLOTS
        for step in range(_PROBES):
            at = (first + step) % _SLOTS * _SLOT.size
            if _SLOT.unpack_from(self._table, at)[0] in (0, digest):
                return at
        return first * _SLOT.size

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the memory back."""
        self._table.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None
