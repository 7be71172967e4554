"""The service's configuration, its optional parts, and the paths that need no key."""

from __future__ import annotations

import ipaddress
import json
import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from recall_loop.state.errors import UnsupportedOptionError
from recall_loop.state.settings.setting_errors import setting_error
from recall_loop.state.types import FiniteFloat, Integer

SERVICE_ENV_PREFIX = "RECALL_LOOP_SERVICE_"
MIB = 1024 * 1024
MCP_SINCE = (2, 3)
"""The first version of the SDK that the extra `mcp` takes."""


def _names(value: Any) -> Any:
    """Return the names that a variable has between commas, or as a JSON list."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return [name for part in value.split(",") if (name := part.strip())]
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("names between commas, or a JSON list of names") from error


class ServiceConfig(BaseSettings):
    """Address, keys, limits and logs of the service: `ServiceConfig(port=9000)` > `RECALL_LOOP_SERVICE_PORT` > default.

    Raises:
        InvalidInputError: names the field or the environment variable, its value and what is allowed.
    """

    model_config = SettingsConfigDict(env_prefix=SERVICE_ENV_PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: Integer = Field(8321, ge=0, le=65_535, description="Port to listen on; 0 = a free one.")
    workers: Integer = Field(
        1, ge=1, le=64, description="Worker processes; more than 1 need a Chroma server or a store in PostgreSQL."
    )
    keys_file: Path | None = Field(None, description="File of API keys, hashed; absent = no keys, on loopback only.")
    read_only: bool | None = Field(
        None,
        description="Open the store for reading only; absent = never under `recall-loop serve`, and under another "
        "server only if another process writes to the store.",
    )
    max_body_bytes: Integer = Field(
        4 * MIB, ge=1024, le=1024 * MIB, description="Maximum bytes of a request body; a longer one gets 413."
    )
    max_bulk_bytes: Integer = Field(
        256 * MIB, ge=1024, le=64 * 1024 * MIB, description="Maximum bytes of a bulk upload."
    )
    head_seconds: FiniteFloat = Field(
        10.0,
        gt=0,
        le=3600,
        description="Seconds for a request's head, and for its body before its rate counts; a slower one gets 408.",
    )
    body_bytes_per_second: Integer = Field(
        1000,
        ge=1,
        le=MIB,
        description="Minimum rate of a body after `head_seconds`; a slower one gets 408.",
    )
    concurrency: Integer = Field(
        16, ge=1, le=1000, description="Requests that one worker runs at a time; each takes a thread."
    )
    queue: Integer = Field(
        64,
        ge=0,
        le=100_000,
        description="Requests that wait in one worker; further ones get 429. With several keys, each may hold as "
        "many places, waiting and running, as it leaves free.",
    )
    rate_per_minute: Integer = Field(
        6000, ge=1, le=10_000_000, description="Requests a minute that one key may make, over all workers."
    )
    rate_burst: Integer = Field(
        200, ge=1, le=1_000_000, description="Requests that one key may make in a burst before the rate counts."
    )
    timeout_seconds: FiniteFloat = Field(
        60.0, gt=0, le=3600, description="Maximum seconds for one request, including waiting; a longer one gets 504."
    )
    bulk_timeout_seconds: FiniteFloat = Field(600.0, gt=0, le=86_400, description="The same for a bulk upload.")
    shutdown_seconds: FiniteFloat = Field(
        30.0, gt=0, le=3600, description="Seconds for requests in progress to finish at shutdown."
    )
    request_log: Path | None = Field(
        None, description="File to append each retrieval request to, with its text, for `recall-loop replay`."
    )
    open_metrics: bool = Field(False, description="Serve /metrics without a key even if keys are in use.")
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_names), NoDecode] = Field(
        (),
        description="Comma-separated host names, besides loopback, that requests may use if there are no keys.",
    )

    shared_rates: Path | None = Field(None, description="Set for workers: file of their common rate limit.")
    owner_socket: Path | None = Field(None, description="Set for workers: socket of the process that writes.")
    parent: Integer | None = Field(None, ge=1, description="Set for workers: process whose end also ends them.")

    def __init__(self, **values: Any) -> None:
        """Read the environment, then take `values` over it."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise setting_error(error, values, ServiceConfig, SERVICE_ENV_PREFIX) from error


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means only this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def mcp_version() -> str | None:
    """Return the version of the SDK that is installed; None where there is none."""
    try:
        return version("mcp")
    except PackageNotFoundError:
        return None


def has_mcp() -> bool:
    """Return whether the SDK is installed in a version that the extra `mcp` allows; other packages bring older ones."""
    numbers = re.findall(r"\d+", mcp_version() or "")
    return find_spec("mcp") is not None and tuple(map(int, numbers[:2])) >= MCP_SINCE


def require_mcp() -> None:
    """Raise `UnsupportedOptionError` where the extra `mcp` isn't installed, or in an earlier version."""
    if not has_mcp():
        found = f"; installed is mcp {mcp_version()}" if mcp_version() else ""
        raise UnsupportedOptionError("command", "recall-loop mcp", f"pip install 'recall-loop[mcp]' first{found}")


_SCRIPTS = "access app ask chart dom facts http memory problems record replay runs welcome"
PAGE_FILES = ("icon.svg", "style.css", "words.json", *(f"{name}.js" for name in _SCRIPTS.split()))
PAGE_PATHS = frozenset({"/", *(f"/page/{name}" for name in PAGE_FILES)})
# Paths for orchestrators and descriptions of the service: without a key and outside the limits.
OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json"}) | PAGE_PATHS
