"""Where a store is: a folder, or the address of a PostgreSQL database (HOST-1)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard
from urllib.parse import unquote

from recall_loop.memory.store.files.store_files import REMOVED_MEANWHILE, file_identity
from recall_loop.state.errors import InvalidInputError, StoreLockedError, StoreUnavailableError, UnsupportedOptionError

ALLOWED_PLACES = "the path of a folder, or postgresql://user@host/database"
_SCHEMES = ("postgresql://", "postgres://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# Used as a folder's name, it would contain the password.
_MISSPELT = re.compile(r"\s*postgres(ql)?:", re.IGNORECASE)
# As libpq parses it; then the characters that must be encoded: a slash, and a slash before a question mark.
_LOGIN = re.compile(r"([^/]*)@")
_LOGINS = (_LOGIN, re.compile(r"([^?]*)@"), re.compile(r"([^:\[]*:(?!\d*(?:[/?,]|$)).*)@"))


class NoStoreError(StoreUnavailableError):
    """The place can be read, and holds no store yet, nor anything that a store could be rebuilt from."""


def make_folder(path: Path) -> None:
    """Make a store's folder, which only its owner may read, and those above it, where there is none.

    Raises:
        OSError: as `mkdir` does.
        StoreLockedError: there was one, which somebody removed meanwhile, as a restore does.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        if path.is_file() or path.is_symlink():
            raise
        raise StoreLockedError(f"{path}: {REMOVED_MEANWHILE}") from error


def folder_mark(folder: Path) -> str | None:
    """Return a mark of a folder that its copies don't have; None if it is missing. Raises `OSError` as `stat` does."""
    identity = file_identity(folder)
    return None if identity is None else f"{identity[0]} {identity[1]} {folder}"


def is_mark_of(mark: str, folder: Path) -> bool:
    """Return whether a folder is the one that was marked; it may be another name's now, and the device another number.

    A renamed folder keeps device and inode; a restart may number devices anew, and the root of each volume has the
    same inode. A missing folder counts as the same: nothing can be told of it.
    """
    current = folder_mark(folder)
    if current is None:
        return True
    (device, inode, name), (device_now, inode_now, name_now) = mark.split(" ", 2), current.split(" ", 2)
    return inode == inode_now and (device == device_now or name == name_now)


def is_address(place: object) -> TypeGuard[str]:
    """Return whether a store's place is named by an address rather than by a folder."""
    return isinstance(place, str) and place.startswith(_SCHEMES)


def check_store(store: object) -> None:
    """Check that a caller's store is one; raises `InvalidInputError` where it isn't."""
    if not hasattr(store, "view"):
        allowed = "a MemoryStore, such as `store` of a Memory"
        if isinstance(store, str | Path):
            allowed += "; a folder or an address is the `path` of Memory(…) and of MemoryStore.open(…)"
        raise InvalidInputError("store", store, allowed)


def checked_place(place: object, field: str = "path") -> str | Path:
    """Return the place that a caller names: an address as it is, or a folder's path, with `~` as its user's home.

    Nothing is opened.

    Raises:
        InvalidInputError: it is neither, or an address that is misspelt or was made a path, which loses a slash; errors
            call it `field`.
        UnsupportedOptionError: it is an address of something else than PostgreSQL.
    """
    if is_address(place):
        return place
    if not isinstance(place, str | Path) or not str(place).strip():
        raise InvalidInputError(field, place, ALLOWED_PLACES)
    if isinstance(place, str) and (found := _SCHEME.match(place)):  # the rest may hold a password
        raise UnsupportedOptionError(field, f"{found[1]}://…", ALLOWED_PLACES)
    if _MISSPELT.match(str(place)):
        got = "Path('postgresql:/…')" if isinstance(place, Path) else "an address that doesn't begin with postgresql://"
        raise InvalidInputError(field, got, f"{ALLOWED_PLACES}; an address is text, not a Path")
    with suppress(ValueError):  # no name of a user, nor of a folder: whoever opens it reports that
        return Path(os.path.expanduser(place))  # Path's own raises for a user who isn't known
    return Path(place)


def checked_file(path: object, field: str = "path") -> Path:
    """Return the path of a file or folder that a caller names; raises `InvalidInputError` for anything else."""
    if not isinstance(path, str | Path) or not str(path).strip():
        raise InvalidInputError(field, path, "the path of a file or folder, as text or a Path")
    return Path(path)


def is_within(path: Path, folder: Path | None) -> bool:
    """Return whether a path is a store's folder or inside it: a copy there would be lost with the store."""
    return folder is not None and path.resolve().is_relative_to(folder.resolve())


def login_of(address: str) -> str:
    """Return the part before an address's host: user and password, or ""."""
    found = _LOGIN.match(address.partition("://")[2])
    return found[1] if found else ""


def shown_place(place: str | Path) -> str:
    """Return a store's place for a message: an address, sound or not, of whatever it is, without its passwords."""
    scheme, slashes, rest = str(place).partition("://")
    if not slashes:
        return scheme
    login = next((found[1] for pattern in _LOGINS if (found := pattern.match(rest))), "")
    user, colon, _ = login.partition(":")
    where, question, query = rest[len(login) :].partition("?")
    options = "&".join(map(_shown_option, query.split("&")))
    return f"{scheme}://{user}{':***' if colon else ''}{where}{question}{options}"


def _shown_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    return f"{name}{equals}***" if unquote(name).lower().endswith("password") else option
