"""Running the service under uvicorn: one process, or several."""

from __future__ import annotations

import math
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from uvicorn import Config

    from recall_loop.service.core.config import ServiceConfig
    from recall_loop.state.settings.settings import Settings

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 30
# A worker that hasn't answered its supervisor for this long is replaced.
_HEALTHCHECK_SECONDS = 30


def bind_socket(config: ServiceConfig) -> socket.socket:
    """Return a socket that is bound to the service's address; raise `InvalidInputError` where it can't be had."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((config.host.strip("[]"), config.port))
        sock.set_inheritable(True)
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        raise InvalidInputError(
            "--host and --port", f"{config.host}:{config.port}", f"a free address ({reason})"
        ) from error
    return sock


def check_workers(config: ServiceConfig, settings: Settings) -> None:
    """Raise `InvalidInputError` where several workers can't work: a store in memory, in one folder, or only read."""
    from pathlib import Path

    from recall_loop.memory.store.chroma import chroma_server
    from recall_loop.memory.store.files.store_place import is_address

    path = settings.store_path
    if config.workers == 1 or is_address(path):  # with PostgreSQL, each process writes by itself
        return
    known = path is not None and chroma_server.read_server_file(Path(path)) is not None
    if path is None or (settings.chroma_url is None and not known):
        raise InvalidInputError(
            "--workers",
            config.workers,
            "1 with vectors in the store's folder; more need --chroma-url, a Chroma server, or a store in PostgreSQL",
        )
    if config.read_only:  # one of the processes would write anyway
        raise InvalidInputError("--workers", config.workers, "1 with --read-only")


def check_request_log(config: ServiceConfig) -> None:
    """Raise `InvalidInputError` where the log of requests can't be written, before anything is served."""
    from recall_loop.service.core.request_log import RequestLog

    if config.request_log is None:
        return
    try:
        RequestLog(config.request_log).close()
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror or error})"
        raise InvalidInputError("request_log", str(config.request_log), allowed) from error


def uvicorn_config(config: ServiceConfig, app: Any, *, access_log: bool, logs: Settings | None = None) -> Config:
    """Return uvicorn's configuration for an application, or for the name of a function that makes one.

    `logs` are the settings of the process's logging; without them it is left as it is.
    """
    from uvicorn import Config

    from recall_loop.service.process.http_protocol import GuardedProtocol

    return Config(
        app,
        factory=isinstance(app, str),
        http=cast("type[GuardedProtocol]", partial(GuardedProtocol, head_seconds=config.head_seconds)),
        workers=config.workers,
        lifespan="on",
        ws="none",
        backlog=_BACKLOG,
        proxy_headers=False,  # otherwise, callers could claim any address
        server_header=False,
        access_log=access_log,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(config.shutdown_seconds),
        timeout_worker_healthcheck=_HEALTHCHECK_SECONDS,
        log_config=None if logs is None else _logging(logs),
    )


def _logging(settings: Settings) -> dict[str, Any]:
    """Return the logging configuration: uvicorn's lines and ours in one format, all on standard error."""
    lines = {
        "()": "recall_loop.telemetry.logs.make_formatter",
        "log_format": settings.log_format,
        "content": settings.trace_content,
    }
    handler = {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": lines},
        "filters": {"without_query": {"()": "recall_loop.telemetry.logs.QueryStringFilter"}},
        "handlers": {"lines": handler},
        "loggers": {
            "uvicorn": {"level": "INFO"},
            "uvicorn.access": {"filters": ["without_query"]},
            "recall_loop": {"level": settings.log_level.upper()},
        },
        "root": {"handlers": ["lines"], "level": "WARNING"},
    }


def serve(config: ServiceConfig, settings: Settings, *, access_log: bool, announce: Any) -> None:
    """Serve until stopped; `announce` is called with the socket when it takes connections.

    Raises `RecallError` where a setting isn't allowed, or the store or the keys can't be opened; else as `run_workers`.
    """
    check_workers(config, settings)
    check_request_log(config)
    if config.workers > 1:
        _serve_several(config, settings, access_log=access_log, announce=announce)
    else:
        _serve_one(config, settings, access_log=access_log, announce=announce)


def _serve_one(config: ServiceConfig, settings: Settings, *, access_log: bool, announce: Any) -> None:
    from uvicorn import Server

    from recall_loop.graph.frozen_heap import freeze_heap
    from recall_loop.service.app import create_app

    app = create_app(config, settings=settings)
    with bind_socket(config) as sock:
        app.state.service.open()  # errors of the store are reported before the server starts
        freeze_heap()
        sock.listen()  # clients that connect as soon as the address is printed wait, and aren't refused
        announce(sock)
        Server(uvicorn_config(config, app, access_log=access_log, logs=settings)).run(sockets=[sock])


def _serve_several(config: ServiceConfig, settings: Settings, *, access_log: bool, announce: Any) -> None:
    from recall_loop.service.process.lifecycle import load_keys
    from recall_loop.service.workers.remote_writer import check_shared_store
    from recall_loop.service.workers.supervisor import run_workers

    load_keys(config)
    check_shared_store(config, settings)
    with bind_socket(config) as sock:
        sock.listen()
        announce(sock)
        app = "recall_loop.service.app:create_app"
        uvicorn = uvicorn_config(config, app, access_log=access_log, logs=settings)
        run_workers(config, settings, uvicorn, sock)
