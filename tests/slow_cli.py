"""`recall-loop` that takes a while over each write and each embedding: there is time to end it in the middle."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from recall_loop.cli.main import main
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore

PAUSE_SECONDS = 0.1


def with_pause(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work`, after a pause."""

    def after_a_pause(*given: Any, **options: Any) -> Any:
        time.sleep(PAUSE_SECONDS)
        return work(*given, **options)

    return after_a_pause


MiniLmEmbedder._embedded = with_pause(MiniLmEmbedder._embedded)
MemoryStore.upsert = with_pause(MemoryStore.upsert)

if __name__ == "__main__":  # workers of a batch import it under another name
    # Whoever runs the tests in the background of a shell has it ignored, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
