"""API keys: each belongs to one tenant, and the file holds only their hashes.

A key is `rl_ID_SECRET`. The secret has 256 random bits, so a single SHA-256 is as good as a slow hash: there is nothing
to guess. The file is JSON, written whole, and read again by a running service when it has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recall_loop.memory.store.files.store_files import write_atomically
from recall_loop.state.errors import InvalidInputError, RecallError, invalid_input_from
from recall_loop.state.types import Identifier, Timestamp

KEY_PREFIX = "rl"
_SECRET_BYTES = 32
_NO_HASH = "0" * 64


class KeyRole(StrEnum):
    """Permissions of a key: read; also write records; also erase whole scopes. `metrics` may read /metrics only."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    METRICS = "metrics"


class Key(BaseModel):
    """A key as it is stored; never the key itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[0-9a-f]{12}$", description="Public part, for lists and logs.")
    tenant: Identifier = Field(description="Tenant whose memory it opens.")
    role: KeyRole = KeyRole.WRITE
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False, description="Hash of the secret part.")
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None

    def state(self, now: datetime) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    @property
    def works_until(self) -> datetime | None:
        """When the key ends, or ended: it expires, or is revoked, also after a rotation's grace. None is never."""
        return min((end for end in (self.expires_at, self.revoked_at) if end is not None), default=None)


class _KeysFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(1, ge=1, le=1)
    keys: list[Key] = []


class KeysUnreadableError(RecallError):
    """The file of keys is missing or malformed: no request is admitted until it is repaired."""


Delivery = Callable[[Key, str], object]


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file; raises `KeysUnreadableError` where it can't be read, or isn't a file of keys."""
    try:
        return _KeysFile.model_validate_json(path.read_bytes()).keys
    except OSError as error:
        raise KeysUnreadableError(f"{path}: the keys can't be read: {error.strerror}") from error
    except ValidationError as error:
        raise KeysUnreadableError(f"{path}: not a file of keys: {invalid_input_from(error)}") from error


def add_key(
    path: Path, tenant: str, role: KeyRole, expires_at: datetime | None = None, *, deliver: Delivery = lambda *_: None
) -> tuple[Key, str]:
    """Add a key to a file, which is made if need be; return it, and the plain key, which is kept nowhere.

    `deliver` is given both first; where it raises, the file stays as it is. An unfit `tenant` raises
    `InvalidInputError`, and a file that isn't one of keys `KeysUnreadableError`.
    """
    with _locked_keys(path) as keys:
        key, plain = _new_key(tenant, role, expires_at)
        keys.append(key)
        deliver(key, plain)
    return key, plain


def revoke_key(path: Path, key_id: str) -> Key:
    """Revoke a key from now on; one that is revoked already stays so. Raises as `add_key`, also for an unknown id."""
    with _locked_keys(path) as keys:
        return _revoke(keys, key_id, datetime.now(UTC))


def rotate_key(
    path: Path, key_id: str, old_until: datetime | None = None, *, deliver: Delivery = lambda *_: None
) -> tuple[Key, str]:
    """Add a key of the same tenant and role, and revoke the old one, from now or from `old_until` on.

    `deliver` is as of `add_key`. Raises as that, and `InvalidInputError` where there is no such key, or it isn't
    active, or has been rotated before.
    """
    now = datetime.now(UTC)
    with _locked_keys(path) as keys:
        old = _find_key(keys, key_id)
        if old.state(now) != "active":
            raise InvalidInputError("ID", key_id, f"the id of an active key; this one is {old.state(now)}")
        if old.revoked_at is not None:
            until = f"{old.works_until:%Y-%m-%d %H:%M} UTC"
            raise InvalidInputError(
                "ID", key_id, f"a key that isn't replaced yet; this one is, and works until {until}"
            )
        key, plain = _new_key(old.tenant, old.role, old.expires_at)
        keys.append(key)
        _revoke(keys, key_id, old_until or now)
        deliver(key, plain)
    return key, plain


def _new_key(tenant: str, role: KeyRole, expires_at: datetime | None) -> tuple[Key, str]:
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
    try:
        key = Key(
            id=key_id,
            tenant=tenant,
            role=role,
            sha256=_hash(secret),
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )
    except ValidationError as error:
        raise invalid_input_from(error, schema=Key.model_json_schema()) from error
    return key, f"{KEY_PREFIX}_{key_id}_{secret}"


def _find_key(keys: list[Key], key_id: str) -> Key:
    found = next((key for key in keys if key.id == key_id), None)
    if found is None:
        raise InvalidInputError("ID", key_id, "the id of a key, as `recall-loop keys list` shows it")
    return found


def _revoke(keys: list[Key], key_id: str, at: datetime) -> Key:
    old = _find_key(keys, key_id)
    if old.revoked_at is not None and old.revoked_at <= at:
        return old
    revoked = old.model_copy(update={"revoked_at": at})
    keys[keys.index(old)] = revoked
    return revoked


@contextmanager
def _locked_keys(path: Path) -> Iterator[list[Key]]:
    """Give the keys of a file, and write them back whole; two commands at once take turns."""
    lock = path.with_name(f"{path.name}.lock")
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        keys = read_keys(path) if path.exists() else []
        yield keys
        text = json.dumps(_KeysFile(keys=keys).model_dump(mode="json", exclude_none=True), indent=1) + "\n"
        write_atomically(path, text, mode=0o600)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class KeyRing:
    """The keys of a file as a running service knows them: checked with each request, read again when changed.

    A file that can't be read raises `KeysUnreadableError`; until it can, nobody is let in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, Key] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the file again, if it has changed."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise KeysUnreadableError(f"{self.path}: the keys can't be read: {error.strerror}") from error
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._keys = {key.id: key for key in read_keys(self.path)}
            self._seen = seen

    @property
    def several(self) -> bool:
        """Whether there is more than one key, revoked ones and those for figures included."""
        return len(self._keys) > 1

    def find(self, plain: str) -> Key | None:
        """Return the active key that `plain` is, or None."""
        self.refresh()
        mark, _, rest = plain.partition("_")
        key_id, _, secret = rest.partition("_")
        key = self._keys.get(key_id)
        # Compared even if the id doesn't exist, so that the time reveals nothing.
        same = hmac.compare_digest(_hash(secret), key.sha256 if key is not None else _NO_HASH)
        if key is None or mark != KEY_PREFIX or not same or key.state(datetime.now(UTC)) != "active":
            return None
        return key
