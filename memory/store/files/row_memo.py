"""Values of rows that were read last, within a bound of memory, while others may write these rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from recall_loop.memory.store.files.process_lock import ProcessLock

_T = TypeVar("_T")
_ENTRY_BYTES = 200


class RowMemo(Generic[_T]):
    """A thread-safe cache of row contents, by rowid.

    It is emptied when it is full: whoever asks for more rows than fit reads them again, and nothing is lost but time.

    Args:
        size: bytes of a value, besides what an entry takes.
        most: bytes of all entries.
    """

    def __init__(self, size: Callable[[_T], int], most: int) -> None:
        self._size, self._most = size, most
        self._values: dict[int, _T] = {}
        self._lock = ProcessLock()
        self._changes = 0
        self.nbytes = 0

    def read(self, rowids: Iterable[int], load: Callable[[list[int]], Mapping[int, _T]]) -> dict[int, _T]:
        """Return values by rowid, of which `load` gives those that aren't here; it may leave rows out."""
        wanted = list(rowids)
        with self._lock:
            changes, values = self._changes, self._values
            found = {rowid: values[rowid] for rowid in wanted if rowid in values}
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
                self._clear()
                return
            for rowid in rowids:
                gone = self._values.pop(rowid, None)
                self.nbytes -= 0 if gone is None else self._bytes(gone)

    def _keep(self, loaded: Mapping[int, _T]) -> None:
        new = {rowid: value for rowid, value in loaded.items() if rowid not in self._values}
        more = sum(map(self._bytes, new.values()))
        if self.nbytes + more > self._most:
            self._clear()
        if more <= self._most:
            self._values |= new
            self.nbytes += more

    def _bytes(self, value: _T) -> int:
        return self._size(value) + _ENTRY_BYTES

    def _clear(self) -> None:
        self._values, self.nbytes = {}, 0
