"""Background work continues whatever fails, and the failures are logged (OPS-1)."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from recall_loop.service.core.deadline import repeat
from recall_loop.state.errors import StoreUnavailableError


def test_failing_work_is_repeated_and_logged_once(caplog):
    """Proves: OPS-1."""
    caplog.set_level(logging.WARNING, "recall_loop")
    outcomes = [StoreUnavailableError("the disk is full"), KeyError("x"), KeyError("a word"), None]
    done = []

    async def run() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            done.append(len(done))
            if len(done) > len(outcomes):
                loop.call_soon_threadsafe(ended.set)
            elif outcome := outcomes[len(done) - 1]:
                raise outcome

        with ThreadPoolExecutor(1) as pool:
            task = asyncio.create_task(repeat(work, 0.001, pool, "the sweep"))
            await asyncio.wait_for(ended.wait(), 30)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(run())
    said = [record.getMessage() for record in caplog.records]
    tried = "the sweep failed and is retried every 0.001 s: "
    assert said == [f"{tried}the disk is full", f"{tried}KeyError", "the sweep works again"]
