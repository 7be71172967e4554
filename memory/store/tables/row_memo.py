"""Values of rows that were read last, within a bound of memory, while others may write these rows.

Among them what late interaction reads: token vectors, and the neighbours of rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from recall_loop.memory.store.embed.token_vectors import PackedTokens
from recall_loop.memory.store.files.locks import ProcessLock

_T = TypeVar("_T")
_ENTRY_BYTES = 200
_TOKEN_BYTES, _LINK_BYTES = 32 * 1024 * 1024, 4 * 1024 * 1024


class RowMemo(Generic[_T]):
    """A thread-safe cache of row contents, by rowid.

    When it is full, those that were read longest ago go: whoever asks for more rows than fit reads them again.

    Args:
        size: bytes of a value, besides what an entry takes.
        most: bytes of all entries.
    """

    def __init__(self, size: Callable[[_T], int], most: int) -> None:
        self._size, self._most = size, most
        self._values: OrderedDict[int, _T] = OrderedDict()  # of which the first is found at once
        self._lock = ProcessLock()
        self._changes = 0
        self.nbytes = 0

    def read(self, rowids: Iterable[int], load: Callable[[list[int]], Mapping[int, _T]]) -> dict[int, _T]:
        """Return values by rowid, of which `load` gives those that aren't here; it may leave rows out."""
        wanted = list(rowids)
        with self._lock:
            changes, values = self._changes, self._values
            found = {rowid: values[rowid] for rowid in wanted if rowid in values}
            for rowid in found:
                values.move_to_end(rowid)
        missing = [rowid for rowid in wanted if rowid not in found]
        if missing:
            loaded = load(missing)
            found |= loaded
            with self._lock:
                if changes == self._changes:  # otherwise, the loaded row may be older than the change
                    self._keep(loaded)
        return found

    def forget(self, rowids: Iterable[int] | None = None) -> None:
        """Forget rows that changed; None = all."""
        with self._lock:
            self._changes += 1
            if rowids is None:
                self._values.clear()
                self.nbytes = 0
            for rowid in rowids or ():
                self._drop(rowid)

    def _keep(self, loaded: Mapping[int, _T]) -> None:
        for rowid, value in loaded.items():
            size = self._bytes(value)
            if rowid in self._values or size > self._most:
                continue
            while self.nbytes + size > self._most:
                self._drop(next(iter(self._values)))
            self._values[rowid] = value
            self.nbytes += size

    def _drop(self, rowid: int) -> None:
        gone = self._values.pop(rowid, None)
        self.nbytes -= 0 if gone is None else self._bytes(gone)

    def _bytes(self, value: _T) -> int:
        return self._size(value) + _ENTRY_BYTES


@dataclass(frozen=True)
class KnownTokens:
    """Of one tenant and embedder: token vectors that were read last, up to 32 MiB, and which rows stand beside rows.

    Attributes:
        tokens: by rowid.
        links: by rowid the row before and the row after it in its thread, (None, None) for a row without any.
    """

    tokens: RowMemo[PackedTokens] = field(
        default_factory=lambda: RowMemo(lambda tokens: tokens.values.nbytes, _TOKEN_BYTES)
    )
    links: RowMemo[tuple[int | None, int | None]] = field(default_factory=lambda: RowMemo(lambda _: 0, _LINK_BYTES))

    @property
    def nbytes(self) -> int:
        """A rough number of bytes."""
        return self.tokens.nbytes + self.links.nbytes

    def forget(self, rowids: Iterable[int] | None = None) -> None:
        """Forget rows that changed, None = all, and what stands beside any row: others may have got new neighbours."""
        self.tokens.forget(rowids)
        self.links.forget()
