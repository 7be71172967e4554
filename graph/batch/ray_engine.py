"""The batch engine for more than one machine: actors of a Ray cluster (OPS-2).

Each actor opens the store for reading, on its own machine: a folder beside a Chroma server, or an address. An actor
that ends is replaced, and its requests are run again. Nothing of Ray is imported before a batch asks for it.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from recall_loop.graph.batch.batch_engines import multiprocess_blocker
from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine, RunOptions, run_request
from recall_loop.graph.batch.batch_rounds import WorkerDied
from recall_loop.memory.store.files.store_place import shown_place
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, RecallError, WorkerError

_ANSWER_SECONDS = 10


class RayWorker:
    """Opens the store when it is made, and says in `ready` what went wrong."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._options: RunOptions = setup["options"]
        self._store: MemoryStore | None = None
        self._why: str | None = None
        try:
            self._open(setup)
        except (RecallError, OSError) as error:
            self._why = f"{platform.node()}: the store can't be read there: {error}"

    def ready(self) -> str | None:
        """Return why this actor can't work; None if it can."""
        return self._why

    def answer(self, request: BatchRequest) -> ResultLine:
        """Run one request; raise `WorkerError` where the store couldn't be opened."""
        if self._store is None:
            raise WorkerError(self._why or "the store isn't open")
        return run_request(request, self._store, self._options)

    def _open(self, setup: dict[str, Any]) -> None:
        own = version("recall-loop")
        if own != setup["version"]:
            raise WorkerError(f"recall-loop {own} is installed there, but {setup['version']} here")
        if setup["url"] is not None:
            _check_chroma(setup["url"])
        location, settings = setup["location"], self._options.settings
        read_only = not settings.capture_runs
        store = MemoryStore.from_settings(settings, location, create=False, read_only=read_only)
        if store.generation != setup["generation"]:
            store.close()
            raise WorkerError(f"{shown_place(location)} has another generation there: copy or share the folder again")
        self._store = store


def _check_chroma(url: str) -> None:
    """Look whether the Chroma server answers on this machine; a search would only be slower without it."""
    try:
        urlopen(f"{url}/api/v2/heartbeat", timeout=_ANSWER_SECONDS).close()
    except HTTPError as reply:  # the server is there, whatever it answers
        reply.close()
    except OSError as error:
        raise WorkerError(f"no Chroma server at {url}, seen from there: {error}") from error


MAX_ACTORS = 1024
DEFAULT_ACTORS = 2
_STARTUP_SECONDS = 180.0
_CONNECT_SECONDS = 5.0
_OBJECT_STORE_BYTES = 200_000_000
# If more actors than this end without an answer, they are no longer replaced.
_MAX_ACTOR_DEATHS = 3


@dataclass(frozen=True, slots=True)
class RayCluster:
    """Where the actors run.

    Attributes:
        address: `host:port` of a cluster's head, or `auto` for the one of this machine; None = begin one here, which
            listens on the loopback address only and ends with the batch.
        actors: how many, 1 to 1,024; each takes one processor and some 300 MB.

    Raises:
        InvalidInputError: a value is not allowed.
    """

    address: str | None = None
    actors: int = DEFAULT_ACTORS

    def __post_init__(self) -> None:
        """Check both."""
        if not 1 <= self.actors <= MAX_ACTORS:
            raise InvalidInputError("actors", self.actors, f"an integer from 1 to {MAX_ACTORS:,}")
        if self.address is not None and ("://" in self.address or not self.address.strip()):
            raise InvalidInputError(
                "address", self.address, "host:port of a cluster's head, from a machine of it; or auto"
            )


def ray_blocker(store: MemoryStore, options: RunOptions) -> str | None:
    """Return why a cluster can't share the work on this store; None if it can."""
    why = multiprocess_blocker(store, options)
    if why is None and store.path is not None and not store.maintenance.url:
        why = f"the store keeps its vectors in its own folder; `store rebuild --store {store.path} --url URL --move`"
        why += " brings them to a Chroma server"
    return why


class RayEngine:
    """Runs requests in actors, `concurrency` at a time in each.

    Raises `InvalidInputError` where Ray isn't installed, and `WorkerError` where the cluster can't be reached, has no
    room, or a machine of it can't read the store.
    """

    def __init__(self, store: MemoryStore, options: RunOptions, concurrency: int, cluster: RayCluster) -> None:
        self.slots = cluster.actors * concurrency
        self._cluster, self._deaths = cluster, 0
        self._ray = _import_ray()
        setup = {
            "location": store.path.resolve() if store.path else store.location,
            "options": options,
            "generation": store.generation,
            "url": store.maintenance.url,
            "version": version("recall-loop"),
        }
        self._own = self._begin_cluster()
        self._setup = self._ray.put(setup)
        kind = self._ray.remote(RayWorker)
        self._kind = kind.options(num_cpus=1, max_restarts=0, max_concurrency=max(2, concurrency))
        self._actors: list[_ActorHandle] = []
        try:
            self._actors = [self._new() for _ in range(cluster.actors)]
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Begin a request in the actor that has least to do."""
        at = min(range(len(self._actors)), key=lambda place: self._actors[place].busy)
        if self._actors[at].dead:
            self._deaths = 1 if self._actors[at].answered else self._deaths + 1
            if self._deaths > _MAX_ACTOR_DEATHS:
                raise WorkerError("actors of the cluster exit without an answer, one after another")
            self._actors[at] = self._new()
        return self._actors[at].submit(request)

    def close(self) -> None:
        """Stop the actors, and the cluster if it is our own."""
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors = []
        if self._own:
            self._ray.shutdown()

    def _new(self) -> _ActorHandle:
        return _ActorHandle(self._kind.remote(self._setup))

    def _begin_cluster(self) -> bool:
        """Connect to a cluster or begin one; return whether it is ours to end."""
        if self._ray.is_initialized():
            return False
        common = {"configure_logging": False, "log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self._cluster.address is not None:
                _check_listening(self._cluster.address)
                self._ray.init(address=self._cluster.address, **common)
            else:
                room = {"num_cpus": self._cluster.actors, "object_store_memory": _OBJECT_STORE_BYTES}
                self._ray.init(address="local", include_dashboard=False, **room, **common)
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            raise WorkerError(f"no Ray cluster at {self._cluster.address or 'this machine'}: {error}") from error
        return True

    def _wait_until_ready(self) -> None:
        pending = [actor.handle.ready.remote() for actor in self._actors]
        ready, late = self._ray.wait(pending, num_returns=len(pending), timeout=_STARTUP_SECONDS)
        if late:
            processors = self._ray.cluster_resources().get("CPU", 0)
            raise WorkerError(
                f"{len(ready)} of {len(pending)} actors started within {_STARTUP_SECONDS:g} s; each takes a processor, "
                f"and the cluster has {processors:g}"
            )
        try:
            blockers = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"an actor can't start; is recall-loop installed on every machine? {error}") from error
        for why in filter(None, blockers):
            raise WorkerError(why)


class _ActorHandle:
    """One actor, and how many requests it has."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.busy = self.answered = 0
        self.dead = False

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Hand a request to the actor."""
        from ray.exceptions import RayError, RayTaskError

        given: Future[ResultLine] = Future()
        self.busy += 1

        def take(done: Future[ResultLine]) -> None:
            self.busy -= 1
            try:
                line = done.result()
            except RayTaskError as error:  # raised by `RayWorker.answer` itself
                given.set_exception(WorkerError(str(error.cause)))
            except RayError:
                self.dead, self.busy = True, 0
                given.set_exception(WorkerDied())
            else:
                self.answered += 1
                given.set_result(line)

        self.handle.answer.remote(request).future().add_done_callback(take)
        return given


def _check_listening(address: str) -> None:
    """Raise `OSError` or `ValueError` where nobody listens at an address: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def _import_ray() -> Any:
    """Import Ray without its reports, and its own cluster on the loopback address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # If off, Ray's own cluster takes the loopback address for its machine's; read when Ray is imported.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise InvalidInputError("engine", "ray", "local; ray needs: pip install 'recall-loop[ray]'") from error
    return ray
