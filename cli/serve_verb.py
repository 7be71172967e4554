"""`recall-loop serve`: the HTTP service over a store (OPS-1)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import add_listen_options, add_model_options, add_store_option, given_fields

if TYPE_CHECKING:  # loaded when the verb runs
    from socket import socket

    from recall_loop.service.core.config import ServiceConfig
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Answer retrieval requests over HTTP. The store is opened for writing, and created if there is none. Without
--keys anybody on this machine may read and write, and the service listens on loopback only. Every other setting
of the service is an environment variable: see docs/operations.md.
"""
_EXAMPLE = """\
examples:
  recall-loop serve --store ./my-memory
  recall-loop serve --store ./my-memory --keys keys.json --host 0.0.0.0 --port 8321
  recall-loop serve --store postgresql://recall@db/recall --workers 4 --keys keys.json
  recall-loop serve --store ./my-memory --chroma-url http://127.0.0.1:8000 --workers 4 --keys keys.json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("serve", help="answer over HTTP", description=_DESCRIPTION, epilog=_EXAMPLE)
    add_store_option(parser, "--chroma-url", writes=True)
    add_listen_options(parser)
    parser.add_argument(
        "--workers", metavar="N", help="processes, 1 to 64; several need a Chroma server, or PostgreSQL (default: 1)"
    )
    parser.add_argument(
        "--read-only", action="store_true", default=None, help="write nothing; another process may have the store open"
    )
    parser.add_argument(
        "--request-log", type=Path, metavar="FILE", help="append each request, with its text, for `recall-loop replay`"
    )
    parser.add_argument("--access-log", action="store_true", help="log a line per request, without its text")
    add_model_options(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to end, also while the service starts; return 2 if the writer process can't start."""
    from recall_loop.cli.core.common import store_path
    from recall_loop.cli.core.interruptions import end_if_terminated
    from recall_loop.memory.store.files.store_place import shown_place

    store, config = store_path(settings), _config(args)
    _report(f"opening {shown_place(store)} and loading the embedder")  # the following imports take seconds too
    from recall_loop.service.process.lifecycle import NO_KEYS_WARNING
    from recall_loop.service.serving import serve
    from recall_loop.service.workers.supervisor import WriterStartError

    def announce(sock: socket) -> None:
        end_if_terminated()
        host, port = sock.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        if config.keys_file is None:
            _report(f"WARNING: {NO_KEYS_WARNING}")
        _report(f"serving {shown_place(store)} at http://{address}:{port}")

    try:
        serve(config, settings, access_log=args.access_log, announce=announce)
    except WriterStartError:
        return 2  # that process has reported the reason
    return 0


def _report(words: str) -> None:
    sys.stderr.write(f"recall-loop: {words}\n")
    sys.stderr.flush()


def _config(args: argparse.Namespace) -> ServiceConfig:
    from recall_loop.service.core.config import ServiceConfig

    config = ServiceConfig(**given_fields(args, ServiceConfig.model_fields))
    # When asked to serve a store, the service fails rather than silently becoming read-only.
    return config if config.read_only is not None else config.model_copy(update={"read_only": False})
