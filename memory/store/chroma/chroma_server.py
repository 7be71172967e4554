"""Chroma servers: their addresses, and where a store notes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from recall_loop.memory.store.files.store_files import SERVER_FILE, write_atomically
from recall_loop.memory.store.files.store_place import folder_mark
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from recall_loop.state.settings.settings import Settings


DEFAULT_TENANT, DEFAULT_DATABASE = "default_tenant", "default_database"
_PREFIX = "chroma_"
FOLDER_NOTE = "folder"
"""Note of the folder whose collection it is: a copy of that folder takes one of its own."""
PORTS = {"http": 80, "https": 443}


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
        if self.url is not None:
            object.__setattr__(self, "url", _checked(self.url))

    def note(self) -> dict[str, str]:
        """Return what a store notes of it: everything but the key."""
        known = {name: value for name, value in asdict(self).items() if name != "api_key" and value is not None}
        return {_PREFIX + name: str(value) for name, value in known.items()}

    def write(self, store: Path) -> None:
        """Note it in a file of the store's folder too, for the day when the sidecar is lost."""
        write_atomically(store / SERVER_FILE, json.dumps({**self.note(), FOLDER_NOTE: folder_mark(store)}, indent=1))


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
        return server_from_meta(_read_notes(store))
    except (OSError, ValueError):
        return None


def read_folder_note(store: Path) -> dict[str, str]:
    """Return what the file of a store's folder notes of the folder it was written for; empty if it doesn't."""
    with suppress(OSError, ValueError):
        return {name: str(mark) for name, mark in _read_notes(store).items() if name == FOLDER_NOTE and mark}
    return {}


def _read_notes(store: Path) -> dict[str, str]:
    found = json.loads((store / SERVER_FILE).read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def resolve_server(
    path: Path | str, known: ChromaServer | None, given: ChromaServer | None, *, local: bool
) -> ChromaServer | None:
    """Return the server of a store: the noted one with the given key, or the given one for a new store.

    `local` says whether the store keeps its vectors in its own folder.

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
    if parts.scheme not in PORTS or not parts.hostname or extra:
        raise InvalidInputError("url", url, words)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


ChromaLocation = Path | ChromaServer | None
"""Where Chroma is: in a folder, on a server, or in this process's memory."""
