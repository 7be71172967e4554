"""Work that the service repeats in the background for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from recall_loop.service.core.deadline import RequestExecutor
from recall_loop.state.errors import RecallError

_MAX_SECONDS = 3600.0
_log = logging.getLogger(__name__)


async def repeat(work: Callable[[], object], seconds: float, pool: Executor, name: str) -> None:
    """Run `work` every `seconds` in a thread of `pool` until cancelled, whatever it raises.

    The log has the first failure of each kind, and the end of failures.
    """
    failing = ""
    while True:
        await asyncio.sleep(seconds)
        try:
            await RequestExecutor(pool, _MAX_SECONDS).run(work)
        except Exception as error:  # noqa: BLE001  # logged below, and retried
            kind, expected = type(error).__name__, isinstance(error, RecallError)
            if kind != failing:
                words = "%s failed and is retried every %g s: %s"
                _log.warning(words, name, seconds, error if expected else kind, exc_info=None if expected else error)
            failing = kind
        else:
            if failing:
                _log.warning("%s works again", name)
            failing = ""
