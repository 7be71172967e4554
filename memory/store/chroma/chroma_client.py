"""Clients of Chroma: over a folder, of a server, or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from recall_loop.memory.store.chroma.chroma_server import ChromaServer

ChromaLocation = Path | ChromaServer | None
"""Where Chroma is: in a folder, on a server, or in this process's memory."""
# Chroma's HTTP client has no timeout of its own.
_ANSWER_SECONDS, _REQUEST_SECONDS = 5, 60


def open_client(location: ChromaLocation) -> Any:
    """Return a client of Chroma; its errors are raised as they are."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

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


def _connect_server(server: ChromaServer, settings: Any) -> Any:
    import chromadb

    try:
        urlopen(f"{server.url}/api/v2/heartbeat", timeout=_ANSWER_SECONDS).close()
    except HTTPError as answer:  # whatever it says, somebody is there
        answer.close()
    client = chromadb.HttpClient(
        server.host,
        server.port,
        ssl=server.secure,
        headers={"x-chroma-token": server.api_key} if server.api_key else None,
        settings=settings,
        tenant=server.tenant,
        database=server.database,
    )
    for session in http_sessions(client):
        session.timeout = _REQUEST_SECONDS
    return client


def http_sessions(client: Any) -> list[Any]:
    """Return the HTTP connections of a server's client and of its admin client; none of any other client."""
    owners = [client, getattr(client, "_admin_client", None)]
    found = [getattr(getattr(owner, "_server", None), "_session", None) for owner in owners]
    return [session for session in found if session is not None]
