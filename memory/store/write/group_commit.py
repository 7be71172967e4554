"""Writes that wait at the same time go together: one transaction, one run of the embedder, one delivery (STORE-4).

A delivery to Chroma takes much the same time for one record as for a hundred. While one is under way others come to
wait, so that many writers at once are served at that pace, and a single one waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from recall_loop.memory.store.sqlite.prepared_records import Draft, Status

# So many records go together at most; a single caller's go together whatever their number.
_MOST_RECORDS = 1000


@dataclass(slots=True, eq=False)
class Waiting:
    """The records of one call, and what became of them: a status for each draft, or the error of the call."""

    drafts: Sequence[Draft]
    statuses: list[Status] | None = None
    error: Exception | None = None

    @property
    def settled(self) -> bool:
        """Whether its caller can be answered."""
        return self.statuses is not None or self.error is not None


class Together:
    """Lets calls wait for their turn at a lock; whoever gets it first writes for all that wait then, in their order.

    Args:
        lock: held while anything is written.
        write: writes the drafts of some calls, and settles each of them.
    """

    def __init__(self, lock: threading.RLock, write: Callable[[Sequence[Waiting]], None]) -> None:
        self._lock, self._write = lock, write
        self._queue: list[Waiting] = []
        self._alone = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold off what other threads write; this thread writes nothing but its own meanwhile."""
        with self._lock:
            self._alone += 1
            try:
                yield
            finally:
                self._alone -= 1

    def write(self, drafts: Sequence[Draft]) -> list[Status]:
        """Write the drafts of one call, return what became of each.

        Raises:
            Exception: what went wrong with this call, as `write` noted it; other calls don't hear of it.
        """
        mine = Waiting(drafts)
        self._queue.append(mine)
        try:
            with self._lock:
                while not mine.settled:
                    self._write(self._group(mine))
        finally:  # each call takes itself out, so that none is forgotten if another's thread is interrupted
            self._queue.remove(mine)
        if mine.error is not None:
            raise mine.error
        return mine.statuses or []

    def _group(self, mine: Waiting) -> list[Waiting]:
        """Return whose turn it is: the first that wait, in their order; only `mine` while this thread is alone."""
        if self._alone:
            return [mine]
        group, room = list[Waiting](), _MOST_RECORDS
        for one in list(self._queue):
            if one.settled:
                continue
            room -= len(one.drafts)
            if group and room < 0:
                break
            group.append(one)
        return group
