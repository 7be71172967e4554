"""Chroma servers: their addresses, and clients for them and for folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from recall_loop.memory.store.files.store_files import SERVER_FILE, write_atomically
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from recall_loop.state.settings.settings import Settings


DEFAULT_TENANT, DEFAULT_DATABASE = "default_tenant", "default_database"
_PREFIX = "chroma_"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ChromaServer:
    """Address of a Chroma server.

    Attributes:
        url: `http://host:port` or `https://host:port`; None = the one that the store has noted.
        tenant: Chroma's own tenant, which holds databases; has nothing to do with the store's tenants.
        database: Chroma's database within it.
        api_key: key of Chroma Cloud, or of a proxy that takes `x-chroma-token`. Never written anywhere.
        collection: the store's collection. Absent = the one that the store has noted, else a new one.

    Raises:
        InvalidInputError: `url` is no address of a server.
    """

    url: str | None = None
    tenant: str = DEFAULT_TENANT
    database: str = DEFAULT_DATABASE
    api_key: str | None = field(default=None, repr=False)
    collection: str | None = None

    def __post_init__(self) -> None:
        """Check the address."""
        if self.url is not None:
            object.__setattr__(self, "url", _checked(self.url))

    def note(self) -> dict[str, str]:
        """Return what a store notes of it: everything but the key."""
        known = {name: value for name, value in asdict(self).items() if name != "api_key" and value is not None}
        return {_PREFIX + name: str(value) for name, value in known.items()}

    def write(self, store: Path) -> None:
        """Note it in a file of the store's folder too, for the day when the sidecar is lost.

        Raises:
            OSError: the file can't be written.
        """
        write_atomically(store / SERVER_FILE, json.dumps(self.note(), indent=1))


def server_from_settings(settings: Settings) -> ChromaServer | None:
    """Return the server that the settings name; None if they name neither a server nor a key."""
    if settings.chroma_url is None and settings.chroma_api_key is None:
        return None
    return ChromaServer(
        settings.chroma_url,
        settings.chroma_tenant,
        settings.chroma_database,
        settings.chroma_api_key,
        settings.chroma_collection,
    )


def server_from_meta(meta: Mapping[str, str]) -> ChromaServer | None:
    """Return the server that notes of a store name, or None."""
    if _PREFIX + "url" not in meta:
        return None
    names = ("url", "tenant", "database", "collection")
    return ChromaServer(**{name: meta[_PREFIX + name] for name in names if _PREFIX + name in meta})


def is_server_note(name: str) -> bool:
    """Return whether a key of a store's notes is about its server."""
    return name.startswith(_PREFIX)


def read_server_file(store: Path) -> ChromaServer | None:
    """Return the server that the file of a store's folder names, or None where there is no usable one."""
    try:
        found = json.loads((store / SERVER_FILE).read_text(encoding="utf-8"))
        return server_from_meta(found) if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None


def resolve_server(
    path: Path | str, known: ChromaServer | None, given: ChromaServer | None, *, local: bool
) -> ChromaServer | None:
    """Return the server of a store: the noted one with the given key, or the given one for a new store.

    Args:
        path: the store's place, for the message.
        known: the server that the store has noted.
        given: the server that the caller names.
        local: whether the store keeps its vectors in its own folder.

    Raises:
        InvalidInputError: the store belongs to another server, or to none.
    """
    if given is None or (given.url is None and known is None):
        return known
    if known is None:
        if local:
            raise InvalidInputError("url", given.url, f"none: {path} keeps its vectors in its own folder")
        return given
    if given.url is not None and (given.url, given.tenant, given.database) != (
        known.url,
        known.tenant,
        known.database,
    ):
        raise InvalidInputError(
            "url",
            f"{given.url} {given.tenant}/{given.database}",
            f"{known.url} {known.tenant}/{known.database}, to which {path} belongs; "
            f"to move it: recall-loop store rebuild --store {path} --url {given.url} --move",
        )
    return replace(known, api_key=given.api_key)


def _checked(url: str) -> str:
    words = "the address of a Chroma server: http://host:port or https://host:port"
    try:
        parts = urlsplit(url)
        port = parts.port
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError("url", url, words) from error
    extra = parts.path.rstrip("/") or parts.query or parts.fragment or parts.username or port == 0
    if parts.scheme not in _PORTS or not parts.hostname or extra:
        raise InvalidInputError("url", url, words)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


ChromaLocation = Path | ChromaServer | None
"""Where Chroma is: in a folder, on a server, or in this process's memory."""
# The clients that each process found when it was forked; none in the first one.
_clients_left: dict[int, dict[str, Any]] = {os.getpid(): {}}
# Chroma's HTTP client has no timeout of its own.
_ANSWER_SECONDS, _SEARCH_SECONDS, _REQUEST_SECONDS = 5, 10, 60


def open_client(location: ChromaLocation) -> Any:
    """Return a client of Chroma; its errors are raised as they are."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    _leave_clients_of_parent(SharedSystemClient._identifier_to_system)
    settings = Settings(anonymized_telemetry=False)
    if location is None:
        return chromadb.EphemeralClient(settings=settings)
    if isinstance(location, ChromaServer):
        return _connect_server(location, settings)
    try:
        return chromadb.PersistentClient(str(location), settings=settings)
    except BaseException:
        # It keeps the client that couldn't start, and would hand it out at the next try.
        SharedSystemClient._identifier_to_system.pop(str(location), None)
        raise


def _leave_clients_of_parent(clients: dict[str, Any]) -> None:
    """In a forked child, take the parent's clients out of those that Chroma hands out again for the same folder.

    Their threads are the parent's. They are kept, since ending them would wait for these threads.
    """
    if os.getpid() not in _clients_left:
        _clients_left[os.getpid()] = dict(clients)
        clients.clear()


def _connect_server(server: ChromaServer, settings: Any) -> Any:
    import chromadb

    address = urlsplit(server.url or "")
    await_answer(server)
    client = chromadb.HttpClient(
        address.hostname or "",
        address.port or _PORTS[address.scheme],
        ssl=address.scheme == "https",
        headers={"x-chroma-token": server.api_key} if server.api_key else None,
        settings=settings,
        tenant=server.tenant,
        database=server.database,
    )
    for session in http_sessions(client):
        session.timeout = _REQUEST_SECONDS
        session.event_hooks = {"request": [_hurry_searches]}
    return client


def _hurry_searches(request: Any) -> None:
    """Give a search less time than a write: somebody waits for it, and vectors can be compared without the server."""
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
