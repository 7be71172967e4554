"""An actor of a Ray cluster that answers requests of a batch; runs on any machine of it."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from recall_loop.graph.batch.batch_answer import run_request
from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError, WorkerError

_ANSWER_SECONDS = 10


class RayWorker:
    """Opens the store when it is made, and says in `ready` what went wrong."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._settings = setup["settings"]
        self._store: MemoryStore | None = None
        self._why: str | None = None
        try:
            self._open(setup)
        except (RecallError, OSError) as error:
            self._why = f"{platform.node()}: the store can't be read there: {error}"

    def ready(self) -> str | None:
        """Return why this actor can't work; None where it can."""
        return self._why

    def answer(self, request: BatchRequest) -> ResultLine:
        """Run one request.

        Raises:
            WorkerError: the store couldn't be opened.
        """
        if self._store is None:
            raise WorkerError(self._why or "the store isn't open")
        return run_request(request, self._store, self._settings)

    def _open(self, setup: dict[str, Any]) -> None:
        own = version("recall-loop")
        if own != setup["version"]:
            raise WorkerError(f"recall-loop {own} is installed there, and {setup['version']} asks")
        _check_chroma(setup["url"])
        store = MemoryStore.from_settings(self._settings, setup["path"], create=False, read_only=True)
        if store.generation != setup["generation"]:
            store.close()
            raise WorkerError(f"{setup['path']} is of another generation there: copy or share the folder again")
        self._store = store


def _check_chroma(url: str) -> None:
    """Look whether the Chroma server answers on this machine; a search would only be slower without it."""
    try:
        urlopen(f"{url}/api/v2/heartbeat", timeout=_ANSWER_SECONDS).close()
    except HTTPError as reply:  # whatever it says, somebody is there
        reply.close()
    except OSError as error:
        raise WorkerError(f"no Chroma server at {url}, seen from there: {error}") from error
