"""Clients of Chroma, for servers and for folders."""

from __future__ import annotations

import itertools
import os
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from recall_loop.memory.store.chroma.chroma_server import PORTS, ChromaLocation, ChromaServer

# The clients that each process inherited when it was forked; none in the first process.
_clients_left: dict[int, dict[str, Any]] = {os.getpid(): {}}
# Numbers that are unique across threads, and the minimum number of names of a folder.
_NUMBERS = itertools.count()
_NAMES = 8
# Clients of folders that were garbage collected, closed or not: their process, name and open files.
_collected: list[tuple[int, str, Any]] = []
# Chroma's HTTP client has no timeout of its own.
_ANSWER_SECONDS, _SEARCH_SECONDS, _REQUEST_SECONDS = 5, 10, 60


def open_client(location: ChromaLocation) -> Any:
    """Return a client of Chroma; its errors are raised as they are."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient

    _drop_inherited_clients(SharedSystemClient)
    settings = _read_settings().model_copy()  # which the client changes
    if location is None:
        return chromadb.EphemeralClient(settings=settings)
    if isinstance(location, ChromaServer):
        return _connect_server(location, settings)
    _close_collected(SharedSystemClient)
    return _open_folder(location, settings, SharedSystemClient)


@cache
def _read_settings() -> Any:
    """Read Chroma's settings from the environment, once in a process: it takes a quarter of an open."""
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _open_folder(folder: Path, settings: Any, shared: Any) -> Any:
    """Return a client of a folder that shares nothing with other clients of it in this process.

    Chroma hands out what it has open under the same name, which doesn't see what other processes have written since.
    Each client calls the folder by another name, with more slashes at its end.
    """
    import chromadb

    for number in _NUMBERS:
        name = f"{folder}{'/' * (1 + number % (len(shared._identifier_to_system) + _NAMES))}"
        if name not in shared._identifier_to_system:
            break
    try:
        client = chromadb.PersistentClient(name, settings=settings)
    except BaseException:
        # It keeps the client that couldn't start, and would return it at the next try.
        shared._identifier_to_system.pop(name, None)
        raise
    gone = os.getpid(), name, shared._identifier_to_system.get(name)
    # At process exit, it has nothing left to do.
    weakref.finalize(client, _collected.append, gone).atexit = False
    return client


def _close_collected(shared: Any) -> None:
    """Close the folders of clients that are gone and were never closed; a garbage collection mustn't wait for it."""
    with suppress(IndexError):
        while True:
            process, name, system = _collected.pop()
            if process == os.getpid() and system is not None and shared._identifier_to_system.get(name) is system:
                del shared._identifier_to_system[name]
                shared._identifier_to_refcount.pop(name, None)
                system.stop()


def _drop_inherited_clients(shared: Any) -> None:
    """In a forked child, take the parent's clients out of those that Chroma hands out again for the same folder.

    Their threads are the parent's. They are kept, since ending them would wait for these threads.
    """
    if os.getpid() not in _clients_left:
        _clients_left[os.getpid()] = dict(shared._identifier_to_system)
        shared._identifier_to_system.clear()
        shared._identifier_to_refcount.clear()


def _connect_server(server: ChromaServer, settings: Any) -> Any:
    import chromadb

    address = urlsplit(server.url or "")
    await_answer(server)
    client = chromadb.HttpClient(
        address.hostname or "",
        address.port or PORTS[address.scheme],
        ssl=address.scheme == "https",
        headers={"x-chroma-token": server.api_key} if server.api_key else None,
        settings=settings,
        tenant=server.tenant,
        database=server.database,
    )
    for session in http_sessions(client):
        session.timeout = _REQUEST_SECONDS
        session.event_hooks = {"request": [_shorten_search_timeout]}
    return client


def _shorten_search_timeout(request: Any) -> None:
    """Give a search less time than a write: its caller waits, and vectors can be compared without the server."""
    if request.url.path.endswith("/query"):
        request.extensions["timeout"] = dict.fromkeys(request.extensions["timeout"], _SEARCH_SECONDS)


def await_answer(server: ChromaServer) -> None:
    """Ask a server for a sign of life; raises `OSError` where none comes within five seconds."""
    try:
        urlopen(f"{server.url}/api/v2/heartbeat", timeout=_ANSWER_SECONDS).close()
    except HTTPError as answer:  # whatever it says, somebody is there
        answer.close()


def http_sessions(client: Any) -> list[Any]:
    """Return the HTTP connections of a server's client and of its admin client; none of any other client."""
    owners = [client, getattr(client, "_admin_client", None)]
    found = [getattr(getattr(owner, "_server", None), "_session", None) for owner in owners]
    return [session for session in found if session is not None]
