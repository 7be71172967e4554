"""Garbage collection in a process of our own: a worker of the service or of a batch."""

from __future__ import annotations

import gc


def freeze_heap() -> None:
    """Exclude all existing objects, mainly modules, from Python's garbage collection.

    A full collection would go through all of it every hundred retrievals or so, while the whole process waits: for a
    tenth of a second on a slow machine. Only for a process of our own that holds nothing else.
    """
    gc.collect()
    gc.freeze()
